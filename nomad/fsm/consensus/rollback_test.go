package consensus_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// After a restore the nodes of both states have to report their mounts.
func TestARestoreAsksNodesForTheirMounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, s := leading(t, dir)
	put := func(status string, nodes ...string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		for _, id := range nodes {
			tx.PutNode(&api.Node{ID: id, Status: status})
		}
		tx.PutClusterID("c")
		tx.Commit()
	}
	put(api.NodeStatusReady, "stays", "dies")
	archive, _ := saved(t, r)
	put(api.NodeStatusReady, "later")
	put(api.NodeStatusDown, "dies")
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
		t.Fatal(err)
	}
	check := func(s *state.Store) {
		t.Helper()
		b := s.Read().Rollback()
		if b == nil || !slices.Equal(b.Unreported, []string{"later", "stays"}) {
			t.Fatalf("waited for are %+v", b)
		}
	}
	check(s)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_, s = leading(t, dir)
	check(s)
}

func TestASecondRestoreWaitsForTheNodesOfTheFirst(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	archive, _ := saved(t, r)
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutNode(&api.Node{ID: "later", Status: api.NodeStatusReady})
	tx.Commit()
	for range 2 {
		if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
			t.Fatal(err)
		}
		if b := s.Read().Rollback(); b == nil || !slices.Contains(b.Unreported, "later") {
			t.Fatalf("waited for are %+v", b)
		}
	}
}

// The check is made on the state that the restore replaces, and nothing of it changes when it refuses.
func TestRestoreIsRefusedWithoutForceWhileVolumesAreAttached(t *testing.T) {
	t.Parallel()
	c, s := config(t, t.TempDir())
	c.MayRestore, c.RollBack = ledger.MayRestore, ledger.RollBack
	r := run(t, c)
	archive, _ := saved(t, r)
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: "n1", State: api.AttachmentPublished})
	tx.Commit()
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), false); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "1 external volumes") {
		t.Fatalf("restored beside an attached volume: %v", err)
	}
	if tx := s.Read(); tx.Attachment("p", "ext-v", "n1") == nil || tx.Restoring() {
		t.Error("the refusal has changed the state")
	}
	if _, err := r.Propose(t.Context(), &mark{"kept"}); err != nil {
		t.Errorf("a command after the refusal: %v", err)
	}
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil || s.Read().Attachment("p", "ext-v", "n1") == nil {
		t.Errorf("by force: %v", err)
	}
	tx = s.Write(s.Read().Index()+1, time.Now())
	tx.DeleteAttachment("p", "ext-v", "n1")
	tx.Commit()
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), false); err != nil {
		t.Errorf("with nothing attached: %v", err)
	}
}

// What is written while a restore has looked at the state already would be lost.
func TestNothingIsWrittenWhileAStateIsRestored(t *testing.T) {
	t.Parallel()
	c, _ := config(t, t.TempDir())
	var r *consensus.Raft
	var during error
	c.RollBack = func(_, _ *state.Txn) { _, during = r.Propose(t.Context(), &mark{"lost"}) }
	r = run(t, c)
	archive, _ := saved(t, r)
	if err := r.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
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
	if err := fresh.RestoreArchive(t.Context(), bytes.NewReader(archive), true); err != nil {
		t.Fatal(err)
	}
	if b := now.Read().Rollback(); b == nil || !slices.Contains(b.Unreported, "n1") {
		t.Errorf("volumes do not wait for n1: %+v", b)
	}
}

// Log entries written after an upgrade depend on the agreed version, and a server that was away replays them.
func TestRestoreNeverLowersTheAgreedVersion(t *testing.T) {
	t.Parallel()
	r, s := leading(t, t.TempDir())
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutAgreedVersion(fsm.Version + 1)
	tx.Commit()
	older := state.New()
	r.Reconcile(older)
	if v := older.Read().AgreedVersion(); v != fsm.Version+1 {
		t.Errorf("the servers agree on version %d after the restore, want %d", v, fsm.Version+1)
	}
}
