package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Paces of streams.
const (
	// heartbeat is how long a followed stream is silent before it sends an empty frame.
	heartbeat = time.Second
	// filePoll is how often a followed file is looked at.
	filePoll = 500 * time.Millisecond
)

// frames writes pieces as JSON frames, or as they are.
type frames struct {
	c     *call
	plain bool
	begun bool
}

func (f *frames) begin(contentType string) {
	if f.begun {
		return
	}
	f.begun = true
	f.c.w.Header().Set("Content-Type", contentType)
	f.c.w.Header().Set("Cache-Control", "no-cache")
	f.c.w.WriteHeader(http.StatusOK)
}

func (f *frames) send(frame api.StreamFrame) error {
	body := frame.Data
	contentType := "text/plain"
	if !f.plain {
		contentType = "application/json"
		var err error
		if body, err = json.Marshal(frame); err != nil {
			return err
		}
	}
	f.begin(contentType)
	if _, err := f.c.w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(f.c.w).Flush()
}

// origin reads where a stream begins.
func (c *call) origin() (string, int64, error) {
	origin := cmp.Or(c.params.Get("origin"), api.OriginStart)
	if origin != api.OriginStart && origin != api.OriginEnd {
		return "", 0, fault.New(fault.Invalid, "origin %q is neither start nor end", origin)
	}
	offset, err := number(c.params, "offset")
	if err == nil && offset < 0 {
		err = fault.New(fault.Invalid, "invalid offset value %d: want a place from 0", offset)
	}
	return origin, offset, err
}

func logs(c *call) (any, error) {
	task, kind := c.params.Get("task"), c.params.Get("type")
	if task == "" {
		return nil, fault.New(fault.Invalid, "must provide task name")
	}
	if kind != api.LogStdout && kind != api.LogStderr {
		return nil, fault.New(fault.Invalid, "must provide log type (stdout/stderr)")
	}
	follow, err := boolean(c.params, "follow")
	if err != nil {
		return nil, err
	}
	plain, err := boolean(c.params, "plain")
	if err != nil {
		return nil, err
	}
	origin, offset, err := c.origin()
	if err != nil {
		return nil, err
	}
	node, a, err := onNode(c)
	if err != nil {
		return nil, err
	}
	if err := checkTask(a, task); err != nil {
		return nil, err
	}
	req := &api.AllocLogsRequest{
		AllocID: a.ID, Task: task, Kind: kind, Origin: origin, Offset: offset, Limit: pieceBytes, QueryOptions: c.reads(),
	}
	if follow {
		req.Wait = heartbeat
	}
	return nil, sendLogs(c, node, req, &frames{c: c, plain: plain})
}

// sendLogs asks for piece after piece. Without follow it ends at the end of the newest file, with
// follow when the task will write no more.
func sendLogs(c *call, node wire.Caller, req *api.AllocLogsRequest, out *frames) error {
	for {
		piece, err := wire.ClientAllocLogs.Call(c.ctx(), node, req)
		if err != nil {
			return c.broken(out.begun, err)
		}
		var frame api.StreamFrame
		if len(piece.Data) > 0 {
			frame = api.StreamFrame{Offset: piece.Cursor.Offset, Data: piece.Data, File: piece.File}
		}
		over := piece.End && (req.Wait == 0 || piece.Ended)
		if len(piece.Data) > 0 || !over || out.plain {
			if err := out.send(frame); err != nil {
				return errStreamed
			}
		}
		if over {
			out.begin("application/json")
			return errStreamed
		}
		req.Cursor = piece.Cursor
	}
}

func fileStream(c *call) (any, error) {
	follow := true
	var err error
	if c.params.Has("follow") {
		if follow, err = boolean(c.params, "follow"); err != nil {
			return nil, err
		}
	}
	origin, offset, err := c.origin()
	if err != nil {
		return nil, err
	}
	node, req, err := c.namedFile()
	if err != nil {
		return nil, err
	}
	if origin == api.OriginEnd {
		out, err := wire.ClientAllocFileStat.Call(c.ctx(), node, req)
		if err != nil {
			return nil, err
		}
		offset = max(0, out.Info.Size-offset)
	}
	req.Offset, req.Limit = offset, pieceBytes
	return nil, sendStream(c, node, req, follow, &frames{c: c})
}

func sendStream(c *call, node wire.Caller, req *api.AllocFileRequest, follow bool, out *frames) error {
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	last := time.Now()
	for {
		piece, err := wire.ClientAllocFileRead.Call(c.ctx(), node, req)
		if err != nil {
			return c.broken(out.begun, err)
		}
		req.Offset += int64(len(piece.Data))
		frame := api.StreamFrame{}
		if len(piece.Data) > 0 {
			frame = api.StreamFrame{Offset: req.Offset, Data: piece.Data, File: req.Path}
		}
		if len(piece.Data) > 0 || !out.begun || time.Since(last) >= heartbeat {
			last = time.Now()
			if err := out.send(frame); err != nil {
				return errStreamed
			}
		}
		if len(piece.Data) > 0 && !piece.EOF {
			continue
		}
		if !follow {
			return errStreamed
		}
		select {
		case <-tick.C:
		case <-c.ctx().Done():
			return errStreamed
		}
	}
}
