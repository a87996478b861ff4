package volumes

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// detachDriver ends, on an operator's word, all that waits to be detached by a driver that is gone for good, and then what
// was written off and that driver still fails to detach. What is in use stays until its users have stopped.
func (s *Service) detachDriver(ctx context.Context, r *api.VolumeDetachRequest) (*api.VolumeDetachResponse, error) {
	switch {
	case !r.Force:
		return nil, fault.New(fault.Invalid, "what a driver has attached is detached by force only")
	case r.PluginID == "" || r.VolumeID != "" || r.ExternalID != "":
		return nil, fault.New(fault.Invalid, "a driver is named with its plugin, and without a volume")
	case len(r.Reason) > reasonMax:
		return nil, fault.New(fault.TooLarge, "the reason has %d bytes, at most %d are kept", len(r.Reason), reasonMax)
	}
	tx := s.state.Read()
	var errs []error
	meta := detached(tx.TableIndex(state.TableAttachments))
	for _, a := range waiting(tx, r) {
		done, err := s.writeOff(ctx, tx, &commands.WriteOff{
			PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, By: r.By, Reason: r.Reason, Seen: tx.Index(),
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		meta = done
	}
	if len(errs) > 0 {
		return nil, fault.Wrap(fault.Of(errs[0]), errors.Join(errs...))
	}
	return meta, nil
}

// waiting lists what the driver has attached and is to detach.
func waiting(tx *state.Txn, r *api.VolumeDetachRequest) (all []*api.VolumeAttachment) {
	meant := func(a *api.VolumeAttachment) bool {
		return a.PluginID == r.PluginID && a.Provider == r.Provider && (r.NodeID == "" || a.NodeID == r.NodeID)
	}
	for a := range tx.Attachments() {
		if meant(a) && a.State == api.AttachmentUnpublishing {
			all = append(all, a)
		}
	}
	if len(all) > 0 {
		return all
	}
	for a := range tx.WrittenOff() {
		if meant(a) && a.LastError != "" {
			all = append(all, a)
		}
	}
	return all
}
