package volumes

import (
	"cmp"
	"context"
	"slices"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Handlers serve the calls that servers make on this node.
func (s *Service) Handlers() []wire.Handler {
	return append(s.plugins.Handlers(),
		wire.NodeVolumeExpand.Handle(s.nodeExpand),
		wire.NodeVolumeDetach.Handle(s.nodeDetach),
	)
}

// nodeExpand lets the file system of a volume grow that is mounted here.
func (s *Service) nodeExpand(ctx context.Context, r *api.NodeVolumeExpandRequest) (*api.Empty, error) {
	users := s.journal.Find(func(at *journal.Row) bool {
		return at.State == journal.Mounted && at.PluginID == r.PluginID && at.ExternalID == r.ExternalID
	})
	// Some file systems grow only through a mount that may be written to.
	if i := slices.IndexFunc(users, func(at *journal.Row) bool { return !at.ReadOnly }); i >= 0 {
		users = users[i:]
	}
	if len(users) > 0 {
		return &api.Empty{}, s.expand(ctx, users[0], r.CapacityBytes, r.Secrets)
	}
	return nil, fault.New(fault.NotFound, "volume %q is not mounted on this node", r.VolumeID)
}

func (s *Service) expand(ctx context.Context, r *journal.Row, capacity int64, secrets map[string]string) error {
	p, err := s.plugins.Find(api.CSIPluginTypeNode, r.PluginID)
	if err != nil {
		return err
	}
	release, err := s.turn(ctx, "expand "+r.Key(), r.PluginID, r.Volume())
	if err != nil {
		return err
	}
	defer release()
	if r = s.journal.Row(r.Key()); r == nil || r.State != journal.Mounted {
		return fault.New(fault.NotFound, "the volume is no longer mounted on this node")
	}
	return s.plugins.Called(p, func() error {
		_, err := p.Client().NodeExpand(ctx, nodeVolume(r, secrets), capacity)
		return err
	})
}

// expandQuietly serves an expansion that the node owed; the servers ask again when it failed.
func (s *Service) expandQuietly(ctx context.Context, r *journal.Row, v *api.Volume) {
	if err := s.expand(ctx, r, v.Provision.CapacityBytes, v.Secrets); err != nil {
		s.log.Warn("expand volume", "volume_id", r.VolumeID, "error", err)
	}
}

// nodeDetach unmounts a volume of one allocation, even of one that this node does not remember. With Force the node
// itself unmounts what the plugin cannot unmount or is not running to unmount.
func (s *Service) nodeDetach(ctx context.Context, req *api.NodeVolumeDetachRequest) (*api.Empty, error) {
	if _, is := s.allocs.get(req.AllocID); is {
		return nil, fault.New(fault.Conflict, "allocation %s still runs on this node", req.AllocID)
	}
	if req.VolumeID == "" {
		return nil, fault.New(fault.Invalid, "detach a volume of allocation %s: the id of the volume is required", req.AllocID)
	}
	r := s.journal.Row(journal.RowKey(req.AllocID, req.Namespace, req.VolumeID, req.Use))
	if r == nil || !r.Touched() {
		made, err := s.recordDetach(ctx, req)
		if err != nil {
			return nil, err
		}
		r = cmp.Or(made, r)
	}
	if r == nil {
		return &api.Empty{}, nil
	}
	if r.State != journal.Released {
		if err := s.unmount(ctx, "detach ", r, req.Force); err != nil {
			return nil, err
		}
	}
	s.forget(r.Key())
	return &api.Empty{}, nil
}
