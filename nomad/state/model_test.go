package state_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// model is what the store should hold and have said: allocations by id, and when keys were touched last.
type model struct {
	rows    map[string]*api.Allocation
	touched map[state.Key]uint64
}

var (
	someIDs  = []string{"a", "ab", "b", "0123", "01234567-1", "01234567-2", "01234567-3", "c"}
	someJobs = []string{"web", "we", "db"}
)

// groupsOf are the keys of the groups that an allocation is in.
func groupsOf(a *api.Allocation) []state.Key {
	if a == nil {
		return nil
	}
	return []state.Key{state.NodeAllocsKey(a.NodeID), state.EvalAllocsKey(a.EvalID), state.JobAllocsKey(a.Namespace, a.JobID)}
}

func allGroups() (keys []state.Key) {
	for _, id := range someIDs {
		keys = append(keys, state.NodeAllocsKey(id), state.EvalAllocsKey(id))
	}
	for _, job := range someJobs {
		keys = append(keys, state.JobAllocsKey("default", job))
	}
	return keys
}

// agree compares all lists of a read with the model's rows.
func (m *model) agree(tx *state.Txn) error {
	list := func(keep func(*api.Allocation) bool) (out []*api.Allocation) {
		for _, id := range slices.Sorted(maps.Keys(m.rows)) {
			if a := m.rows[id]; keep(a) {
				out = append(out, a)
			}
		}
		return out
	}
	// inGroup is list in the order in which the rows came.
	inGroup := func(keep func(*api.Allocation) bool) []*api.Allocation {
		rows := list(keep)
		slices.SortStableFunc(rows, func(a, b *api.Allocation) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) })
		return rows
	}
	check := func(what string, got, want []*api.Allocation) error {
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s: %d rows, want %d", what, len(got), len(want))
		}
		return nil
	}
	for _, id := range someIDs {
		if tx.Alloc(id) != m.rows[id] {
			return fmt.Errorf("%s is %+v", id, tx.Alloc(id))
		}
		for what, pair := range map[string][2][]*api.Allocation{
			"node": {slices.Collect(tx.AllocsByNode(id)), inGroup(func(a *api.Allocation) bool { return a.NodeID == id })},
			"eval": {slices.Collect(tx.AllocsByEval(id)), inGroup(func(a *api.Allocation) bool { return a.EvalID == id })},
			"prefix": {
				slices.Collect(tx.AllocSpan(state.Span{Namespace: "default", Prefix: id})),
				inGroup(func(a *api.Allocation) bool { return strings.HasPrefix(a.ID, id) }),
			},
		} {
			if err := check(what+" "+id, pair[0], pair[1]); err != nil {
				return err
			}
		}
	}
	for _, id := range someIDs {
		all := list(func(a *api.Allocation) bool { return a.NodeID == id })
		if n := tx.CountAllocsByNode(id); n != len(all) {
			return fmt.Errorf("node %s is said to have %d rows, want %d", id, n, len(all))
		}
		for _, a := range all {
			if !slices.Contains(slices.Collect(tx.AllocsByNodeSince(id, a.ModifyIndex-1)), a) {
				return fmt.Errorf("%s is not among what changed on node %s after %d", a.ID, id, a.ModifyIndex-1)
			}
		}
	}
	for _, job := range someJobs {
		if err := check(job, slices.Collect(tx.AllocsByJob("default", job)), inGroup(func(a *api.Allocation) bool { return a.JobID == job })); err != nil {
			return err
		}
	}
	return check("all", slices.Collect(tx.Allocs("default")), list(func(*api.Allocation) bool { return true }))
}

// change draws a put or a delete and carries it out in the transaction and in the model.
func (m *model) change(t *rapid.T, tx *state.Txn) {
	id := rapid.SampledFrom(someIDs).Draw(t, "id")
	before := m.rows[id]
	var after *api.Allocation
	if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
		if tx.DeleteAlloc(id) != (before != nil) {
			t.Fatalf("delete of %s", id)
		}
		delete(m.rows, id)
	} else {
		after = &api.Allocation{
			ID: id, Namespace: "default", NodeID: rapid.SampledFrom(someIDs).Draw(t, "node"),
			EvalID: rapid.SampledFrom(someIDs).Draw(t, "eval"), JobID: rapid.SampledFrom(someJobs).Draw(t, "job"),
		}
		tx.PutAlloc(after)
		m.rows[id] = after
	}
	for _, k := range append(groupsOf(before), groupsOf(after)...) {
		m.touched[k] = tx.Index()
	}
}

func TestReadsWatchesAndFeedsFollowEveryChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state.New()
		m := &model{map[string]*api.Allocation{}, map[state.Key]uint64{}}
		feed := s.Feed(state.TableAllocs)
		defer feed.Close()
		if _, err := feed.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		var reads []*state.Txn
		var thens []*model
		for index := range rapid.Uint64Range(2, 12).Draw(t, "commits") {
			index += 2
			before := maps.Clone(m.rows)
			reads, thens = append(reads, s.Read()), append(thens, &model{rows: before})
			watchers := map[state.Key]*state.Watcher{}
			for _, k := range allGroups() {
				watchers[k] = s.Watch(k)
			}
			tx := s.Write(index, time.Unix(int64(index), 0))
			next := &model{maps.Clone(m.rows), maps.Clone(m.touched)}
			for range rapid.IntRange(0, 8).Draw(t, "changes") {
				next.change(t, tx)
			}
			if err := next.agree(tx); err != nil {
				t.Fatalf("inside: %v", err)
			}
			if rapid.IntRange(0, 4).Draw(t, "abort") == 0 {
				tx.Abort()
				next = m
			} else {
				tx.Commit()
			}
			m = next
			woken(t, watchers, before, m.rows)
			followed(t, feed, before, m.rows)
			for _, k := range allGroups() {
				if got, want := s.Touched(k), max(1, m.touched[k]); got != want {
					t.Fatalf("%v touched at %d, not %d", k, got, want)
				}
			}
		}
		for i, read := range append(reads, s.Read()) {
			if err := append(thens, m)[i].agree(read); err != nil {
				t.Fatalf("read %d: %v", i, err)
			}
		}
		restored(t, s, m)
	})
}

// woken checks that those watchers woke in whose group a row changed, and no others.
func woken(t *rapid.T, watchers map[state.Key]*state.Watcher, before, after map[string]*api.Allocation) {
	want := map[state.Key]bool{}
	for _, id := range someIDs {
		if before[id] != after[id] {
			for _, k := range append(groupsOf(before[id]), groupsOf(after[id])...) {
				want[k] = true
			}
		}
	}
	for k, w := range watchers {
		got := false
		select {
		case <-w.C():
			got = true
		default:
		}
		if got != want[k] {
			t.Fatalf("%v woke: %v", k, got)
		}
		w.Stop()
	}
}

// followed checks that the feed tells exactly what a commit changed.
func followed(t *rapid.T, feed *state.Feed, before, after map[string]*api.Allocation) {
	changed := 0
	for _, id := range someIDs {
		if before[id] != after[id] {
			changed++
		}
	}
	if changed == 0 {
		return
	}
	b, err := feed.Next(t.Context())
	if err != nil || b.Resync || len(b.Changes) != changed {
		t.Fatalf("batch %+v %v, want %d changes", b, err, changed)
	}
	for _, c := range b.Changes {
		was, _ := c.Before.(*api.Allocation)
		is, _ := c.After.(*api.Allocation)
		id := ""
		for _, a := range []*api.Allocation{was, is} {
			if a != nil {
				id = a.ID
			}
		}
		if was != before[id] || is != after[id] {
			t.Fatalf("%s: change from %+v to %+v", id, was, is)
		}
	}
}

// restored checks that a snapshot holds the same, in the same order.
func restored(t *rapid.T, s *state.Store, m *model) {
	var file bytes.Buffer
	if err := s.Read().Dump(&file); err != nil {
		t.Fatal(err)
	}
	to := state.New()
	if err := to.Restore(&file); err != nil {
		t.Fatal(err)
	}
	tx := to.Read()
	again := &model{rows: map[string]*api.Allocation{}}
	for a := range tx.Allocs("default") {
		again.rows[a.ID] = a
	}
	if err := again.agree(tx); err != nil || !slices.Equal(slices.Sorted(maps.Keys(again.rows)), slices.Sorted(maps.Keys(m.rows))) {
		t.Fatalf("restored: %v, %d rows of %d", err, len(again.rows), len(m.rows))
	}
	for _, k := range allGroups() {
		if got := to.Touched(k); got != tx.Index() {
			t.Fatalf("%v touched at %d after a restore at %d", k, got, tx.Index())
		}
	}
}
