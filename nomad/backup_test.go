package nomad_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// save fetches a snapshot through a server, and counts the pieces.
func (h *host) save() (archive []byte, pieces int) {
	h.t.Helper()
	until(h.t, "saved through "+h.conf.Name, func() (saved bool) {
		var err error
		if archive, pieces, err = h.saveOnce(); err != nil {
			h.t.Logf("save through %s: %v", h.conf.Name, err)
		}
		return err == nil
	})
	return archive, pieces
}

func (h *host) saveOnce() (archive []byte, pieces int, err error) {
	req := &api.SnapshotReadRequest{}
	for {
		out, err := wire.OperatorSnapshotRead.Call(h.t.Context(), h.server.Caller(), req)
		if err != nil {
			return nil, 0, err
		}
		archive, pieces = append(archive, out.Data...), pieces+1
		if out.EOF {
			return archive, pieces, nil
		}
		req.Token, req.Offset = out.Token, int64(len(archive))
	}
}

// restore asks again when the leader loses its office meanwhile.
func (h *host) restore(archive []byte) {
	h.t.Helper()
	until(h.t, "restored through "+h.conf.Name, func() bool {
		err := h.restoreOnce(archive)
		if err != nil {
			h.t.Logf("restore through %s: %v", h.conf.Name, err)
		}
		return err == nil
	})
}

func (h *host) restoreOnce(archive []byte) error {
	req := &api.SnapshotRestoreRequest{}
	for !req.Last {
		rest := archive[req.Offset:]
		req.Data = rest[:min(len(rest), api.PieceMax)]
		req.Last = len(req.Data) == len(rest)
		out, err := wire.OperatorSnapshotRestore.Call(h.t.Context(), h.server.Caller(), req)
		if err != nil {
			return err
		}
		req.Token, req.Offset = out.Token, req.Offset+int64(len(req.Data))
	}
	return nil
}

func TestSnapshotsOfSeveralPiecesPassEveryServer(t *testing.T) {
	t.Parallel()
	all := trio(t)
	for i := range 4 {
		random := make([]byte, 300_000)
		_, _ = rand.Read(random)
		j := job(fmt.Sprint("large-", i))
		j.Meta = map[string]string{"words": hex.EncodeToString(random)}
		until(t, "write "+j.ID, func() bool {
			_, err := wire.JobRegister.Call(t.Context(), all[0].server.Caller(), &api.JobRegisterRequest{Job: j})
			return err == nil
		})
	}
	for _, h := range all {
		archive, pieces := h.save()
		if pieces < 2 || !bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
			t.Errorf("through %s: %d bytes in %d pieces", h.conf.Name, len(archive), pieces)
		}
		name := "after-the-save-through-" + h.conf.Name
		h.write(name)
		h.restore(archive)
		for _, other := range all {
			until(t, other.conf.Name+" has the old state", func() bool { return other.has("large-3") && !other.has(name) })
		}
	}
}
