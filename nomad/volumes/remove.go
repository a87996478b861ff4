package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Deregister forgets a volume and leaves it at its provider.
func (s *Service) Deregister(ctx context.Context, r *api.VolumeDeregisterRequest) (*api.WriteMeta, error) {
	if r.VolumeID == "" {
		return nil, fault.New(fault.Invalid, "missing volume ID")
	}
	tx, ns := s.state.Read(), namespaceOf(r.Namespace)
	index, err := s.write(ctx, &commands.Deregister{Namespace: ns, ID: r.VolumeID, Force: r.Force, Seen: tx.Index()})
	if err != nil {
		return nil, err
	}
	if v := tx.Volume(ns, r.VolumeID); r.Force && v != nil && v.Provision.State != api.VolumeAvailable {
		s.log.Warn("an operator forgets a volume; it may be left at its provider", "volume", v.ID, "namespace", ns, "plugin", v.PluginID,
			"name", v.Name, "external_id", v.RemoteID(), "state", v.Provision.State, "error", v.Provision.LastError)
	}
	return &api.WriteMeta{Index: index}, nil
}

// Delete deletes a volume at its provider and forgets it. Nobody can claim it from the moment at which
// the provider is asked.
func (s *Service) Delete(ctx context.Context, r *api.VolumeDeleteRequest) (*api.WriteMeta, error) {
	ns := namespaceOf(r.Namespace)
	tx := s.state.Read()
	if err := deletable(tx, ns, r.VolumeID); err != nil {
		return nil, err
	}
	sealed, err := s.secrets.Seal(ctx, r.Secrets, tx.Volume(ns, r.VolumeID).Provision.IntentSecrets)
	if err != nil {
		return nil, err
	}
	res, err := s.raft.Propose(ctx, &commands.BeginDelete{Namespace: ns, ID: r.VolumeID, Secrets: sealed, Seen: tx.Index()})
	if err != nil {
		return nil, err
	}
	intent, _ := res.Value.(uint64)
	if intent == 0 {
		return &api.WriteMeta{Index: res.Index}, nil
	}
	v, err := s.await(ctx, ns, r.VolumeID, intent, api.VolumeDeleting)
	switch {
	case err != nil:
		return nil, err
	case v != nil && v.Provision.LastError != "":
		return nil, fmt.Errorf("delete volume %q: %w", r.VolumeID, s.refusal(v.Namespace, v.ID, intent, v.Provision.LastError))
	}
	if err := s.outcomes.Refusal(ns, r.VolumeID, intent); err != nil {
		return nil, fmt.Errorf("delete volume %q: %w", r.VolumeID, err)
	}
	s.log.Info("volume deleted", "volume", r.VolumeID, "namespace", ns)
	return &api.WriteMeta{Index: s.state.Read().TableIndex(state.TableVolumes)}, nil
}

// deletable refuses what can be refused before anything is written.
func deletable(tx *state.Txn, ns, id string) error {
	if id == "" {
		return fault.New(fault.Invalid, "missing volume ID")
	}
	v := tx.Volume(ns, id)
	switch {
	case v == nil:
		return commands.Missing(ns, id)
	case v.Provision.State == api.VolumeFailed:
		return nil
	}
	if v.Provision.ExternalID != "" {
		if err := ledger.MayDelete(tx, v); err != nil {
			return err
		}
	}
	if p := pluginview.Of(tx, v.PluginID); p != nil && !pluginview.HasController(tx, v.PluginID) {
		return fault.New(fault.Invalid, "CSI plugin %q has no controller that could delete volume %q: deregister it and delete it at its provider", v.PluginID, id)
	}
	if err := pluginview.Needs(tx, v.PluginID, pluginview.CreateDelete); err != nil {
		return fmt.Errorf("volume %q cannot be deleted: %w", id, err)
	}
	return nil
}

// Detach ends what a volume has on a node. The node is asked to unmount first; with Force an operator override ends
// the claims and their attachment: see [Service.detachByForce]. Claims that wait for that continue.
func (s *Service) Detach(ctx context.Context, r *api.VolumeDetachRequest) (*api.VolumeDetachResponse, error) {
	if r.VolumeID == "" && !access.Of(ctx).Rights.Allows(operatorWrite, "") { // what is not registered belongs to no namespace
		return nil, access.ErrDenied
	}
	tx := s.state.Read()
	what, err := detachable(tx, namespaceOf(r.Namespace), r)
	if err != nil {
		return nil, err
	}
	held := claimsOn(tx, namespaceOf(r.Namespace), r.VolumeID, what)
	used := slices.DeleteFunc(slices.Clone(held), func(c *api.VolumeClaim) bool { return c.State == api.ClaimWaiting || ledger.Begins(tx, c) })
	switch {
	case !r.Force && len(used) == 0:
		if err := stuck(tx, what, r); err != nil || len(held) == 0 {
			return detached(tx.TableIndex(state.TableClaims)), err
		}
		fallthrough
	case !r.Force:
		if len(used) > 0 {
			held = used
		}
		if err := s.unmountAll(ctx, tx, r.NodeID, held); err != nil {
			return nil, err
		}
		index, err := s.evict(ctx, r, held, ledger.ProofReleased, ledger.ByNode)
		return detached(index), err
	case len(used) > 0:
		return s.detachByForce(ctx, what, r, used)
	case len(held) == 0 || remains(tx, what):
		if err := otherSpec(tx, what, r); err != nil {
			return nil, err
		}
		return s.writeOff(ctx, tx, what)
	}
	index, err := s.evict(ctx, r, held, ledger.ProofAssumed, byOperator(r)) // nothing else holds claims that have not begun
	return detached(index), err
}

func detached(index uint64) *api.VolumeDetachResponse {
	return &api.VolumeDetachResponse{WriteMeta: api.WriteMeta{Index: index}}
}

func byOperator(r *api.VolumeDetachRequest) string {
	return strings.TrimSpace(ledger.ByOperator + " " + r.By)
}

// evict ends claims by a proof.
func (s *Service) evict(ctx context.Context, r *api.VolumeDetachRequest, held []*api.VolumeClaim, proof, by string) (uint64, error) {
	evict := &commands.Evict{Namespace: namespaceOf(r.Namespace), VolumeID: r.VolumeID, NodeID: r.NodeID, Proof: proof, By: by}
	if proof == ledger.ProofAssumed {
		evict.Reason = r.Reason
	}
	for _, c := range held {
		evict.AllocIDs, evict.Uses = append(evict.AllocIDs, c.AllocID), append(evict.Uses, c.Use)
	}
	index, err := s.write(ctx, evict)
	if err != nil {
		return 0, fmt.Errorf("detach volume %q from node %s: %w", r.VolumeID, r.NodeID, err)
	}
	s.log.Info("volume detached by an operator", "volume", r.VolumeID, "namespace", evict.Namespace, "node", r.NodeID, "proof", proof)
	return index, nil
}

// reasonMax bounds, in bytes, what an operator may give as a reason.
const reasonMax = 1024

// otherSpec refuses to write off what another specification of the external volume uses on the node.
func otherSpec(tx *state.Txn, w *commands.WriteOff, r *api.VolumeDetachRequest) error {
	if r.VolumeID == "" {
		return nil
	}
	for c := range tx.ClaimsByExternal(w.PluginID, w.ExternalID) {
		if c.NodeID == w.NodeID && c.State != api.ClaimWaiting && c.State != api.ClaimUnmounted && !ledger.Begins(tx, c) {
			if c.Namespace != namespaceOf(r.Namespace) {
				return fault.New(fault.Conflict, "volume %q is in use on node %s through another namespace: stop its users there first", r.VolumeID, ledger.Short(r.NodeID))
			}
			return fault.New(fault.Conflict, "volume %q is also volume %q in namespace %q, in use on node %s: `%s` ends that",
				r.VolumeID, c.VolumeID, c.Namespace, ledger.Short(r.NodeID), ledger.Brief(tx, c))
		}
	}
	return nil
}

// detachable is what is to be detached: a volume, or an external one that no spec names any more.
func detachable(tx *state.Txn, ns string, r *api.VolumeDetachRequest) (*commands.WriteOff, error) {
	w := &commands.WriteOff{PluginID: r.PluginID, ExternalID: r.ExternalID, NodeID: r.NodeID, By: r.By, Reason: r.Reason, Seen: tx.Index()}
	switch {
	case r.NodeID == "", r.VolumeID == "" && (r.PluginID == "" || r.ExternalID == ""):
		return nil, fault.New(fault.Invalid, "missing volume ID or node ID")
	case len(r.Reason) > reasonMax:
		return nil, fault.New(fault.TooLarge, "the reason has %d bytes, at most %d are kept", len(r.Reason), reasonMax)
	case r.VolumeID == "" && !r.Force:
		return nil, fault.New(fault.Invalid, "an external volume is detached with -force only: no volume names its claims")
	case r.VolumeID == "":
		return w, nil
	}
	if v := tx.Volume(ns, r.VolumeID); v != nil {
		w.PluginID, w.ExternalID = v.PluginID, v.RemoteID()
		return w, nil
	}
	for c := range tx.ClaimsByVolume(ns, r.VolumeID) { // deregistered by force, perhaps more than once
		if w.PluginID == "" || c.NodeID == r.NodeID {
			w.PluginID, w.ExternalID = c.PluginID, c.ExternalID
		}
		if c.NodeID == r.NodeID {
			break
		}
	}
	if w.PluginID != "" {
		return w, nil
	}
	return nil, commands.Missing(ns, r.VolumeID)
}

// writeOff ends, by an operator override, what the node holds of the volume; when it holds nothing, what may still be
// mounted there.
func (s *Service) writeOff(ctx context.Context, tx *state.Txn, w *commands.WriteOff) (*api.VolumeDetachResponse, error) {
	if !remains(tx, w) { // later changes are not affected
		return detached(tx.TableIndex(state.TableClaims)), nil
	}
	mounted := staleOn(tx, w)
	if held := holds(tx, w); held {
		s.unmountByForce(ctx, append(mounted, usedOn(tx, w)...))
	} else if len(mounted) > 0 {
		w.StaleMounts = true
		for _, c := range mounted {
			w.Since = max(w.Since, c.Since)
		}
	}
	index, err := s.write(ctx, w)
	if errors.Is(err, fault.NotFound) {
		return detached(tx.TableIndex(state.TableClaims)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("detach %q of plugin %q from node %s: %w", w.ExternalID, w.PluginID, w.NodeID, err)
	}
	out := detached(index)
	if w.StaleMounts {
		s.unmountByForce(ctx, mounted)
	} else {
		out.Warnings = stillMounted(s.state.Read(), w)
	}
	s.log.Info("volume detached by an operator", "external_id", w.ExternalID, "plugin", w.PluginID,
		"node", w.NodeID, "by", w.By, "reason", w.Reason, "stale_mounts", w.StaleMounts)
	return out, nil
}

// remains reports whether there is anything to write off.
func remains(tx *state.Txn, w *commands.WriteOff) bool {
	left := tx.WrittenOffTo(w.PluginID, w.ExternalID, w.NodeID)
	return holds(tx, w) || len(staleOn(tx, w)) > 0 || left != nil && left.LastError != "" || ledger.WaitsFor(tx, w.PluginID, w.ExternalID, w.NodeID)
}

// holds reports whether the external volume has an attachment on the node, or a claim that is past waiting and has begun.
func holds(tx *state.Txn, w *commands.WriteOff) bool {
	if tx.Attachment(w.PluginID, w.ExternalID, w.NodeID) != nil {
		return true
	}
	for c := range tx.ClaimsByExternal(w.PluginID, w.ExternalID) {
		if c.NodeID == w.NodeID && c.State != api.ClaimWaiting && !ledger.Begins(tx, c) {
			return true
		}
	}
	return false
}

// stuck returns why a volume that is not in use on the node is still not detached.
func stuck(tx *state.Txn, w *commands.WriteOff, r *api.VolumeDetachRequest) error {
	a := tx.Attachment(w.PluginID, w.ExternalID, w.NodeID)
	if a == nil || a.State != api.AttachmentUnpublishing || a.LastError == "" {
		return nil
	}
	return fault.New(fault.Conflict, "volume %q is not used on node %s, and its driver has not detached it yet: `%s` asserts that it is detached\n%s",
		r.VolumeID, ledger.Short(r.NodeID), commandtext.DetachByForce(namespaceOf(r.Namespace), r.VolumeID, ledger.ShortNode(tx, r.NodeID)), a.LastError)
}

// claimsOn are the claims by that id on what is to be detached.
func claimsOn(tx *state.Txn, ns, volume string, w *commands.WriteOff) []*api.VolumeClaim {
	return slices.DeleteFunc(slices.Collect(tx.ClaimsByVolume(ns, volume)), func(c *api.VolumeClaim) bool {
		return c.NodeID != w.NodeID || c.State == api.ClaimUnmounted || c.PluginID != w.PluginID || c.ExternalID != w.ExternalID
	})
}

// unmountAll asks the node to unmount what is left of ended allocations.
func (s *Service) unmountAll(ctx context.Context, tx *state.Txn, node string, held []*api.VolumeClaim) error {
	if n := tx.Node(node); ledger.Lost(n) {
		return fault.New(fault.Conflict, "node %s is down and cannot unmount: `%s` asserts that nothing uses the volume there", ledger.Short(node),
			commandtext.DetachByForce(held[0].Namespace, held[0].VolumeID, ledger.ShortNode(tx, node)))
	}
	for _, c := range held {
		if a := tx.Alloc(c.AllocID); a != nil && !a.Terminal() {
			return fault.New(fault.Conflict, "volume in use: %q is held by allocation %s, which runs on node %s: `%s` ends it", c.VolumeID, ledger.Short(c.AllocID), ledger.Short(node), ledger.Brief(tx, c))
		}
	}
	for _, c := range held {
		if err := s.drivers.Unmount(ctx, c, false); err != nil {
			if ledger.Stopping(tx, c) {
				err = fmt.Errorf("%w, and is being stopped: `%s` ends it", err, ledger.Remedy(tx, c))
			}
			return fmt.Errorf("detach volume %q: %w; `%s` asserts that nothing uses it there", c.VolumeID, err, commandtext.DetachByForce(c.Namespace, c.VolumeID, node))
		}
	}
	return nil
}
