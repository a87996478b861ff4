package consensus_test

import (
	"io"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// slow is a command whose effect comes when its gate opens.
type slow struct{ mark }

var slowBegun, slowGate = make(chan struct{}), make(chan struct{})

func (*slow) Kind() fsm.Kind { return 1001 }

func (c *slow) Apply(tx *state.Txn) (any, error) {
	close(slowBegun)
	<-slowGate
	return c.mark.Apply(tx)
}

// A snapshot of the leader holds what was committed before it was asked for, also what is not applied yet.
func TestSnapshotOfTheLeaderHoldsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	c, _ := config(t, t.TempDir())
	c.Registry.Register(func() fsm.Command { return &slow{} })
	r := run(t, c)
	applied := make(chan fsm.Result, 1)
	go func() {
		res, err := r.Propose(t.Context(), &slow{mark{"slow"}})
		if err != nil {
			t.Error(err)
		}
		applied <- res
	}()
	<-slowBegun // it is committed
	time.AfterFunc(100*time.Millisecond, func() { close(slowGate) })
	m, err := r.SaveArchive(t.Context(), io.Discard, false)
	if err != nil {
		t.Fatal(err)
	}
	if res := <-applied; m.Index < res.Index {
		t.Errorf("the snapshot ends at entry %d, and entry %d was committed before it was asked for", m.Index, res.Index)
	}
}
