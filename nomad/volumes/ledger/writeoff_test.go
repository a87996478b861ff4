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

// detaching has the attachment of a claim that is over wait for its driver, and a2 for that.
func detaching(t *testing.T, change ...func(*api.Allocation)) *book {
	t.Helper()
	b := newBook(t)
	b.attaches(true)
	b.must(func(tx *state.Txn) error {
		v := *tx.Volume("default", "v")
		for _, m := range []api.AccessMode{api.AccessMultiNodeReader, api.AccessMultiNodeMultiWriter} {
			v.RequestedCapabilities = append(v.RequestedCapabilities, &api.VolumeCapability{AccessMode: m, AttachmentMode: api.AttachmentFileSystem})
		}
		w := v
		w.ID = "w"
		tx.PutVolume(&v)
		tx.PutVolume(&w)
		return nil
	})
	first, next := taker("a1", "n1"), taker("a2", "n1")
	for _, c := range change {
		c(next)
	}
	first.Job.TaskGroups[0].Volumes["v"].AccessMode = string(api.AccessSingleNodeWriter)
	if next.Job.TaskGroups[0].Volumes["v"].AccessMode != "" {
		first.Job.TaskGroups[0].Volumes["v"].AccessMode = string(api.AccessMultiNodeReader)
		first.Job.TaskGroups[0].Volumes["v"].ReadOnly = true
	}
	b.must(take(first))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", "n1")) })
	b.must(func(tx *state.Txn) error {
		return ledger.CallFailed(tx, ledger.IntentOf(b.attachment()), "INTERNAL", 0, 9)
	})
	b.must(take(next))
	return b
}

func (b *book) waiter() *api.VolumeClaim {
	for c := range b.state.Read().ClaimsByAlloc("a2") {
		return c
	}
	return nil
}

// An operator's word ends a detach and not who waits for it: the volume is attached for that one.
func TestOperatorsWordOnADetachLeavesWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*api.Allocation)
		mode   api.AccessMode
	}{
		"in the same mode": {func(*api.Allocation) {}, api.AccessSingleNodeWriter},
		"in another mode": {func(a *api.Allocation) {
			a.Job.TaskGroups[0].Volumes["v"].AccessMode = string(api.AccessMultiNodeMultiWriter)
		}, api.AccessMultiNodeMultiWriter},
		"by another spec": {func(a *api.Allocation) { a.Job.TaskGroups[0].Volumes["v"].Source = "w" }, api.AccessSingleNodeWriter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := detaching(t, c.change)
			if w := b.waiter(); w.State != api.ClaimTaken || b.attachment().State != api.AttachmentUnpublishing {
				t.Fatalf("the claim is %s under an attachment that is %s", w.State, b.attachment().State)
			}
			detach := ledger.IntentOf(b.attachment())
			b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
			b.wantAsserted("")
			a := b.attachment()
			if w := b.waiter(); w == nil || w.State != api.ClaimTaken || a.State != api.AttachmentPublishing || a.AccessMode != c.mode || !a.Called || a.LastError != "" {
				t.Fatalf("the claim is %+v, attached as %+v", w, a)
			}
			b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.UnpublishDone(tx, detach) })
			b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(a), nil) })
			if w := b.waiter(); w.State != api.ClaimReady {
				t.Errorf("the claim is %s", w.State)
			}
		})
	}
}

// The word was about a detach: a claim that is being attached meanwhile is not meant, and one that had begun is.
func TestOperatorsWordOnADetachIsNotAboutTheNextAttach(t *testing.T) {
	t.Parallel()
	b := detaching(t)
	w := asserted
	w.Seen = b.state.Read().Index()
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(b.attachment())) })
	if a := b.attachment(); a.State != api.AttachmentPublishing {
		t.Fatalf("the next attach is %s", a.State)
	}
	b.refused(fault.Conflict, func(tx *state.Txn) error { return ledger.WriteOff(tx, w) })
	w.Seen = b.state.Read().Index()
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, w) })
	if c := b.waiter(); c != nil {
		t.Errorf("the claim is %+v", c)
	}
}

// The driver may still want secrets of before a change to detach what was written off.
func TestWhatWasWrittenOffKeepsTheFormerSecrets(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.attaches(true)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error {
		old := tx.Volume("default", "v")
		next := *old
		next.Secrets = map[string]string{"k": "new"}
		ledger.KeepFormer(tx, old, &next)
		tx.PutVolume(&next)
		return nil
	})
	b.must(func(tx *state.Txn) error { return ledger.WriteOff(tx, asserted) })
	tx := b.state.Read()
	if sets := ledger.Secrets(tx, tx.WrittenOffTo("p", "x", "n1")); len(sets) != 2 || sets[1]["k"] != "s" {
		t.Errorf("it is detached with %v", sets)
	}
}
