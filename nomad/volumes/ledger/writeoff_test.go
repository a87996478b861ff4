package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

var asserted = ledger.Assertion{PluginID: "p", ExternalID: "x", NodeID: "n1", By: "ann", Reason: "terminated instance"}

func (b *book) lastRelease() *api.VolumeRelease {
	b.t.Helper()
	r := b.state.Read().Volume("default", "v").Releases
	if len(r) == 0 {
		b.t.Fatal("nothing is recorded")
	}
	return r[len(r)-1]
}

func (b *book) wantAsserted(alloc string) {
	b.t.Helper()
	r := b.lastRelease()
	if r.Proof != ledger.ProofAssumed || r.By != "operator ann" || r.Reason != "terminated instance" || r.At == 0 || r.NodeID != "n1" || r.AllocID != alloc {
		b.t.Errorf("recorded is %+v", r)
	}
}

func TestOperatorEndsAnAttachmentWhateverItsDriverSays(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", "n1")) })
	late := ledger.IntentOf(b.attachment())
	b.must(func(tx *state.Txn) error { return ledger.CallFailed(tx, late, "INTERNAL", 0, 9) })
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
	if c := b.state.Read().Claim("default", "v", "a1", ""); c != nil {
		t.Errorf("claim %+v is left", c)
	}
	b.wantAsserted("a1")
	b.must(take(taker("a2", "n2")))
	b.must(take2(taker("a3", "n1"), "a2"))
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.UnpublishDone(tx, late) })
	b.refused(fault.NotFound, func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
}

func TestOperatorEndsClaimsThatAreStillMounted(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
	tx := b.state.Read()
	if tx.Claim("default", "v", "a1", "") != nil || tx.Attachment("p", "x", "n1") != nil {
		t.Error("the volume is still held")
	}
	b.wantAsserted("a1")
	if len(b.stale()) != 1 {
		t.Errorf("what the node may still have mounted is %+v", b.stale())
	}
}

func TestOperatorEndsAnAttachmentThatNeverSucceeds(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
	if b.state.Read().Attachment("p", "x", "n1") != nil {
		t.Error("the attachment is left")
	}
	b.wantAsserted("a1")
}

func TestOperatorEndsStaleMounts(t *testing.T) {
	b := givenUp(t)
	b.refused(fault.Conflict, take(taker("a2", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.WriteOffMounts(tx, asserted) })
	b.wantAsserted("a1")
	b.must(take(taker("a2", "n1")))
	b.refused(fault.NotFound, func(tx *state.Txn) error { return ledger.WriteOffMounts(tx, asserted) })
}

// TestWriteOffReachesClaimsOfAllSpecs is about claims through a second spec of the external volume.
func TestWriteOffReachesClaimsOfAllSpecs(t *testing.T) {
	b := newBook(t)
	b.must(func(tx *state.Txn) error {
		w := *tx.Volume("default", "v")
		w.ID = "w"
		tx.PutVolume(&w)
		return nil
	})
	a := taker("a1", "n1")
	a.Job.TaskGroups[0].Volumes["v"].Source = "w"
	b.must(take(a))
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
	if b.state.Read().Claim("default", "w", "a1", "") != nil {
		t.Error("the claim is left")
	}
}

// take2 takes in the place of an allocation that the same plan stops.
func take2(a *api.Allocation, old string) func(*state.Txn) error {
	return func(tx *state.Txn) error { tx.PutAlloc(a); return ledger.Take(tx, a, map[string]bool{old: true}) }
}

// What was written off is asked of the driver by whoever leads, also after an older state was restored; where a node is
// attached again meanwhile, that is in its place.
func TestARestoreKeepsWhatWasWrittenOff(t *testing.T) {
	t.Parallel()
	left := attached(api.AttachmentWrittenOff, 3)
	in := attached(api.AttachmentPublished, 4)
	put := func(a *api.VolumeAttachment) func(*state.Txn) {
		return func(tx *state.Txn) { next := *a; tx.PutAttachment(&next) }
	}
	for name, c := range map[string]struct {
		older, now func(*state.Txn)
		want       api.AttachmentState
	}{
		"since":             {nothing, put(left), api.AttachmentWrittenOff},
		"before":            {put(left), nothing, api.AttachmentWrittenOff},
		"and attached anew": {put(left), put(in), api.AttachmentPublished},
	} {
		tx := rolledBack(t, c.older, c.now)
		a := tx.Attachment("p", "x", "n1")
		if a == nil {
			a = tx.WrittenOffTo("p", "x", "n1")
		}
		if a == nil || a.State != c.want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// A driver that was not called has nothing to undo; one that may have attached the volume is called for the next row too.
func TestOnlyWhatMayBeAttachedIsUndoneAfterItWasWrittenOff(t *testing.T) {
	t.Parallel()
	for _, called := range []bool{false, true} {
		b := newBook(t)
		b.must(take(taker("a1", "n1")))
		b.must(func(tx *state.Txn) error {
			next := *tx.Attachment("p", "x", "n1")
			if next.ProviderNodeID = ""; called {
				next.ProviderNodeID = "i-1"
			}
			tx.PutAttachment(&next)
			return nil
		})
		b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
		if left := b.state.Read().WrittenOffTo("p", "x", "n1"); (left != nil) != called {
			t.Errorf("called: %t, and left is %+v", called, left)
		}
		b.must(take2(taker("a2", "n1"), "a1"))
		a := b.state.Read().Attachment("p", "x", "n1")
		if a.Called != called || called && a.ProviderNodeID == "" || a.CreateIndex != b.state.Read().Index() {
			t.Errorf("called: %t, and attached next is %+v", called, a)
		}
	}
}
