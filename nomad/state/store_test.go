package state_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func newStore(t testing.TB) *state.Store {
	t.Helper()
	s := state.New()
	return s
}

func write(s *state.Store, index uint64, change func(tx *state.Txn)) {
	tx := s.Write(index, time.Unix(int64(index), 0))
	change(tx)
	tx.Commit()
}

func TestSnapshotDoesNotSeeLaterWrites(t *testing.T) {
	s := newStore(t)
	write(s, 5, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1"}) })
	before := s.Read()
	write(s, 6, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n2"}); tx.DeleteNode("n1") })
	if before.Node("n1") == nil || before.Node("n2") != nil || before.Index() != 5 {
		t.Fatalf("snapshot at %d changed", before.Index())
	}
	if now := s.Read(); now.Node("n1") != nil || now.Index() != 6 {
		t.Fatal("write is not visible")
	}
}

func TestPutKeepsCreateIndex(t *testing.T) {
	s := newStore(t)
	write(s, 5, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1"}) })
	write(s, 9, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1"}) })
	if n := s.Read().Node("n1"); n.CreateIndex != 5 || n.ModifyIndex != 9 {
		t.Fatalf("indexes are %d and %d", n.CreateIndex, n.ModifyIndex)
	}
}

func TestWatchWakesOnlyTouchedNode(t *testing.T) {
	s := newStore(t)
	mine, other := s.Watch(state.NodeAllocsKey("n1")), s.Watch(state.NodeAllocsKey("n2"))
	defer mine.Stop()
	defer other.Stop()
	write(s, 5, func(tx *state.Txn) { tx.PutAlloc(&api.Allocation{ID: "a1", NodeID: "n1"}) })
	select {
	case <-mine.C():
	default:
		t.Fatal("the watcher of n1 sleeps")
	}
	select {
	case <-other.C():
		t.Fatal("the watcher of n2 woke")
	default:
	}
	if got := s.Touched(state.NodeAllocsKey("n1")); got != 5 {
		t.Fatalf("touched at %d", got)
	}
	if got := s.Touched(state.NodeAllocsKey("n2")); got != 1 {
		t.Fatalf("n2 touched at %d", got)
	}
}

func TestPrefixStaysInNamespace(t *testing.T) {
	s := newStore(t)
	write(s, 5, func(tx *state.Txn) {
		for _, v := range []api.VolumeSpec{{Namespace: "a", ID: "v1"}, {Namespace: "a", ID: "w"}, {Namespace: "ab", ID: "v2"}} {
			tx.PutVolume(&api.Volume{VolumeSpec: v})
		}
	})
	ids := func(ns, prefix string) (out []string) {
		for v := range s.Read().VolumeSpan(state.Span{Namespace: ns, Prefix: prefix}) {
			out = append(out, v.Namespace+"/"+v.ID)
		}
		return out
	}
	if got := ids("a", "v"); !slices.Equal(got, []string{"a/v1"}) {
		t.Fatalf("prefix lists %v", got)
	}
	if got := ids(api.AllNamespaces, "v"); !slices.Equal(got, []string{"a/v1", "ab/v2"}) {
		t.Fatalf("all namespaces list %v", got)
	}
}

func TestJobVersionsNewestFirst(t *testing.T) {
	s := newStore(t)
	write(s, 5, func(tx *state.Txn) {
		for v := range uint64(12) {
			tx.PutJobVersion(&api.Job{Namespace: "default", ID: "j", Version: v})
		}
	})
	all := s.Read().JobVersions("default", "j")
	if len(all) != 12 || all[0].Version != 11 || all[11].Version != 0 {
		t.Fatalf("got %d versions, first %d", len(all), all[0].Version)
	}
}

func TestSummaryFollowsAllocs(t *testing.T) {
	s := newStore(t)
	alloc := func(status string) *api.Allocation {
		return &api.Allocation{ID: "a", Namespace: "default", JobID: "j", TaskGroup: "g", ClientStatus: status}
	}
	write(s, 5, func(tx *state.Txn) {
		tx.PutJob(&api.Job{Namespace: "default", ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g"}}})
		tx.PutAlloc(alloc(api.AllocClientStatusPending))
	})
	write(s, 6, func(tx *state.Txn) { tx.PutAlloc(alloc(api.AllocClientStatusRunning)) })
	write(s, 7, func(tx *state.Txn) { tx.PutAlloc(alloc(api.AllocClientStatusComplete)); tx.DeleteAlloc("a") })
	got := s.Read().JobSummary("default", "j").Summary["g"]
	if got != (api.TaskGroupSummary{Complete: 1}) {
		t.Fatalf("summary is %+v", got)
	}
}

func TestFeedResyncsThenFollows(t *testing.T) {
	s := newStore(t)
	f := s.Feed(state.TableNodes)
	defer f.Close()
	if b, err := f.Next(t.Context()); err != nil || !b.Resync {
		t.Fatalf("first batch is %+v, %v", b, err)
	}
	write(s, 5, func(tx *state.Txn) { tx.PutJob(&api.Job{Namespace: "default", ID: "j"}) })
	write(s, 6, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n1"}) })
	b, err := f.Next(t.Context())
	if err != nil || b.Index != 6 || len(b.Changes) != 1 || b.Changes[0].After.(*api.Node).ID != "n1" {
		t.Fatalf("batch is %+v, %v", b, err)
	}
}

// What came and went in one transaction changes nothing that anybody could wait for, in either kind of table.
func TestRowsThatCameAndWentAreNoChange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	write(s, 10, func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "kept", Namespace: "default", PluginID: "p"}})
		tx.PutEval(&api.Evaluation{ID: "kept", Namespace: "default", JobID: "j"})
	})
	f := s.Feed()
	defer f.Close()
	if b, err := f.Next(t.Context()); err != nil || !b.Resync {
		t.Fatalf("first comes %+v, %v", b, err)
	}
	write(s, 20, func(tx *state.Txn) {
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{ID: "brief", Namespace: "default", PluginID: "p"}})
		tx.DeleteVolume("default", "brief")
		tx.PutEval(&api.Evaluation{ID: "brief", Namespace: "default", JobID: "j"})
		tx.DeleteEval("brief")
		tx.PutNamespace(&api.Namespace{Name: "new"})
	})
	b, err := f.Next(t.Context())
	if err != nil || len(b.Changes) != 1 || b.Changes[0].Table != state.TableNamespaces {
		t.Errorf("told are %+v, %v", b.Changes, err)
	}
	if v, e := s.Read().TableIndex(state.TableVolumes), s.Read().TableIndex(state.TableEvals); v != 10 || e != 10 {
		t.Errorf("the tables changed at %d and %d", v, e)
	}
}

// A row that is put twice, the same struct, keeps the index at which it came.
func TestTheSameRowPutAgainKeepsWhenItCame(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	v := &api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p"}}
	write(s, 10, func(tx *state.Txn) { tx.PutVolume(v) })
	write(s, 20, func(tx *state.Txn) {
		next := *v
		tx.PutVolume(&next)
		tx.PutVolume(&next)
	})
	if got := s.Read().Volume("default", "v"); got.CreateIndex != 10 || got.ModifyIndex != 20 {
		t.Errorf("it came at %d and changed at %d", got.CreateIndex, got.ModifyIndex)
	}
}
