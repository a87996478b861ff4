package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// lookExternal makes the calls that one external volume needs, one after the other: detaches first, as they
// make it free, then attaches, and what is to become of the volume in the order of the intents.
func (r *Reconciler) lookExternal(ctx context.Context, k key, t tries) time.Time {
	return r.doAll(ctx, t, func() []operation {
		tx := r.state.Read()
		var detaches, attaches []operation
		for a := range tx.AttachmentsOf(k.a, k.b) {
			switch {
			case a.State == api.AttachmentUnpublishing:
				detaches = append(detaches, r.unpublishOperation(a))
			case a.State == api.AttachmentPublishing && a.Refused == 0 && !ledger.AttachHeld(tx, a):
				attaches = append(attaches, r.publishOperation(a))
			}
		}
		if ledger.Held(tx, k.a, k.b) != "" {
			return attaches
		}
		all := append(detaches, attaches...)
		for a := range tx.WrittenOffOf(k.a, k.b) { // no caller waits for them
			all = append(all, r.unpublishOperation(a))
		}
		return append(all, r.volumeOps(tx, k.a, k.b)...)
	})
}

func (r *Reconciler) publishOperation(a *api.VolumeAttachment) operation {
	return operation{
		name:   fmt.Sprintf("publish %s to %s by %d at %s", a.ExternalID, a.NodeID, a.Fence, a.Provider),
		plugin: a.PluginID,
		do:     func(ctx context.Context, t try) error { return r.publish(ctx, a, t) },
		failed: r.publishFailed(a),
	}
}

func (r *Reconciler) publish(ctx context.Context, a *api.VolumeAttachment, t try) error {
	tx, result := r.state.Read(), attached(a)
	attaches, err := pluginview.Capable(tx, a.PluginID, pluginview.Attach)
	if err != nil && ledger.Attaches(tx, a.PluginID) { // else it has no controller at all
		return err
	}
	called := a.ProviderNodeID != "" && (a.Called || t.begun || r.inherited(a.Fence))
	switch {
	case !attaches && !called:
		// The plugin attached volumes when the claim was taken, or that was not known. Where it was called the volume may
		// be attached, and a controller is needed to detach it.
		if why := ledger.NeedsAttach(tx, ledger.IntentOf(a)); why != "" {
			result.Reason, result.Refused, result.Attempts = why, uint8(fault.Conflict), 1
		} else {
			result.NotCalled = true
		}
		return r.record(ctx, result)
	case a.ProviderNodeID == "":
		result.Prepare = true
		return r.record(ctx, result)
	}
	var out *api.ControllerPublishResponse
	with, err := r.withSecrets(external(a.PluginID, a.ExternalID), ledger.Secrets(tx, a), func(secrets map[string]string) (err error) {
		out, err = call(ctx, r, wire.ControllerPublish, r.attachment("attach", a, r.limits.Attaching), &api.ControllerPublishRequest{
			ControllerCall: api.ControllerCall{PluginID: a.PluginID, Fence: a.Fence, Provider: a.Provider},
			ExternalID:     a.ExternalID, ProviderNodeID: a.ProviderNodeID, AccessMode: a.AccessMode,
			AttachmentMode: a.AttachmentMode, MountOptions: a.MountOptions, ReadOnly: a.ReadOnly,
			Secrets: secrets, Context: a.Context,
		})
		return err
	})
	switch {
	case err == nil:
		result.Published, result.PublishContext = true, out.PublishContext
		if err = r.record(ctx, result); errors.Is(err, errReplaced) {
			r.undo(ctx, a, with)
		}
		return err
	case t.uncertain || failed(err).uncertain:
		r.undo(ctx, a, with)
	}
	return fmt.Errorf("attach to node %s: %w", a.NodeID, err)
}

// undo detaches what was attached after its row was ended, also after it was written off: nothing else records it.
// Where there is another row, that row does it.
func (r *Reconciler) undo(ctx context.Context, a *api.VolumeAttachment, secrets map[string]string) {
	was := *a
	was.Secrets = secrets
	for ctx.Err() == nil {
		tx := r.state.Read()
		if tx.Attachment(a.PluginID, a.ExternalID, a.NodeID) != nil || tx.WrittenOffTo(a.PluginID, a.ExternalID, a.NodeID) != nil {
			return
		}
		err := r.record(ctx, &commands.UndoAttach{Row: &was, Seen: tx.Index()})
		if err == nil {
			r.log.Warn("a volume may have been attached after its attachment had been ended: it is detached",
				"external_id", a.ExternalID, "plugin", a.PluginID, "node", a.NodeID)
			return
		}
		if errors.Is(err, errReplaced) {
			continue // another attachment changed meanwhile
		}
		r.log.Warn("a volume may have been attached after its attachment had been ended, which is not recorded yet",
			"external_id", a.ExternalID, "plugin", a.PluginID, "node", a.NodeID, "error", err)
		select {
		case <-time.After(r.limits.RetryMin):
		case <-ctx.Done():
		}
	}
}

// attachment is how a controller is asked about an attachment.
func (r *Reconciler) attachment(kind string, a *api.VolumeAttachment, most int) ask {
	return ask{
		plugin: a.PluginID, object: a.ExternalID, needs: pluginview.Attach, limit: r.limits.AttachTimeout,
		kind: kind, width: width{most, most, r.limits.SlowAfter}, lane: a.NodeID,
	}
}

func (r *Reconciler) unpublishOperation(a *api.VolumeAttachment) operation {
	return operation{
		name:   fmt.Sprintf("unpublish %s from %s by %d at %s", a.ExternalID, a.NodeID, a.Fence, a.Provider),
		plugin: a.PluginID,
		do:     func(ctx context.Context, _ try) error { return r.unpublish(ctx, a) },
		failed: r.attachFailed(a),
	}
}

func (r *Reconciler) unpublish(ctx context.Context, a *api.VolumeAttachment) error {
	if a.NotCalled || a.ProviderNodeID == "" && !a.Called || taken(r.state.Read(), a) { // there is nothing to detach
		return r.record(ctx, attached(a))
	}
	if a.ProviderNodeID == "" {
		return r.unpublishUnknown(ctx, a)
	}
	how := r.attachment("detach", a, r.limits.Detaching)
	if a.State == api.AttachmentWrittenOff {
		how.limit = min(how.limit, beside)
	}
	_, err := r.withSecrets(external(a.PluginID, a.ExternalID), ledger.Secrets(r.state.Read(), a), func(secrets map[string]string) error {
		_, err := call(ctx, r, wire.ControllerUnpublish, how, &api.ControllerUnpublishRequest{
			ControllerCall: api.ControllerCall{PluginID: a.PluginID, Fence: a.Fence, Provider: a.Provider},
			ExternalID:     a.ExternalID, ProviderNodeID: a.ProviderNodeID, Secrets: secrets,
		})
		if err != nil && failed(err).verdict() == fault.VerdictVerify {
			err = r.detached(ctx, a, secrets, err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("detach from node %s: %w", a.NodeID, err)
	}
	return r.record(ctx, attached(a))
}

// beside bounds a call that no caller waits for, and that calls about the same volume wait for.
const beside = 15 * time.Second

// taken reports whether the volume is attached for another node that the driver treats as the same one: a machine that
// was set up again. A detach from the former one would detach it from that.
func taken(tx *state.Txn, a *api.VolumeAttachment) bool {
	for o := range tx.AttachmentsOf(a.PluginID, a.ExternalID) {
		if o.NodeID != a.NodeID && o.ProviderNodeID == a.ProviderNodeID && a.ProviderNodeID != "" && o.State != api.AttachmentUnpublishing {
			return true
		}
	}
	return false
}

// unpublishUnknown continues a detach of what may have been attached, once its node's plugin reports the driver's id
// of the node. A plugin that attaches nothing has not been called.
func (r *Reconciler) unpublishUnknown(ctx context.Context, a *api.VolumeAttachment) error {
	tx, next := r.state.Read(), attached(a)
	switch {
	case !ledger.Attaches(tx, a.PluginID):
	case ledger.ProviderNode(tx, a.PluginID, a.NodeID) == "":
		return fault.New(fault.Unavailable, "detach from node %s: the driver's id of the node is not known until CSI plugin %q is there; `nomad volume detach -force` asserts that it is detached",
			a.NodeID, a.PluginID)
	default:
		next.Prepare = true
	}
	return r.record(ctx, next)
}

// detached asks the provider whether a volume is detached when the driver does not know the volume or its node, which
// proves nothing. Unless it is detached, detached returns the driver's error with what the provider reports.
func (r *Reconciler) detached(ctx context.Context, a *api.VolumeAttachment, secrets map[string]string, answer error) error {
	known, err := r.verify(ctx, &api.ControllerVerifyRequest{
		ControllerCall: api.ControllerCall{PluginID: a.PluginID, Provider: a.Provider}, ExternalID: a.ExternalID, ProviderNodeID: a.ProviderNodeID,
		Capabilities: []*api.VolumeCapability{{AccessMode: a.AccessMode, AttachmentMode: a.AttachmentMode}},
		MountOptions: a.MountOptions, Secrets: secrets, Context: a.Context,
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: it is not verified: %w", answer, err)
	case known.Exists == api.KnownNo || known.Attached == api.KnownNo:
		return nil
	case known.Attached == api.KnownYes:
		return fmt.Errorf("%w: it is attached by %s", answer, known.By)
	case a.State == api.AttachmentWrittenOff: // an operator asserts it too
		return nil
	}
	return fmt.Errorf("%w: the plugin has no call that verifies it; `%s` asserts it", answer, commandtext.DetachExternal(a.PluginID, a.ExternalID, a.NodeID))
}

// verify asks what the provider knows.
func (r *Reconciler) verify(ctx context.Context, req *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	return call(ctx, r, wire.ControllerVerify, r.reading(req.PluginID, req.ExternalID, pluginview.Anything), req)
}

func attached(a *api.VolumeAttachment) *commands.Attached {
	return &commands.Attached{PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, Fence: a.Fence}
}

// attachFailed shows on the row why a call is repeated.
func (r *Reconciler) attachFailed(a *api.VolumeAttachment) func(context.Context, failure, try) error {
	return func(ctx context.Context, f failure, t try) error {
		if !t.shows(a.LastError, f) {
			return nil
		}
		result := r.unattached(a, f, t)
		result.NextRetry = t.due.UnixNano()
		return r.record(ctx, result)
	}
}

func (r *Reconciler) unattached(a *api.VolumeAttachment, f failure, t try) *commands.Attached {
	result := attached(a)
	result.Reason, result.Attempts = f.err.Error(), t.failed
	if f.verdict() == fault.VerdictLimit && a.State == api.AttachmentPublishing {
		result.LimitExpiry = r.limitExpiry()
	}
	return result
}

// publishFailed ends a publish whose repetition has no point: the claims that wait for it fail by it, and what it may
// have done is undone once they are removed.
func (r *Reconciler) publishFailed(a *api.VolumeAttachment) func(context.Context, failure, try) error {
	again := r.attachFailed(a)
	return func(ctx context.Context, f failure, t try) error {
		if !f.ends(t) || errors.Is(f.err, errNotOffered) { // they may come
			return again(ctx, f, t)
		}
		result := r.unattached(a, f, t)
		result.Refused = uint8(cmp.Or(fault.Of(f.err), fault.Conflict)) // 0 would mean that it is not refused
		return r.record(ctx, result)
	}
}
