package consensus_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

// votes are the ids of the voters that the server tells, its index of them, and whether they are settled.
func votes(t *testing.T, r *consensus.Raft) (ids string, index uint64, settled bool) {
	t.Helper()
	v, settled, err := r.Voters()
	if err != nil {
		t.Fatal(err)
	}
	if v == nil {
		return "", 0, settled
	}
	return strings.Join(slices.Sorted(maps.Keys(v.Servers)), ""), v.Index, settled
}

func TestVotersAreThoseOfTheNewestCommittedChange(t *testing.T) {
	t.Parallel()
	a, b := unformed(t, "a"), unformed(t, "b")
	if ids, _, settled := votes(t, a.Raft); ids != "" || settled {
		t.Errorf("before there is a cluster: %q", ids)
	}
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a leads", a.IsLeader)
	ids, first, settled := votes(t, a.Raft)
	if ids != "a" || !settled || first == 0 {
		t.Errorf("one server: %q at %d, settled %v", ids, first, settled)
	}
	if err := a.AddNonvoter(t.Context(), b.id, b.address); err != nil {
		t.Fatal(err)
	}
	if ids, index, _ := votes(t, a.Raft); ids != "a" || index <= first {
		t.Errorf("a server without a vote: %q at %d", ids, index)
	}
	if err := a.AddVoter(t.Context(), b.id, b.address); err != nil {
		t.Fatal(err)
	}
	propose(t, a.Raft, "one")
	until(t, "b knows the voters", func() bool { ids, _, settled := votes(t, b.Raft); return ids == "ab" && settled })
	_, two, _ := votes(t, b.Raft)
	if ids, index, settled := votes(t, a.Raft); ids != "ab" || index != two || !settled {
		t.Errorf("two voters: %q at %d, and b says %d; settled %v", ids, index, two, settled)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.AddVoter(ctx, "c", "127.0.0.1:1") }() // takes effect at once, and is never committed without b
	until(t, "a change that is not committed", func() bool {
		_, index, settled := votes(t, a.Raft)
		return index != two && !settled
	})
	cancel()
	<-done
}

func TestVotersAreKnownAfterARestartAndFromASnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *consensus.Raft {
		c, _ := config(t, dir)
		c.Advertise = "127.0.0.1:1" // always the same, or the leader would write its new one
		r, err := consensus.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		t.Cleanup(func() { cancel(); <-done; _ = r.Close() })
		until(t, "it leads", r.IsLeader)
		return r
	}
	var first uint64
	for _, snapshot := range []bool{false, true, false} {
		a := open()
		propose(t, a, "one")
		until(t, "the voters", func() bool { ids, _, settled := votes(t, a); return ids == "s1" && settled })
		_, index, _ := votes(t, a)
		if first == 0 {
			first = index
		}
		if index == 0 || index != first {
			t.Errorf("the same voters are of entry %d, and were of %d", index, first)
		}
		if snapshot {
			if err := a.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
