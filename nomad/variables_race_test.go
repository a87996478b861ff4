package nomad_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// TestRacesOverAChangeOfTheLeader has workers on two servers count in a variable with cas, and lock another, while the leader
// stops. No number is counted twice, no count that was confirmed is lost, and at most one worker holds the lock.
func TestRacesOverAChangeOfTheLeader(t *testing.T) {
	t.Parallel()
	all := trio(t)
	apply := func(ctx context.Context, h *host, r *api.VariableApplyRequest) (*api.VariableApplyResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return wire.VariableApply.Call(ctx, h.server.Caller(), r)
	}
	until(t, "the counter is written", func() bool {
		_, err := apply(t.Context(), all[0], &api.VariableApplyRequest{Op: api.VariableSet, Path: "counter", Items: map[string]string{"n": "0"}})
		return err == nil
	})
	leader, followers := led(t, all)
	var (
		busy             sync.WaitGroup
		counted          sync.Map
		confirmed, open  atomic.Int64
		locked, holders  atomic.Int64
		ctx, stopWorkers = context.WithCancel(t.Context())
	)
	defer busy.Wait()
	defer stopWorkers()
	read := func(h *host) (index uint64, n int64, err error) {
		out, err := wire.VariableGet.Call(ctx, h.server.Caller(), &api.VariableRequest{Path: "counter"})
		if err != nil {
			return 0, 0, err
		}
		n, err = strconv.ParseInt(out.Items["n"], 10, 64)
		return out.Meta.ModifyIndex, n, err
	}
	count := func(h *host) {
		index, n, err := read(h)
		if err != nil {
			return
		}
		out, err := apply(ctx, h, &api.VariableApplyRequest{Op: api.VariableCAS, Path: "counter", CheckIndex: index, Items: map[string]string{"n": strconv.FormatInt(n+1, 10)}})
		switch {
		case err != nil && !errors.Is(err, fault.Conflict):
			open.Add(1) // it may have been made
		case err == nil && !out.Conflict:
			confirmed.Add(1)
			if _, twice := counted.LoadOrStore(n+1, true); twice {
				t.Errorf("%d was counted twice", n+1)
			}
		}
	}
	lock := func(h *host) {
		out, err := apply(ctx, h, &api.VariableApplyRequest{Op: api.VariableAcquire, Path: "lock", Lock: &api.VariableLock{TTL: "10s", LockDelay: "0s"}})
		if err != nil || out.Conflict {
			return
		}
		if n := holders.Add(1); n > 1 {
			t.Errorf("%d workers hold the lock", n)
		}
		locked.Add(1)
		time.Sleep(5 * time.Millisecond) // the others try to lock it meanwhile
		holders.Add(-1)
		_, _ = apply(ctx, h, &api.VariableApplyRequest{Op: api.VariableRelease, Path: "lock", Lock: out.Meta.Lock})
	}
	for range 2 {
		for _, h := range followers {
			busy.Go(func() {
				for ctx.Err() == nil {
					count(h)
					lock(h)
				}
			})
		}
	}
	until(t, "counts and locks with the first leader", func() bool { return confirmed.Load() > 20 && locked.Load() > 5 })
	leader.stop()
	counts, locks := confirmed.Load(), locked.Load()
	until(t, "counts with the next leader", func() bool { return confirmed.Load() > counts+20 })
	until(t, "locks with the next leader", func() bool { return locked.Load() > locks+5 })
	stopWorkers()
	busy.Wait()
	ctx = t.Context()
	_, n, err := read(followers[0])
	if low := confirmed.Load(); err != nil || n < low || n > low+open.Load() {
		t.Errorf("the counter is %d after %d confirmed and %d open counts: %v", n, low, open.Load(), err)
	}
}
