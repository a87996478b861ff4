// Package events has the HTTP endpoint of the event stream.
package events

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of events.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/event/stream", Serve: stream, Stays: true},
}

const (
	// heartbeatEvery is how long a stream is silent before it sends an empty object.
	heartbeatEvery = 30 * time.Second
	// sendBytes is how much is collected for one write.
	sendBytes = 64 << 10
)

// stream writes a line per raft index until the client leaves or the servers end the subscription. The first line is a
// heartbeat, so that a client that was refused gets the status of its refusal.
func stream(c *endpoint.Call) (any, error) {
	req := &api.EventsRequest{Topics: c.Params["topic"], QueryOptions: api.QueryOptions{
		Region: c.Query.Region, Namespace: c.Query.Namespace, AuthToken: c.Query.AuthToken, MinIndex: c.Query.MinIndex, MaxWait: heartbeatEvery,
	}}
	out, err := wire.EventRead.Call(c.Context(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	if out.Cursor == (api.EventCursor{}) {
		return nil, fault.New(fault.Internal, "the server returned no position in the events")
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "close")
	if c.R.ProtoMajor == 1 {
		h.Set("Transfer-Encoding", "identity") // lines without the frames of chunks
	}
	w := &lines{to: c.W}
	for {
		if len(out.Data) == 0 && out.Cursor.Event == 0 { // not within a line
			out.Data = [][]byte{[]byte("{}\n")}
		}
		if w.send(out.Data) != nil {
			return nil, endpoint.ErrStreamed // the client no longer reads
		}
		req.Cursor = out.Cursor
		if out, err = wire.EventRead.Call(c.Context(), c.Servers, req); err != nil {
			break
		}
	}
	if c.Context().Err() == nil {
		c.Log.Debug("event stream ended", "client", c.R.RemoteAddr, "error", err)
		w.last(err, req.Cursor.Event > 0)
	}
	return nil, endpoint.ErrStreamed
}

// lines writes parts of lines.
type lines struct {
	to  http.ResponseWriter
	buf []byte
}

// send writes parts and flushes them. Small parts are collected.
func (l *lines) send(parts [][]byte) error {
	l.buf = l.buf[:0]
	for _, part := range parts {
		if len(part) >= sendBytes || len(parts) == 1 {
			if err := l.write(); err != nil {
				return err
			}
			if _, err := l.to.Write(part); err != nil {
				return err
			}
			continue
		}
		if l.buf = append(l.buf, part...); len(l.buf) >= sendBytes {
			if err := l.write(); err != nil {
				return err
			}
		}
	}
	if err := l.write(); err != nil {
		return err
	}
	return http.NewResponseController(l.to).Flush()
}

func (l *lines) write() error {
	if len(l.buf) == 0 {
		return nil
	}
	_, err := l.to.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// last writes why the stream ends. Within a line it begins a new one: the client sees that something is missing.
func (l *lines) last(err error, within bool) {
	text := err.Error()
	if errors.Is(err, fault.Denied) {
		text = "Permission denied: the token of the subscriber was changed, deleted or has expired"
	}
	body, _ := json.Marshal(api.Events{Error: text})
	if within {
		body = append([]byte("\n"), body...)
	}
	_ = l.send([][]byte{append(body, '\n')})
}
