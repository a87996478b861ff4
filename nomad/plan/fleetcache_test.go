package plan_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// After a restore nobody gets the fleet of the state that was left.
func TestFleetIsThatOfTheRestoredState(t *testing.T) {
	s := state.New()
	put := func(index uint64, fn func(*state.Txn)) {
		tx := s.Write(index, time.Unix(1_700_000_000, 0))
		fn(tx)
		tx.Commit()
	}
	put(2, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusReady}) })
	put(3, func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", Namespace: "default", JobID: "j", ClientStatus: api.AllocClientStatusRunning})
	})
	var old bytes.Buffer
	if err := s.Read().Dump(&old); err != nil {
		t.Fatal(err)
	}
	put(9, func(tx *state.Txn) { tx.DeleteAlloc("a") })
	r := plan.NewFleetCache(s)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	if _, err := r.Fleet(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop() // it is behind when the state is restored
	<-ended
	if err := s.Restore(&old); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f, err := r.Fleet(bounded)
	if errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if n := f.Row(f.Find("n1")).Count(); n != 1 {
		t.Errorf("the fleet has %d allocations on n1, the state has 1", n)
	}
}
