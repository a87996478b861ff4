package allocs

import (
	"cmp"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Paces of streams.
const (
	// heartbeat is how long a followed stream is silent before it sends an empty frame.
	heartbeat = time.Second
	// filePoll is how often a followed file is checked.
	filePoll = 500 * time.Millisecond
)

// originOf reads where a stream begins.
func originOf(c *endpoint.Call) (string, int64, error) {
	origin := cmp.Or(c.Params.Get("origin"), api.OriginStart)
	if origin != api.OriginStart && origin != api.OriginEnd {
		return "", 0, fault.New(fault.Invalid, "origin %q is neither start nor end", origin)
	}
	offset, err := c.Int("offset")
	if err == nil && offset < 0 {
		err = fault.New(fault.Invalid, "invalid offset value %d: want a place from 0", offset)
	}
	return origin, offset, err
}

func logs(c *endpoint.Call) (any, error) {
	task, kind := c.Params.Get("task"), c.Params.Get("type")
	if task == "" {
		return nil, fault.New(fault.Invalid, "must provide task name")
	}
	if kind != api.LogStdout && kind != api.LogStderr {
		return nil, fault.New(fault.Invalid, "must provide log type (stdout/stderr)")
	}
	follow, err := c.Bool("follow")
	if err != nil {
		return nil, err
	}
	plain, err := c.Bool("plain")
	if err != nil {
		return nil, err
	}
	origin, offset, err := originOf(c)
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
		AllocID: a.ID, Task: task, Kind: kind, Origin: origin, Offset: offset, Limit: pieceBytes, QueryOptions: c.Query,
	}
	if follow {
		req.Wait = heartbeat
	}
	return nil, sendLogs(c, node, req, &endpoint.Frames{Call: c, Plain: plain})
}

// sendLogs asks for piece after piece. Without follow it ends at the end of the newest file, with
// follow when the task will write no more.
func sendLogs(c *endpoint.Call, node wire.Caller, req *api.AllocLogsRequest, out *endpoint.Frames) error {
	for {
		piece, err := wire.ClientAllocLogs.Call(c.Context(), node, req)
		if err != nil {
			return c.Broken(out.Begun(), err)
		}
		var frame api.StreamFrame
		if len(piece.Data) > 0 {
			frame = api.StreamFrame{Offset: piece.Cursor.Offset, Data: piece.Data, File: piece.File}
		}
		over := piece.End && (req.Wait == 0 || piece.Ended)
		if len(piece.Data) > 0 || !over || out.Plain {
			if err := out.Send(frame); err != nil {
				return endpoint.ErrStreamed
			}
		}
		if over {
			out.Begin("application/json")
			return endpoint.ErrStreamed
		}
		req.Cursor = piece.Cursor
	}
}

func fileStream(c *endpoint.Call) (any, error) {
	follow := true
	var err error
	if c.Params.Has("follow") {
		if follow, err = c.Bool("follow"); err != nil {
			return nil, err
		}
	}
	origin, offset, err := originOf(c)
	if err != nil {
		return nil, err
	}
	node, req, err := namedFile(c)
	if err != nil {
		return nil, err
	}
	if origin == api.OriginEnd {
		out, err := wire.ClientAllocFileStat.Call(c.Context(), node, req)
		if err != nil {
			return nil, err
		}
		offset = max(0, out.Info.Size-offset)
	}
	req.Offset, req.Limit = offset, pieceBytes
	return nil, sendStream(c, node, req, follow, &endpoint.Frames{Call: c})
}

// Events of a followed file.
const (
	fileDeleted   = "file deleted"
	fileTruncated = "file truncated"
)

// sendStream sends a file piece by piece. With follow it also sends what is written later. It begins again when the file is
// truncated and ends when it is deleted.
func sendStream(c *endpoint.Call, node wire.Caller, req *api.AllocFileRequest, follow bool, out *endpoint.Frames) error {
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	last := time.Now()
	for {
		piece, err := wire.ClientAllocFileRead.Call(c.Context(), node, req)
		if out.Begun() && errors.Is(err, fault.NotFound) {
			_ = out.Send(api.StreamFrame{Offset: req.Offset, File: req.Path, FileEvent: fileDeleted})
			return endpoint.ErrStreamed
		}
		if err != nil {
			return c.Broken(out.Begun(), err)
		}
		req.Offset += int64(len(piece.Data))
		frame := api.StreamFrame{}
		if follow && out.Begun() && len(piece.Data) == 0 && req.Offset > 0 {
			if now, err := wire.ClientAllocFileStat.Call(c.Context(), node, req); err == nil && now.Info != nil && now.Info.Size < req.Offset {
				req.Offset = 0
				if out.Send(api.StreamFrame{File: req.Path, FileEvent: fileTruncated}) != nil {
					return endpoint.ErrStreamed
				}
				continue
			}
		}
		if len(piece.Data) > 0 {
			frame = api.StreamFrame{Offset: req.Offset, Data: piece.Data, File: req.Path}
		}
		if len(piece.Data) > 0 || !out.Begun() || time.Since(last) >= heartbeat {
			last = time.Now()
			if err := out.Send(frame); err != nil {
				return endpoint.ErrStreamed
			}
		}
		if len(piece.Data) > 0 && !piece.EOF {
			continue
		}
		if !follow {
			return endpoint.ErrStreamed
		}
		select {
		case <-tick.C:
		case <-c.Context().Done():
			return endpoint.ErrStreamed
		}
	}
}
