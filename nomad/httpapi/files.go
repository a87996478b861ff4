package httpapi

import (
	"cmp"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var fileRoutes = []route{
	{method: "GET", pattern: "/v1/client/fs/ls/:id", serve: fileList},
	{method: "GET", pattern: "/v1/client/fs/stat/:id", serve: fileStat},
	{method: "GET", pattern: "/v1/client/fs/cat/:id", serve: fileCat, stays: true},
	{method: "GET", pattern: "/v1/client/fs/readat/:id", serve: fileReadAt, stays: true},
	{method: "GET", pattern: "/v1/client/fs/stream/:id", serve: fileStream, stays: true},
	{method: "GET", pattern: "/v1/client/fs/logs/:id", serve: logs, stays: true},
}

// pieceBytes is the size of one piece of a file or log.
const pieceBytes = 64 << 10

func (c *call) fileRequest(path string) (wire.Caller, *api.AllocFileRequest, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, nil, err
	}
	return node, &api.AllocFileRequest{AllocID: a.ID, Path: path, QueryOptions: c.reads()}, nil
}

func fileList(c *call) (any, error) {
	node, req, err := c.fileRequest(cmp.Or(c.params.Get("path"), "/"))
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocFileList.Call(c.ctx(), node, req)
	if err != nil {
		return nil, err
	}
	return list(out.Files), nil
}

func (c *call) namedFile() (wire.Caller, *api.AllocFileRequest, error) {
	path := c.params.Get("path")
	if path == "" {
		return nil, nil, fault.New(fault.Invalid, "must provide a file path")
	}
	return c.fileRequest(path)
}

func fileStat(c *call) (any, error) {
	node, req, err := c.namedFile()
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocFileStat.Call(c.ctx(), node, req)
	if err != nil {
		return nil, err
	}
	return out.Info, nil
}

func fileCat(c *call) (any, error) {
	node, req, err := c.namedFile()
	if err != nil {
		return nil, err
	}
	return nil, sendFile(c, node, req, -1)
}

func fileReadAt(c *call) (any, error) {
	if c.params.Get("offset") == "" {
		return nil, fault.New(fault.Invalid, "must provide a file offset")
	}
	offset, err := number(c.params, "offset")
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if c.params.Get("limit") != "" {
		if limit, err = number(c.params, "limit"); err != nil {
			return nil, err
		}
	}
	if offset < 0 {
		return nil, fault.New(fault.Invalid, "invalid offset value %d: want a place from 0", offset)
	}
	node, req, err := c.namedFile()
	if err != nil {
		return nil, err
	}
	req.Offset = offset
	return nil, sendFile(c, node, req, limit)
}

// sendFile copies a file piece by piece; limit < 0 sends all. Browsers must not run what they get.
func sendFile(c *call, node wire.Caller, req *api.AllocFileRequest, limit int64) error {
	for begun := false; ; {
		req.Limit = pieceBytes
		if limit >= 0 {
			req.Limit = min(limit, pieceBytes)
		}
		piece := &api.AllocFileReadResponse{EOF: true}
		if req.Limit > 0 || !begun {
			var err error
			if piece, err = wire.ClientAllocFileRead.Call(c.ctx(), node, req); err != nil {
				return c.broken(begun, err)
			}
		}
		if !begun {
			begun = true
			h := c.w.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("X-XSS-Protection", "1; mode=block")
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		}
		data := piece.Data
		if limit >= 0 && int64(len(data)) > limit {
			data = data[:limit]
		}
		if _, err := c.w.Write(data); err != nil {
			return errStreamed
		}
		n := int64(len(data))
		req.Offset += n
		if limit >= 0 {
			limit -= n
		}
		if piece.EOF || n == 0 || limit == 0 {
			return errStreamed
		}
	}
}

// broken ends an answer: with an error while nothing was sent, else by cutting the connection, so
// that the client sees that something is missing.
func (c *call) broken(begun bool, err error) error {
	if !begun {
		return err
	}
	if c.ctx().Err() == nil {
		c.Log.Warn("stream broke off", "path", c.r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	}
	return errStreamed
}
