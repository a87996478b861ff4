package operator_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/archive"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// slowArchive takes longer to write than a transfer may lie idle.
type slowArchive struct{ fakeArchive }

func (a *slowArchive) SaveArchive(ctx context.Context, w io.Writer, redacted bool) (archive.Meta, error) {
	time.Sleep(10 * time.Minute)
	return a.fakeArchive.SaveArchive(ctx, w, redacted)
}

func TestASnapshotThatTakesLongToMakeIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New()
		body := make([]byte, api.PieceMax+1)
		r := operator.New(operator.Config{State: s, Raft: three{fsm.NewLocal(s, registry())}, Archive: &slowArchive{fakeArchive{body: body}}, Cluster: &peers{}, Dir: t.TempDir()})
		out, err := r.ReadSnapshot(t.Context(), &api.SnapshotReadRequest{})
		if err != nil || out.Size != int64(len(body)) || out.EOF {
			t.Fatalf("%+v %v", out, err)
		}
		// From then on nobody keeps it who does not ask for it.
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if _, err := r.ReadSnapshot(t.Context(), &api.SnapshotReadRequest{Token: out.Token, Offset: api.PieceMax}); err == nil {
			t.Error("it is kept for ever")
		}
	})
}
