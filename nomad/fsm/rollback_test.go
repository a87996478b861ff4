package fsm_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// After a restore all nodes are to be asked that either state knows.
func TestARestoreForgetsWhatNodesHaveTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, s := leading(t, dir)
	put := func(status string, nodes ...string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		for _, id := range nodes {
			tx.PutNode(&api.Node{ID: id, Status: status})
		}
		tx.PutAgreedVersion(fsm.Ends)
		tx.Commit()
	}
	put(api.NodeStatusReady, "stays", "dies")
	archive, _ := saved(t, r)
	put(api.NodeStatusReady, "later")
	put(api.NodeStatusDown, "dies")
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	check := func(s *state.Store) {
		t.Helper()
		b := s.Read().Rollback()
		if b == nil || b.Open || !slices.Equal(b.Untold, []string{"dies", "later", "stays"}) || !slices.Equal(b.Awaited, []string{"later", "stays"}) {
			t.Fatalf("asked are %+v", b)
		}
	}
	check(s)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = leading(t, dir)
	check(s)
}

func TestASecondRestoreStillWaitsForWhomTheFirstOneDid(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutAgreedVersion(fsm.Ends)
	tx.Commit()
	archive, _ := saved(t, r)
	tx = s.Write(s.Read().Index()+1, time.Now())
	tx.PutNode(&api.Node{ID: "later", Status: api.NodeStatusReady})
	tx.Commit()
	for range 2 {
		if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		if b := s.Read().Rollback(); b == nil || !slices.Contains(b.Awaited, "later") || !slices.Contains(b.Untold, "later") {
			t.Fatalf("asked are %+v", b)
		}
	}
}
