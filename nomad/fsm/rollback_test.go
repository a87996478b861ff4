package fsm_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
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
	archive, _ := saved(t, r)
	tx := s.Write(s.Read().Index()+1, time.Now())
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

// A node that has just been found down keeps what it was promised, and what it is attached to.
func TestARestoreRemembersWhatLostNodesMayHave(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	put := func(fn func(*state.Txn)) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		fn(tx)
		tx.Commit()
	}
	put(func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "lost", Status: api.NodeStatusReady}) })
	archive, _ := saved(t, r)
	put(func(tx *state.Txn) {
		tx.PutNode(&api.Node{ID: "lost", Status: api.NodeStatusDown, StatusUpdatedAt: time.Now().Unix()})
		tx.PutClaim(&api.VolumeClaim{
			Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "lost", PluginID: "p", ExternalID: "ext-v",
			State: api.ClaimReleasing, AccessMode: api.AccessSingleNodeWriter, Lease: time.Hour, Attach: true,
		})
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: "lost", ProviderNodeID: "i-1", State: api.AttachmentPublished})
	})
	for range 2 { // the second one in the middle of the wait after the first
		if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive)); err != nil {
			t.Fatal(err)
		}
		tx := s.Read()
		if c := tx.Claim("default", "v", "a", ""); c == nil || c.State != api.ClaimReleasing || c.Lease != time.Hour {
			t.Errorf("the promise to the lost node is %+v", c)
		}
		if a := tx.Attachment("p", "ext-v", "lost"); a == nil || a.ProviderNodeID != "i-1" {
			t.Errorf("at the provider only is an attachment: %+v", a)
		}
	}
}

// What is written while a restore has looked at the state already would be lost.
func TestNothingIsWrittenWhileAStateIsRestored(t *testing.T) {
	t.Parallel()
	c, _ := config(t, t.TempDir())
	var r *fsm.Raft
	var during error
	c.RollBack = func(_, _ *state.Txn) { _, during = r.Propose(t.Context(), &mark{"lost"}) }
	r = run(t, c)
	archive, _ := saved(t, r)
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(during, fault.Unavailable) {
		t.Errorf("a command meanwhile: %v", during)
	}
	if _, err := r.Propose(t.Context(), &mark{"kept"}); err != nil {
		t.Errorf("a command after it: %v", err)
	}
}

// The servers of a new cluster wait for the nodes that the archive has.
func TestARestoreIntoANewClusterWaitsForNodes(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutNode(&api.Node{ID: "n1", Status: api.NodeStatusReady})
	tx.Commit()
	archive, _ := saved(t, r)
	fresh, now := leading(t, t.TempDir())
	if err := fresh.RestoreArchive(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Fatal(err)
	}
	if b := now.Read().Rollback(); b == nil || !slices.Contains(b.Awaited, "n1") {
		t.Errorf("volumes go on before n1 has told what it has mounted: %+v", b)
	}
}

// Log entries written after an upgrade depend on the agreed version, and a server that was away replays them.
func TestRestoreNeverLowersTheAgreedVersion(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutAgreedVersion(fsm.Version + 1)
	tx.Commit()
	older, err := state.New()
	if err != nil {
		t.Fatal(err)
	}
	r.Reconcile(older)
	if v := older.Read().AgreedVersion(); v != fsm.Version+1 {
		t.Errorf("the servers agree on version %d after the restore, want %d", v, fsm.Version+1)
	}
}
