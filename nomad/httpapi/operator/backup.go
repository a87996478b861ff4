package operator

import (
	"errors"
	"io"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// snapshotSave streams a snapshot of the whole state.
func snapshotSave(c *endpoint.Call) (any, error) {
	redact, err := c.Bool("redact")
	if err != nil {
		return nil, err
	}
	req := &api.SnapshotReadRequest{Redact: redact, QueryOptions: c.Query}
	for {
		piece, err := wire.OperatorSnapshotRead.Call(c.Context(), c.Servers, req)
		if err != nil {
			return nil, c.Broken(req.Offset > 0, err)
		}
		if req.Offset == 0 {
			h := c.W.Header()
			h.Set("Content-Type", "application/x-gzip")
			h.Set("Content-Disposition", `attachment; filename="snapshot.gz"`)
			h.Set("Content-Length", strconv.FormatInt(piece.Size, 10))
			h.Set("Digest", "sha-256="+piece.Digest)
		}
		if _, err := c.W.Write(piece.Data); err != nil {
			return nil, endpoint.ErrStreamed
		}
		if piece.EOF || len(piece.Data) == 0 {
			return nil, endpoint.ErrStreamed
		}
		req.Token, req.Offset = piece.Token, req.Offset+int64(len(piece.Data))
	}
}

// snapshotRestore replaces the whole state by that of a snapshot.
func snapshotRestore(c *endpoint.Call) (any, error) {
	if c.R.ContentLength > api.SnapshotMax {
		return nil, fault.New(fault.TooLarge, "the snapshot has %d bytes; at most %d can be restored", c.R.ContentLength, int64(api.SnapshotMax))
	}
	force, err := c.Bool("force")
	if err != nil {
		return nil, err
	}
	req := &api.SnapshotRestoreRequest{Force: force, WriteRequest: c.Writes()}
	buf := make([]byte, api.PieceMax)
	for {
		n, err := io.ReadFull(c.R.Body, buf)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			req.Last = true
		case err != nil:
			return nil, fault.New(fault.Invalid, "the snapshot did not come whole: %w", err)
		}
		req.Data = buf[:n]
		out, err := wire.OperatorSnapshotRestore.Call(c.Context(), c.Servers, req)
		if err != nil {
			return nil, err
		}
		if req.Last {
			c.SetWrote(out.WriteMeta)
			if out.Warnings == "" {
				return nil, nil
			}
			return struct{ Warnings string }{out.Warnings}, nil
		}
		req.Token, req.Offset = out.Token, req.Offset+int64(n)
	}
}
