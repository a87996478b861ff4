package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// restored returns a book after an older state took the place of the present one.
func restored(t *testing.T, older, now func(*state.Txn)) *book {
	t.Helper()
	old, present := newBook(t), newBook(t)
	old.must(func(tx *state.Txn) error { older(tx); return nil })
	present.must(func(tx *state.Txn) error { now(tx); return nil })
	for old.state.Read().Index() < present.state.Read().Index() {
		old.must(func(*state.Txn) error { return nil })
	}
	old.must(func(tx *state.Txn) error { ledger.RollBack(tx, present.state.Read()); return nil })
	return old
}

// rolledBack is the state after that.
func rolledBack(t *testing.T, older, now func(*state.Txn)) *state.Txn {
	t.Helper()
	return restored(t, older, now).state.Read()
}

func nothing(*state.Txn) {}

func held(s api.ClaimState) *api.VolumeClaim {
	return &api.VolumeClaim{
		Namespace: "default", VolumeID: "v", AllocID: "a", NodeID: "n1", PluginID: "p", ExternalID: "x", State: s,
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem, Mode: api.ClaimWrite, Attach: true,
	}
}

func with(c *api.VolumeClaim, fn func(*api.VolumeClaim)) *api.VolumeClaim {
	fn(c)
	return c
}

func attached(s api.AttachmentState, fence uint64) *api.VolumeAttachment {
	return &api.VolumeAttachment{
		PluginID: "p", ExternalID: "x", NodeID: "n1", ProviderNodeID: "i-1", State: s, Fence: fence,
		PublishContext: map[string]string{"by": string(s)},
	}
}

// mounts are those of an allocation that a node reports.
func mounts(alloc string) []*api.StaleMount {
	return []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: alloc, PluginID: "p", ExternalID: "x", AccessMode: api.AccessSingleNodeWriter}}
}

// reports has a node register with what it has mounted.
func (b *book) reports(node string, mounts []*api.StaleMount) {
	b.t.Helper()
	b.must(func(tx *state.Txn) error {
		n := *tx.Node(node)
		n.StaleMounts = mounts
		n.StaleMounts = ledger.Unexplained(tx, &n, tx.Node(node).StaleMounts)
		tx.PutNode(&n)
		ledger.Reported(tx, node, mounts, false)
		return nil
	})
}

func TestRestoreIsRefusedWhileVolumesAreAttached(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	if err := ledger.MayRestore(b.state.Read()); err != nil {
		t.Fatal(err)
	}
	b.must(func(tx *state.Txn) error { tx.PutClaim(held(api.ClaimWaiting)); return nil })
	if err := ledger.MayRestore(b.state.Read()); err != nil {
		t.Fatalf("a claim that has nothing: %v", err)
	}
	b.must(func(tx *state.Txn) error {
		tx.PutClaim(held(api.ClaimReady))
		tx.PutAttachment(attached(api.AttachmentPublished, 1))
		tx.PutClaim(with(held(api.ClaimReleasing), func(c *api.VolumeClaim) { c.VolumeID, c.ExternalID, c.Attach = "w", "y", false }))
		return nil
	})
	err := ledger.MayRestore(b.state.Read())
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "2 external volumes") || !strings.Contains(err.Error(), "x of CSI plugin p on node n1") ||
		!strings.Contains(err.Error(), "-force") {
		t.Errorf("the refusal is: %v", err)
	}
}

func TestRestoreWaitsForAllNodesOfBothStates(t *testing.T) {
	t.Parallel()
	node := func(id, status string) func(*state.Txn) {
		return func(tx *state.Txn) { tx.PutNode(&api.Node{ID: id, Status: status}) }
	}
	tx := rolledBack(t, func(tx *state.Txn) {
		node("older", api.NodeStatusReady)(tx)
		node("down, with nothing", api.NodeStatusReady)(tx)
		tx.PutClaim(with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.AllocID, c.NodeID = "b", "purged, with a claim" }))
		tx.PutRollback(&api.Rollback{At: 1, Unreported: []string{"of an earlier restore"}})
	}, func(tx *state.Txn) {
		node("newer", api.NodeStatusReady)(tx)
		node("down, with nothing", api.NodeStatusDown)(tx)
		node("down, with a claim", api.NodeStatusDown)(tx)
		tx.PutClaim(with(held(api.ClaimUnmounted), func(c *api.VolumeClaim) { c.NodeID = "down, with a claim" }))
		tx.PutNode(&api.Node{ID: "down, with a mount", Status: api.NodeStatusDown, StaleMounts: mounts("c")})
	})
	want := []string{"down, with a claim", "down, with a mount", "n1", "n2", "newer", "of an earlier restore", "purged, with a claim"}
	if r := tx.Rollback(); !slices.Equal(r.Unreported, want) || r.At == 1 {
		t.Errorf("waited for are %q", r.Unreported)
	}
	tx = rolledBack(t, node("down, with nothing", api.NodeStatusReady), func(tx *state.Txn) { tx.PutClusterID("another cluster") })
	if r := tx.Rollback(); !slices.Contains(r.Unreported, "down, with nothing") {
		t.Errorf("servers of another cluster do not know that it is down, and wait for %q", r.Unreported)
	}
}

// A registration that was on its way during the restore does not contain what was mounted meanwhile; nothing ends the
// wait but reports of all nodes, a purge, or an operator's release of the volume.
func TestVolumesWaitForReports(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		tx.PutRollback(&api.Rollback{At: 7, Unreported: []string{"n1", "n2", "n3"}})
		tx.PutClaim(with(held(api.ClaimTaken), func(c *api.VolumeClaim) { c.NodeID = "n2" }))
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n2", DesiredStatus: api.AllocDesiredStatusRun})
		a := attached(api.AttachmentPublishing, 1)
		a.NodeID = "n2"
		tx.PutAttachment(a)
		return nil
	})
	if m := ledger.Mark(b.state.Read(), "n1", false); m != 7 {
		t.Errorf("its registration must carry the mark %d", m)
	}
	waits := func(when string, want bool) {
		t.Helper()
		tx := b.state.Read()
		c := tx.Claim("default", "v", "a", "")
		err := ledger.MayDelete(tx, tx.Volume("default", "v"))
		if ledger.ClaimHeld(tx, c) != want || ledger.AttachHeld(tx, tx.Attachment("p", "x", "n2")) != want || (ledger.Held(tx, "p", "x") != "") != want ||
			c.State == api.ClaimReady || err == nil || strings.Contains(err.Error(), "restored to an older state") != want {
			t.Errorf("%s: the volume waits: %q, its deletion: %v", when, ledger.Held(tx, "p", "x"), err)
		}
	}
	waits("at first", true)
	if err := b.do(ledger.EndHold); err == nil {
		t.Error("the wait ends without reports")
	}
	b.reports("n2", nil)
	waits("after the report of its own node", true)
	if why := ledger.Held(b.state.Read(), "p", "x"); !strings.Contains(why, "volume detach -force -plugin p -external-id x n1") || !strings.Contains(why, "/v1/node/n1/purge") {
		t.Errorf("the reason names no remedy: %s", why)
	}
	b.must(func(tx *state.Txn) error { ledger.ReleaseHeld(tx, "p", "x", "n1"); return nil })
	waits("after an operator's override for one of two nodes", true)
	b.must(func(tx *state.Txn) error { ledger.ReleaseHeld(tx, "p", "x", "n3"); return nil })
	waits("after the other", false)
	tx := b.state.Read()
	if a := tx.Attachment("p", "x", "n2"); a.Fence != tx.Index() || !a.Called {
		t.Errorf("the intent is older than others that hosts of controllers have seen: %+v", a)
	}
	if ledger.Held(tx, "p", "another") == "" || !ledger.Unreported(tx, "n1") {
		t.Error("the override releases other volumes, or the node")
	}
	b.must(func(tx *state.Txn) error {
		if !ledger.Forgo(tx, "n1") || !ledger.Forgo(tx, "n3") || ledger.Forgo(tx, "n1") {
			t.Error("a purge does not end the wait for a node")
		}
		return ledger.EndHold(tx)
	})
	if tx := b.state.Read(); tx.Rollback() != nil || ledger.Held(tx, "p", "another") != "" {
		t.Error("the wait does not end")
	}
}

// What a node gets while its registration is on its way is missing in its report, also of shared volumes.
func TestNodeGetsNoVolumeBeforeItHasReported(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.AccessMode, c.ExternalID = api.AccessMultiNodeMultiWriter, "shared" })
	for unreported, awaits := range map[string]bool{"n1": true, "n2": false} {
		b.must(func(tx *state.Txn) error {
			tx.PutRollback(&api.Rollback{At: 1, Unreported: []string{unreported}})
			return nil
		})
		if got := ledger.ClaimHeld(b.state.Read(), c); got != awaits {
			t.Errorf("%s has not reported: the claim of n1 waits: %t", unreported, got)
		}
	}
}

// The promise of a node is longer than the lease that the older state knows.
func TestReportKeepsWhatTheNodePromised(t *testing.T) {
	t.Parallel()
	b := restored(t, func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun})
		tx.PutClaim(with(held(api.ClaimReady), func(c *api.VolumeClaim) { c.Attach, c.Lease = false, time.Minute }))
	}, nothing)
	m := mounts("a")
	m[0].Lease = time.Hour
	b.reports("n1", m)
	if c := b.state.Read().Claim("default", "v", "a", ""); c.State != api.ClaimReady || c.Lease != time.Hour {
		t.Errorf("the claim is %+v", c)
	}
}

// The allocation of a mount that the older state does not explain is stopped: the scheduler sees the note on its node.
func TestMountThatNoReadyClaimExplainsIsUnmounted(t *testing.T) {
	t.Parallel()
	b := restored(t, func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: "a", NodeID: "n1", DesiredStatus: api.AllocDesiredStatusRun})
		tx.PutClaim(held(api.ClaimTaken))
		tx.PutAttachment(attached(api.AttachmentPublishing, 1))
	}, nothing)
	b.reports("n1", slices.Concat(mounts("a"), mounts("unknown")))
	for _, alloc := range []string{"a", "unknown"} {
		c := b.state.Read().Claim("default", "v", alloc, "")
		if c == nil || c.State != api.ClaimReleasing || ledger.StaleMount(b.state.Read(), ledger.HoldOf(c)) == nil || b.attachment().State != api.AttachmentPublished {
			t.Errorf("the claim of %s is %+v, attached is %+v, stale are %v", alloc, c, b.attachment(), b.state.Read().Node("n1").StaleMounts)
		}
	}
}

// Providers do not go back: what one of them may have attached has a row.
func TestRestoreKeepsAttachments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		older, now *api.VolumeAttachment
		want       api.AttachmentState
		called     bool
	}{
		"attached since":       {now: attached(api.AttachmentPublished, 7), want: api.AttachmentPublished},
		"being attached":       {now: attached(api.AttachmentPublishing, 7), want: api.AttachmentPublishing},
		"being detached since": {older: attached(api.AttachmentPublished, 1), now: attached(api.AttachmentUnpublishing, 7), want: api.AttachmentUnpublishing},
		"attached again":       {older: attached(api.AttachmentUnpublishing, 1), now: attached(api.AttachmentPublished, 7), want: api.AttachmentPublished},
		"detached since":       {older: attached(api.AttachmentPublished, 1), want: api.AttachmentPublishing, called: true},
		"was being detached":   {older: attached(api.AttachmentUnpublishing, 1), want: api.AttachmentUnpublishing},
		"restored forward":     {older: attached(api.AttachmentPublished, 8), now: attached(api.AttachmentPublishing, 7), want: api.AttachmentPublished},
	} {
		put := func(a *api.VolumeAttachment) func(*state.Txn) {
			return func(tx *state.Txn) {
				if a != nil {
					next := *a
					tx.PutAttachment(&next)
				}
			}
		}
		a := rolledBack(t, put(c.older), put(c.now)).Attachment("p", "x", "n1")
		if a == nil || a.State != c.want || a.Called != c.called || a.ProviderNodeID != "i-1" {
			t.Errorf("%s: the attachment is %+v", name, a)
		}
	}
	secret := func(tx *state.Txn) { tx.PutAttachment(attached(api.AttachmentPublished, 7)) }
	a := rolledBack(t, func(tx *state.Txn) { tx.DeleteVolume("default", "v") }, secret).Attachment("p", "x", "n1")
	if a == nil || a.Secrets["k"] != "s" {
		t.Errorf("an attachment without a spec cannot be detached: %+v", a)
	}
	if a := rolledBack(t, nothing, secret).Attachment("p", "x", "n1"); a.Secrets != nil {
		t.Error("secrets that the specification has are doubled")
	}
}

// What destroys something is intended when both states intend it.
func TestRestoreTakesUpNoDeletionThatHadEnded(t *testing.T) {
	t.Parallel()
	is := func(s api.VolumeState, external string, intent uint64, replaces *api.VolumeSpec) func(*state.Txn) {
		return func(tx *state.Txn) {
			v := *tx.Volume("default", "v")
			v.Provision = api.VolumeProvision{State: s, ExternalID: external, Intent: intent, Began: 1, Replaces: replaces}
			tx.PutVolume(&v)
		}
	}
	gone := func(tx *state.Txn) { tx.DeleteVolume("default", "v") }
	earlier := &api.VolumeSpec{PluginID: "p", ExternalID: "y"}
	for name, c := range map[string]struct {
		older, now func(*state.Txn)
		want       api.VolumeState
		intent     uint64
		replaces   bool
		uncertain  bool
	}{
		"continues":           {older: is(api.VolumeDeleting, "x", 2, nil), now: is(api.VolumeDeleting, "x", 5, nil), want: api.VolumeDeleting, intent: 5},
		"kept":                {older: is(api.VolumeDeleting, "x", 2, nil), now: is(api.VolumeAvailable, "x", 5, nil), want: api.VolumeAvailable, intent: 2},
		"ended":               {older: is(api.VolumeDeleting, "x", 2, nil), now: gone, want: api.VolumeAvailable, intent: 2},
		"of unknown id":       {older: is(api.VolumeDeleting, "", 2, nil), now: gone, want: api.VolumeFailed, intent: 2, uncertain: true},
		"begun since":         {older: is(api.VolumeAvailable, "x", 2, nil), now: is(api.VolumeDeleting, "x", 5, nil), want: api.VolumeAvailable, intent: 2},
		"replaces and is not": {older: is(api.VolumeCreating, "", 2, earlier), now: is(api.VolumeAvailable, "z", 5, nil), want: api.VolumeCreating, intent: 2, uncertain: true},
		"still replaces":      {older: is(api.VolumeCreating, "", 2, earlier), now: is(api.VolumeCreating, "", 5, earlier), want: api.VolumeCreating, intent: 5, replaces: true},
		"replaces and ends":   {older: is(api.VolumeDeleting, "", 2, earlier), now: gone, want: api.VolumeFailed, intent: 2},
	} {
		p := rolledBack(t, c.older, c.now).Volume("default", "v").Provision
		if p.State != c.want || p.Intent != c.intent || (p.Replaces != nil) != c.replaces || p.Uncertain != c.uncertain {
			t.Errorf("%s: it is %+v", name, p)
		}
	}
	tx := rolledBack(t, func(tx *state.Txn) {
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "id", Delete: true})
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "s", Unwanted: true})
	}, nothing)
	for i := range tx.SnapshotIntents() {
		t.Errorf("a snapshot that may be a backup is deleted by %+v", i)
	}
}

// Hosts of controllers have received the intents of the state before; callers wait for the operation that they began.
func TestOperationsAreRenewedWhenTheHoldEnds(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	states := map[string]api.VolumeState{
		"creating": api.VolumeCreating, "deleting": api.VolumeDeleting, "expanding": api.VolumeExpanding, "available": api.VolumeAvailable,
		"failed": api.VolumeFailed,
	}
	b.must(func(tx *state.Txn) error {
		for id, s := range states {
			v := &api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "default", ID: id, PluginID: "p"}}
			v.Provision.State, v.Provision.Intent = s, 3
			if s == api.VolumeDeleting {
				v.Provision.Began = 2
			}
			tx.PutVolume(v)
		}
		tx.PutAttachment(attached(api.AttachmentUnpublishing, 1))
		tx.PutRollback(&api.Rollback{At: 1})
		return nil
	})
	for range 5 {
		b.must(func(*state.Txn) error { return nil })
	}
	b.must(ledger.EndHold)
	tx := b.state.Read()
	for id, s := range states {
		p, operation, intent, uncertain := tx.Volume("default", id).Provision, uint64(3), tx.Index(), false
		switch s {
		case api.VolumeDeleting:
			operation, uncertain = 2, true
		case api.VolumeCreating: // a call with the previous intent may be under way
			uncertain = true
		case api.VolumeAvailable, api.VolumeFailed:
			intent = 3
		}
		if p.Intent != intent || p.Operation() != operation || p.Uncertain != uncertain {
			t.Errorf("the operation %d of a volume that is %s has the intent %d at index %d, uncertain: %t", p.Operation(), s, p.Intent, tx.Index(), p.Uncertain)
		}
	}
	if a := b.attachment(); a.Fence != tx.Index() || !a.Called {
		t.Errorf("the attachment is %+v", a)
	}
}
