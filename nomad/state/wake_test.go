package state_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestCommitWakesOnlyThoseWhoWaitForItsRows is a gate: of 1,000 who wait for a node's allocations each, a
// commit wakes those of the nodes that it touched, and nobody else.
func TestCommitWakesOnlyThoseWhoWaitForItsRows(t *testing.T) {
	s := newStore(t)
	var watchers []*state.Watcher
	for i := range 1000 {
		watchers = append(watchers, s.Watch(state.NodeAllocsKey(fmt.Sprint("n", i))))
	}
	woken := func() (names []int) {
		for i, w := range watchers {
			select {
			case <-w.C():
				names = append(names, i)
				w.Stop()
				watchers[i] = s.Watch(state.NodeAllocsKey(fmt.Sprint("n", i)))
			default:
			}
		}
		return names
	}
	put := func(index uint64, nodes ...string) {
		write(s, index, func(tx *state.Txn) {
			tx.PutEval(&api.Evaluation{ID: fmt.Sprint("e", index)})
			for i, n := range nodes {
				tx.PutAlloc(&api.Allocation{ID: fmt.Sprint("a", index, i), NodeID: n})
			}
		})
	}
	put(10, "n7")
	if got := woken(); len(got) != 1 || got[0] != 7 {
		t.Fatalf("one node was touched and %v woke", got)
	}
	put(11, "n70", "n7", "n7", "n999")
	if got := woken(); fmt.Sprint(got) != "[7 70 999]" {
		t.Fatalf("three nodes were touched and %v woke", got)
	}
	put(12)
	if got := woken(); len(got) != 0 {
		t.Fatalf("no node was touched and %v woke", got)
	}
	write(s, 13, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n7"}) })
	if got := woken(); len(got) != 0 {
		t.Fatalf("no allocation was touched and %v woke", got)
	}
	for _, w := range watchers {
		w.Stop()
	}
}
