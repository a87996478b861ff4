package allocs

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var fileRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/client/fs/ls/:id", Serve: fileList},
	{Method: "GET", Pattern: "/v1/client/fs/stat/:id", Serve: fileStat},
	{Method: "GET", Pattern: "/v1/client/fs/cat/:id", Serve: fileCat, Stays: true},
	{Method: "GET", Pattern: "/v1/client/fs/readat/:id", Serve: fileReadAt, Stays: true},
	{Method: "GET", Pattern: "/v1/client/fs/stream/:id", Serve: fileStream, Stays: true},
	{Method: "GET", Pattern: "/v1/client/fs/logs/:id", Serve: logs, Stays: true},
}

// pieceBytes is the size of one piece of a file or log.
const pieceBytes = 64 << 10

func fileRequest(c *endpoint.Call, path string) (wire.Caller, *api.AllocFileRequest, error) {
	node, a, err := onNode(c)
	if err != nil {
		return nil, nil, err
	}
	return node, &api.AllocFileRequest{AllocID: a.ID, Path: path, QueryOptions: c.Query}, nil
}

func fileList(c *endpoint.Call) (any, error) {
	node, req, err := fileRequest(c, cmp.Or(c.Params.Get("path"), "/"))
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocFileList.Call(c.Context(), node, req)
	if err != nil {
		return nil, err
	}
	return out.Files, nil
}

func namedFile(c *endpoint.Call) (wire.Caller, *api.AllocFileRequest, error) {
	path := c.Params.Get("path")
	if path == "" {
		return nil, nil, fault.New(fault.Invalid, "must provide a file path")
	}
	return fileRequest(c, path)
}

func fileStat(c *endpoint.Call) (any, error) {
	node, req, err := namedFile(c)
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientAllocFileStat.Call(c.Context(), node, req)
	if err != nil {
		return nil, err
	}
	return out.Info, nil
}

func fileCat(c *endpoint.Call) (any, error) {
	node, req, err := namedFile(c)
	if err != nil {
		return nil, err
	}
	return nil, sendFile(c, node, req, -1)
}

func fileReadAt(c *endpoint.Call) (any, error) {
	if c.Params.Get("offset") == "" {
		return nil, fault.New(fault.Invalid, "must provide a file offset")
	}
	offset, err := c.Int("offset")
	if err != nil {
		return nil, err
	}
	limit := int64(-1)
	if c.Params.Get("limit") != "" {
		if limit, err = c.Int("limit"); err != nil {
			return nil, err
		}
	}
	if offset < 0 {
		return nil, fault.New(fault.Invalid, "invalid offset value %d: want a place from 0", offset)
	}
	node, req, err := namedFile(c)
	if err != nil {
		return nil, err
	}
	req.Offset = offset
	return nil, sendFile(c, node, req, limit)
}

// sendFile copies a file piece by piece; limit < 0 sends all. Browsers must not run what they get.
func sendFile(c *endpoint.Call, node wire.Caller, req *api.AllocFileRequest, limit int64) error {
	for begun := false; ; {
		req.Limit = pieceBytes
		if limit >= 0 {
			req.Limit = min(limit, pieceBytes)
		}
		piece := &api.AllocFileReadResponse{EOF: true}
		if req.Limit > 0 || !begun {
			var err error
			if piece, err = wire.ClientAllocFileRead.Call(c.Context(), node, req); err != nil {
				return c.Broken(begun, err)
			}
		}
		if !begun {
			begun = true
			h := c.W.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("X-XSS-Protection", "1; mode=block")
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		}
		data := piece.Data
		if limit >= 0 && int64(len(data)) > limit {
			data = data[:limit]
		}
		if _, err := c.W.Write(data); err != nil {
			return endpoint.ErrStreamed
		}
		n := int64(len(data))
		req.Offset += n
		if limit >= 0 {
			limit -= n
		}
		if piece.EOF || n == 0 || limit == 0 {
			return endpoint.ErrStreamed
		}
	}
}
