package ledger_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// goesBack puts an older state in the place of the present one.
func goesBack(t *testing.T, older, now func(*state.Txn)) *book {
	t.Helper()
	old, present := newBook(t), newBook(t)
	old.must(func(tx *state.Txn) error { older(tx); return nil })
	present.must(func(tx *state.Txn) error { now(tx); return nil })
	old.must(func(tx *state.Txn) error { ledger.RollBack(tx, present.state.Read()); return nil })
	return old
}

// has puts a claim of an allocation on the volume, and its attachment.
func has(alloc, node string, c api.ClaimState, a api.AttachmentState) func(*state.Txn) {
	return func(tx *state.Txn) {
		tx.PutAlloc(&api.Allocation{ID: alloc, Namespace: "default", NodeID: node, DesiredStatus: api.AllocDesiredStatusRun})
		tx.PutClaim(with(held(c), func(c *api.VolumeClaim) { c.AllocID, c.NodeID, c.Attach = alloc, node, a != none }))
		if a != "" && a != none {
			row := attached(a, 1)
			row.NodeID, row.AccessMode = node, api.AccessSingleNodeWriter
			tx.PutAttachment(row)
		}
	}
}

// none is that of a plugin that does not attach.
const none api.AttachmentState = "none"

func both(a, b func(*state.Txn)) func(*state.Txn) {
	return func(tx *state.Txn) { a(tx); b(tx) }
}

// What a restore brings of attaches under way waits for what is attached elsewhere, as new attaches do.
func TestAttachThatARestoreBringsWaitsForTheDetachElsewhere(t *testing.T) {
	t.Parallel()
	taken, publishing := api.ClaimTaken, api.AttachmentPublishing
	for name, c := range map[string]struct{ older, now func(*state.Txn) }{
		"being detached":       {has("b", "n2", taken, publishing), has("a", "n1", api.ClaimUnmounted, api.AttachmentUnpublishing)},
		"being attached":       {has("b", "n2", taken, publishing), has("a", "n1", taken, publishing)},
		"being attached since": {both(has("b", "n2", taken, publishing), has("a", "n1", api.ClaimWaiting, "")), has("a", "n1", taken, publishing)},
	} {
		b := goesBack(t, c.older, c.now)
		b.must(func(tx *state.Txn) error {
			ledger.Told(tx, "n1", nil, false)
			ledger.Told(tx, "n2", nil, false)
			return ledger.RollbackOver(tx)
		})
		for i := 0; i < 4 && b.called(name); i++ {
		}
		served := false
		for c := range b.state.Read().Claims() {
			served = served || c.State == api.ClaimReady
		}
		if !served {
			t.Errorf("%s: nobody gets the volume: %+v", name, slices.Collect(b.state.Read().Claims())[0])
		}
	}
}

// called makes the calls that may be made beside each other; they succeed.
func (b *book) called(name string) bool {
	b.t.Helper()
	tx := b.state.Read()
	var calls []*api.VolumeAttachment
	attaching := false
	for a := range tx.AttachmentsOf("p", "x") {
		if a.State == api.AttachmentUnpublishing || a.State == api.AttachmentPublishing && !ledger.AttachAwaits(tx, a) {
			calls = append(calls, a)
			attaching = attaching || a.State == api.AttachmentPublishing
		}
	}
	if attaching && len(calls) > 1 {
		b.t.Errorf("%s: it is %s to %s and %s to %s", name, calls[0].State, calls[0].NodeID, calls[1].State, calls[1].NodeID)
	}
	for _, a := range calls {
		b.must(func(tx *state.Txn) error {
			if a.State == api.AttachmentPublishing {
				return ledger.PublishDone(tx, ledger.IntentOf(a), nil)
			}
			return ledger.UnpublishDone(tx, ledger.IntentOf(a))
		})
	}
	return len(calls) > 0
}

// One that waited for nodes to tell in the older state waits for them in the present one, also where nothing attaches.
func TestClaimThatIsNotReadyQueuesAfterARestore(t *testing.T) {
	t.Parallel()
	b := goesBack(t, has("b", "n2", api.ClaimTaken, none), has("a", "n1", api.ClaimReady, none))
	b.must(func(tx *state.Txn) error {
		ledger.Told(tx, "n1", []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a", PluginID: "p", ExternalID: "x"}}, false)
		ledger.Told(tx, "n2", nil, false)
		return ledger.RollbackOver(tx)
	})
	if c := b.state.Read().Claim("default", "v", "b", ""); c.State != api.ClaimWaiting || c.Predecessor != "a" {
		t.Errorf("n1 has the volume, and the claim of n2 is %+v", c)
	}
}

// mounts are those of an allocation that a node tells of.
func mounts(alloc string) []*api.StaleMount {
	return []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: alloc, PluginID: "p", ExternalID: "x", AccessMode: api.AccessSingleNodeWriter}}
}

// registers has a node register with what it has mounted.
func (b *book) registers(node string, mounts []*api.StaleMount) {
	b.t.Helper()
	b.must(func(tx *state.Txn) error {
		n := *tx.Node(node)
		n.StaleMounts = mounts
		n.StaleMounts = ledger.Unexplained(tx, &n, tx.Node(node).StaleMounts)
		tx.PutNode(&n)
		ledger.Told(tx, node, mounts, false)
		return nil
	})
}

// What a lost node had was given up, and its row was collected with the note of that: the older state has both again.
func TestARestoreDoesNotBringBackWhatAForgottenNodeHad(t *testing.T) {
	t.Parallel()
	forgets := func(tx *state.Txn) { tx.DeleteNode("n1") }
	for _, s := range []api.ClaimState{api.ClaimTaken, api.ClaimReady, api.ClaimReleasing} {
		b := goesBack(t, has("a", "n1", s, api.AttachmentPublished), forgets)
		b.registers("n1", mounts("a"))
		b.must(ledger.RollbackOver)
		tx := b.state.Read()
		if c, a := tx.Claim("default", "v", "a", ""), tx.Attachment("p", "x", "n1"); c != nil || a == nil || a.State != api.AttachmentUnpublishing || len(tx.Node("n1").StaleMounts) != 1 {
			t.Errorf("%s: the claim is %+v, the attachment %+v, stale are %v", s, c, a, tx.Node("n1").StaleMounts)
		}
	}
	b := goesBack(t, has("a", "n1", api.ClaimReady, api.AttachmentPublished), func(tx *state.Txn) {
		forgets(tx)
		tx.PutClusterID("a new cluster, which never knew the node")
	})
	b.registers("n1", mounts("a"))
	b.must(ledger.RollbackOver)
	if c, a := b.state.Read().Claim("default", "v", "a", ""), b.attachment(); c == nil || c.State != api.ClaimReady || a.State != api.AttachmentPublished {
		t.Errorf("in a new cluster the claim is %+v, the attachment %+v", c, a)
	}
}

// A mount that nobody knows may be one of a claim that was given up: what is below it may have been detached.
func TestVolumeIsAttachedAnewAfterAMountThatNobodyKnows(t *testing.T) {
	t.Parallel()
	b := goesBack(t, func(tx *state.Txn) {}, func(tx *state.Txn) {})
	b.attaches(true)
	b.registers("n1", mounts("a"))
	b.registers("n2", nil)
	b.must(func(tx *state.Txn) error { has("b", "n1", api.ClaimWaiting, "")(tx); return ledger.RollbackOver(tx) })
	if c := b.state.Read().Claim("default", "v", "a", ""); c == nil || c.State != api.ClaimReleasing {
		t.Fatalf("the claim is %+v", c)
	}
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a", "n1")) })
	if a := b.attachment(); a.State != api.AttachmentUnpublishing || len(b.state.Read().Node("n1").StaleMounts) != 0 {
		t.Errorf("the next user gets what may be detached: %+v", a)
	}
	for b.called("after the mount") {
	}
	if c := b.state.Read().Claim("default", "v", "b", ""); c.State != api.ClaimReady {
		t.Errorf("the claim is %+v", c)
	}
}

// A detach that was under way may have been done: who has the volume again is attached again.
func TestWhatWasBeingDetachedIsAttachedOnceMore(t *testing.T) {
	t.Parallel()
	b := goesBack(t, has("a", "n1", api.ClaimReady, api.AttachmentPublished), func(tx *state.Txn) {
		has("a", "n1", api.ClaimUnmounted, api.AttachmentUnpublishing)(tx)
		tx.PutClaim(with(held(api.ClaimUnmounted), func(c *api.VolumeClaim) { c.Presumed = true }))
	})
	b.registers("n1", mounts("a"))
	if c, a := b.state.Read().Claim("default", "v", "a", ""), b.attachment(); c.State != api.ClaimReady || a.State != api.AttachmentPublishing || !a.Called {
		t.Fatalf("the claim is %+v, the attachment %+v", c, a)
	}
	b.must(ledger.RollbackOver)
	if !b.called("after the wait") || b.attachment().State != api.AttachmentPublished {
		t.Errorf("it is not attached: %+v", b.attachment())
	}
}
