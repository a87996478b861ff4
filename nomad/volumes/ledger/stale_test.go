package ledger_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// givenUp is a volume that was mounted on n1 for a1 when the node was given up, and is detached.
func givenUp(t *testing.T) *book {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error {
		return ledger.Evict(tx, hold("v", "a1", ""), ledger.ProofFenced, ledger.ByProvider)
	})
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(b.attachment())) })
	if c := b.state.Read().Claim("default", "v", "a1", ""); c != nil {
		t.Fatalf("claim %+v is left", c)
	}
	return b
}

func (b *book) stale() []*api.StaleMount { return b.state.Read().Node("n1").StaleMounts }

func released(node string) func(*state.Txn) error {
	return func(tx *state.Txn) error { return ledger.Released(tx, hold("v", "a1", node)) }
}

func TestVolumeThatWasGivenUpComesBackAfterTheNodesWord(t *testing.T) {
	b := givenUp(t)
	if m := b.stale(); len(m) != 1 || m[0].AllocID != "a1" || m[0].VolumeID != "v" || m[0].ExternalID != "x" || m[0].PluginID != "p" || m[0].Since == 0 {
		t.Fatalf("stale mounts are %+v", m)
	}
	b.refused(fault.Conflict, take(taker("a2", "n1")))
	err := b.do(take(taker("a2", "n1")))
	if !strings.Contains(err.Error(), "node n1") || !strings.Contains(err.Error(), "allocation a1") {
		t.Errorf("the refusal says %q", err)
	}
	b.refused(fault.NotFound, released("n2"))
	b.must(func(tx *state.Txn) error {
		return ledger.ReleaseFailed(tx, hold("v", "a1", "n1"), "unpublish: busy", 0)
	})
	if m := b.stale(); len(m) != 1 || m[0].LastError != "unpublish: busy" {
		t.Errorf("stale mounts are %+v", m)
	}
	b.must(released("n1"))
	if m := b.stale(); len(m) != 0 {
		t.Errorf("stale mounts are %+v", m)
	}
	b.refused(fault.NotFound, released("n1"))
	b.must(take(taker("a2", "n1")))
	b.attachment()
}

// Who is given up by a policy loses a volume that all may share all the same, when it is detached from the node: schedulers
// stop an allocation that has lost its volume, and leave alone whose mount is nobody's harm and as good as before.
func TestANoteTellsWhoIsCutOffFromAVolumeThatAllMayShare(t *testing.T) {
	t.Parallel()
	for name, attaches := range map[string]bool{"a detach follows": true, "nothing was attached": false} {
		b := newBook(t)
		b.must(func(tx *state.Txn) error {
			v := *tx.Volume("default", "v")
			v.RequestedCapabilities = []*api.VolumeCapability{{AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem}}
			tx.PutVolume(&v)
			return nil
		})
		b.must(take(taker("a1", "n1")))
		b.must(func(tx *state.Txn) error {
			if attaches {
				return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil)
			}
			return ledger.PublishNeedless(tx, ledger.IntentOf(b.attachment()))
		})
		b.must(func(tx *state.Txn) error {
			return ledger.Evict(tx, hold("v", "a1", ""), ledger.ProofAssumed, ledger.ByPolicy)
		})
		if m := b.stale(); len(m) != 1 || m[0].Shared == attaches {
			t.Errorf("%s: stale mounts are %+v", name, m)
		}
	}
}

func TestVolumeThatWasGivenUpIsFreeElsewhere(t *testing.T) {
	b := givenUp(t)
	b.must(take(taker("a2", "n2")))
	if a := b.state.Read().Attachment("p", "x", "n2"); a == nil || a.State != api.AttachmentPublishing {
		t.Fatalf("attachment is %+v", a)
	}
}

func TestAnotherBootEndsStaleMounts(t *testing.T) {
	b := givenUp(t)
	b.must(func(tx *state.Txn) error { return ledger.Rebooted(tx, "n1", nil) })
	if m := b.stale(); len(m) != 0 {
		t.Fatalf("stale mounts are %+v", m)
	}
	b.must(take(taker("a2", "n1")))
}

// TestSuccessorOnTheSameNodeWaitsForTheOldMount forces the volume off a node that is there, while another
// allocation waits for it.
func TestSuccessorOnTheSameNodeWaitsForTheOldMount(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error {
		next := taker("a2", "n1")
		tx.PutAlloc(next)
		return ledger.Take(tx, next, map[string]bool{"a1": true})
	})
	b.must(func(tx *state.Txn) error {
		return ledger.Evict(tx, hold("v", "a1", ""), ledger.ProofAssumed, ledger.ByOperator)
	})
	b.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(b.attachment())) })
	if c, a := b.state.Read().Claim("default", "v", "a2", ""), b.state.Read().Attachment("p", "x", "n1"); c.State != api.ClaimTaken || a != nil {
		t.Fatalf("the claim is %s, the attachment %+v", c.State, a)
	}
	b.must(released("n1"))
	if a := b.attachment(); a.State != api.AttachmentPublishing {
		t.Fatalf("attachment is %+v", a)
	}
}

func TestPurgedNodeIsNotWaitedFor(t *testing.T) {
	b := newBook(t)
	b.must(take(taker("a1", "n1")))
	b.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(b.attachment()), nil) })
	b.must(func(tx *state.Txn) error { tx.DeleteNode("n1"); return nil })
	b.must(func(tx *state.Txn) error {
		return ledger.Evict(tx, hold("v", "a1", ""), ledger.ProofFenced, ledger.ByProvider)
	})
	if tx := b.state.Read(); tx.Node("n1") != nil {
		t.Fatal("the node is back")
	}
}
