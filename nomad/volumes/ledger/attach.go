package ledger

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Intent names an attachment and the intent behind a call to its driver.
type Intent struct {
	PluginID, ExternalID, NodeID string
	// Fence is that of the row when the call began; another one means that the intent was replaced.
	Fence uint64
}

// IntentOf is the intent of an attachment.
func IntentOf(a *api.VolumeAttachment) Intent {
	return Intent{a.PluginID, a.ExternalID, a.NodeID, a.Fence}
}

// row is what the intent may be about, also when it was written off.
func (i Intent) row(tx *state.Txn) *api.VolumeAttachment {
	return cmp.Or(tx.Attachment(i.PluginID, i.ExternalID, i.NodeID), tx.WrittenOffTo(i.PluginID, i.ExternalID, i.NodeID))
}

// PublishDone records that the driver attached the volume.
func PublishDone(tx *state.Txn, i Intent, publishContext map[string]string) error {
	return Standard().PublishDone(tx, i, publishContext)
}

// PublishNeedless records that the plugin does not attach volumes after all: it was not known when the claim was
// taken, and the driver was never called. Claims that relied on the detach get a lease with the volume.
func PublishNeedless(tx *state.Txn, i Intent) error {
	if _, err := intended(tx, i, api.AttachmentPublished); err != nil {
		return err
	}
	if why := NeedsAttach(tx, i); why != "" {
		return fault.New(fault.Conflict, "%s", why)
	}
	for c, v := range relying(tx, i) {
		next := *c
		lease(&next, v)
		tx.PutClaim(&next)
	}
	if err := Standard().PublishDone(tx, i, nil); err != nil {
		return err
	}
	next := *tx.Attachment(i.PluginID, i.ExternalID, i.NodeID)
	next.NotCalled = true
	tx.PutAttachment(&next)
	return nil
}

// NeedsAttach returns why users of an attachment cannot do without it; "" when they can.
func NeedsAttach(tx *state.Txn, i Intent) string {
	for _, v := range relying(tx, i) {
		if v.Fence == api.FenceStorage {
			return fmt.Sprintf("volume %q has fence = %q, and CSI plugin %q does not attach volumes any more", v.ID, v.Fence, i.PluginID)
		}
	}
	return ""
}

// relying lists the claims, with their volumes, of the intent's node that exclude others and have no lease: only the
// detach keeps the node from writing when it is lost.
func relying(tx *state.Txn, i Intent) iter.Seq2[*api.VolumeClaim, *api.Volume] {
	claims := slices.Collect(tx.ClaimsByExternal(i.PluginID, i.ExternalID))
	return func(yield func(*api.VolumeClaim, *api.Volume) bool) {
		for _, c := range claims {
			v := SpecOf(tx, c)
			if c.NodeID != i.NodeID || c.Lease > 0 || claim.Leaving(c.State) || !claim.Exclusive(c.AccessMode, c.Mode) || v == nil {
				continue
			}
			if !yield(c, v) {
				return
			}
		}
	}
}

// UnpublishDone records that the driver detached the volume.
func UnpublishDone(tx *state.Txn, i Intent) error { return Standard().UnpublishDone(tx, i) }

// CallFailed notes why a call failed and when it is repeated.
func CallFailed(tx *state.Txn, i Intent, reason string, nextRetry int64, attempts int) error {
	a := i.row(tx)
	if a == nil || a.Fence != i.Fence || a.State == api.AttachmentPublished {
		return replaced(i)
	}
	next := *a
	next.LastError, next.NextRetry, next.Attempts = reason, nextRetry, attempts
	tx.PutAttachment(&next)
	return nil
}

// PublishRefused records a final failure of a publish. The row stays as long as claims want it, whose allocations fail
// by it, and is then undone like any other attach.
func PublishRefused(tx *state.Txn, i Intent, reason string, class uint8, attempts int) error {
	a, err := intended(tx, i, api.AttachmentPublished)
	if err != nil {
		return err
	}
	next := *a
	next.LastError, next.Refused, next.NextRetry, next.Attempts = reason, class, 0, attempts
	tx.PutAttachment(&next)
	return nil
}

// PublishDone is [PublishDone] by these rules.
func (r Rules) PublishDone(tx *state.Txn, i Intent, publishContext map[string]string) error {
	a, err := intended(tx, i, api.AttachmentPublished)
	if err != nil {
		return err
	}
	next := *a
	next.State, next.PublishContext, next.Since = api.AttachmentPublished, publishContext, tx.Now().UnixNano()
	next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
	tx.PutAttachment(&next)
	r.settle(tx, i.PluginID, i.ExternalID)
	return nil
}

// Undo intends to detach what was attached after an operator had written it off and that had ended too. Where there is
// another row of it, that sees to it; what changed since the state was seen without one may have undone it already. The
// secrets of the call are kept only where no spec has any.
func Undo(tx *state.Txn, was *api.VolumeAttachment, seen uint64) error {
	i := IntentOf(was)
	if tx.TableIndex(state.TableAttachments) > seen || i.row(tx) != nil {
		return replaced(i)
	}
	next := writtenOff(tx, was)
	if len(Gather(tx, i.PluginID, i.ExternalID).Specs) > 0 {
		next.Secrets = nil
	}
	tx.PutAttachment(next)
	return nil
}

// writtenOff is what is left of an attachment that an operator has ended: its driver is still asked to detach it.
func writtenOff(tx *state.Txn, a *api.VolumeAttachment) *api.VolumeAttachment {
	next := *a
	next.State, next.Since, next.Fence, next.Proof = api.AttachmentWrittenOff, tx.Now().UnixNano(), tx.Index(), ProofAssumed
	next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
	return &next
}

// UnpublishDone is [UnpublishDone] by these rules.
func (r Rules) UnpublishDone(tx *state.Txn, i Intent) error {
	if _, err := intended(tx, i, claim.Gone); err != nil {
		return err
	}
	tx.DeleteAttachment(i.PluginID, i.ExternalID, i.NodeID)
	r.settle(tx, i.PluginID, i.ExternalID)
	return nil
}

// intended returns the row that a call was about. A reply to an intent that was replaced is refused.
func intended(tx *state.Txn, i Intent, to api.AttachmentState) (*api.VolumeAttachment, error) {
	a := i.row(tx)
	if a == nil || a.Fence != i.Fence || !claim.Answers(a.State, to) {
		return nil, replaced(i)
	}
	return a, nil
}

func replaced(i Intent) error {
	return fault.New(fault.Conflict, "attachment of %s to node %s: intent %d was replaced in the meantime", i.ExternalID, i.NodeID, i.Fence)
}

// Prepare records the provider's id of the node for an intent that was made without it: before the first call to
// attach, or to detach what may have been attached.
func Prepare(tx *state.Txn, i Intent) error {
	a, err := intended(tx, i, api.AttachmentPublished)
	if err != nil {
		if a, err = intended(tx, i, claim.Gone); err != nil || !a.Called {
			return replaced(i)
		}
	}
	next := *a
	if next.ProviderNodeID = ProviderNode(tx, i.PluginID, i.NodeID); next.ProviderNodeID == "" {
		return fault.New(fault.Unavailable, "node %s does not report CSI plugin %q", i.NodeID, i.PluginID)
	}
	tx.PutAttachment(&next)
	return nil
}
