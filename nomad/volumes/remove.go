package volumes

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Deregister forgets a volume and leaves it at its provider.
func (s *Service) Deregister(ctx context.Context, r *api.VolumeDeregisterRequest) (*api.WriteMeta, error) {
	if r.VolumeID == "" {
		return nil, fault.New(fault.Invalid, "missing volume ID")
	}
	index, err := s.write(ctx, &Deregister{Namespace: namespaceOf(r.Namespace), ID: r.VolumeID, Force: r.Force})
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: index}, nil
}

// Delete deletes a volume at its provider and forgets it. Nobody can claim it from the moment at which
// the provider is asked.
func (s *Service) Delete(ctx context.Context, r *api.VolumeDeleteRequest) (*api.WriteMeta, error) {
	ns := namespaceOf(r.Namespace)
	if err := s.deletable(ns, r.VolumeID); err != nil {
		return nil, err
	}
	res, err := s.raft.Propose(ctx, &BeginDelete{Namespace: ns, ID: r.VolumeID, Secrets: r.Secrets})
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
		return nil, fmt.Errorf("delete volume %q: %w", r.VolumeID, s.refusal(intent, v.Provision.LastError))
	}
	s.log.Info("volume deleted", "volume", r.VolumeID, "namespace", ns)
	return &api.WriteMeta{Index: s.state.Read().TableIndex(state.TableVolumes)}, nil
}

// deletable refuses what can be refused before anything is written.
func (s *Service) deletable(ns, id string) error {
	if id == "" {
		return fault.New(fault.Invalid, "missing volume ID")
	}
	tx := s.state.Read()
	v := tx.Volume(ns, id)
	switch {
	case v == nil:
		return missing(ns, id)
	case v.Provision.State == api.VolumeFailed:
		return nil
	}
	if v.Provision.ExternalID != "" {
		if err := unused(tx, v); err != nil {
			return err
		}
	}
	if p := pluginOf(tx, v.PluginID); p != nil && !p.ControllerRequired {
		return fault.New(fault.Invalid, "CSI plugin %q has no controller that could delete volume %q: deregister it and delete it at its provider", v.PluginID, id)
	}
	err := needs(tx, v.PluginID, "CREATE_DELETE_VOLUME", func(c *api.CSIControllerInfo) bool { return c.SupportsCreateDelete })
	if fault.Of(err) == fault.Unavailable && err != nil {
		return fault.New(fault.Conflict, "volume %q cannot be deleted: %w", id, err)
	}
	return err
}

// Detach releases all claims of a volume on a node, also those of allocations that no longer exist. The
// node is asked to unmount first; with Force the operator answers for it.
func (s *Service) Detach(ctx context.Context, r *api.VolumeDetachRequest) (*api.WriteMeta, error) {
	if r.VolumeID == "" || r.NodeID == "" {
		return nil, fault.New(fault.Invalid, "missing volume ID or node ID")
	}
	ns := namespaceOf(r.Namespace)
	tx := s.state.Read()
	held := claimsOn(tx, ns, r.VolumeID, r.NodeID)
	if len(held) == 0 {
		return nil, nothingToDetach(tx, ns, r)
	}
	evict := &Evict{Namespace: ns, VolumeID: r.VolumeID, NodeID: r.NodeID, Proof: ledger.ProofAssumed, By: ledger.ByOperator}
	if !r.Force {
		if err := s.unmountAll(ctx, tx, r.NodeID, held); err != nil {
			return nil, err
		}
		evict.Proof, evict.By = ledger.ProofReleased, ledger.ByNode
	}
	for _, c := range held {
		evict.AllocIDs = append(evict.AllocIDs, c.AllocID)
	}
	index, err := s.write(ctx, evict)
	if err != nil {
		return nil, fmt.Errorf("detach volume %q from node %s: %w", r.VolumeID, r.NodeID, err)
	}
	s.log.Info("volume detached by an operator", "volume", r.VolumeID, "namespace", ns, "node", r.NodeID, "proof", evict.Proof)
	return &api.WriteMeta{Index: index}, nil
}

func nothingToDetach(tx *state.Txn, ns string, r *api.VolumeDetachRequest) error {
	if tx.Volume(ns, r.VolumeID) == nil {
		return missing(ns, r.VolumeID)
	}
	return fault.New(fault.NotFound, "volume %q has no claim on node %s", r.VolumeID, r.NodeID)
}

func claimsOn(tx *state.Txn, ns, volume, node string) []*api.VolumeClaim {
	return slices.DeleteFunc(slices.Collect(tx.ClaimsByVolume(ns, volume)), func(c *api.VolumeClaim) bool {
		return c.NodeID != node || c.State == api.ClaimUnmounted
	})
}

// unmountAll asks the node to unmount what is left of allocations that are over.
func (s *Service) unmountAll(ctx context.Context, tx *state.Txn, node string, held []*api.VolumeClaim) error {
	if n := tx.Node(node); lost(n) {
		return fault.New(fault.Conflict, "node %s is down and cannot be asked to unmount: force asserts that nothing uses the volume there", node)
	}
	for _, c := range held {
		if a := tx.Alloc(c.AllocID); a != nil && !a.Terminal() {
			return fault.New(fault.Conflict, "volume in use: %q is held by allocation %s of job %q, which runs on node %s: stop it first", c.VolumeID, c.AllocID, c.JobID, node)
		}
	}
	for _, c := range held {
		if err := s.unmount(ctx, c); err != nil {
			return fmt.Errorf("detach volume %q: %w", c.VolumeID, err)
		}
	}
	return nil
}
