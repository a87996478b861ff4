package volumes

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// ConfirmIntent tells the host of a controller, just before it calls the driver, that the intent behind the call is
// the newest of its object: fault.Conflict when it was answered or replaced. That keeps the order of calls over all
// hosts of a plugin, and keeps those of deposed leaders out.
func (s *Service) ConfirmIntent(ctx context.Context, r *api.VolumeIntentRequest) (*api.Empty, error) {
	if err := s.proven(r.NodeID, r.NodeSecret); err != nil {
		return nil, err
	}
	if err := s.leads(ctx); err != nil {
		return nil, fmt.Errorf("confirm intent %d: %w", r.Fence, err)
	}
	if !intended(s.state.Read(), r) {
		return nil, fault.New(fault.Conflict, "intent %d of plugin %q for %q was answered or replaced", r.Fence, r.PluginID, r.ExternalID)
	}
	return &api.Empty{}, nil
}

// intended reports whether a row waits for the answer to the intent.
func intended(tx *state.Txn, r *api.VolumeIntentRequest) bool {
	for a := range tx.AttachmentsOf(r.PluginID, r.ExternalID) {
		if a.Fence == r.Fence && a.State != api.AttachmentPublished {
			return true
		}
	}
	for i := range tx.SnapshotIntents() {
		if i.CreateIndex == r.Fence && i.PluginID == r.PluginID {
			return true
		}
	}
	for v := range tx.VolumesByPlugin(r.PluginID) {
		if v.Provision.Intent == r.Fence && v.Provision.State != api.VolumeAvailable && v.Provision.State != api.VolumeFailed {
			return true
		}
	}
	return false
}
