package volumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Handlers serve the calls that servers make on this node.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.ControllerValidate.Handle(s.validate),
		wire.ControllerPublish.Handle(s.attach),
		wire.ControllerUnpublish.Handle(s.detach),
		wire.ControllerCreate.Handle(s.create),
		wire.ControllerDelete.Handle(s.delete),
		wire.ControllerExpand.Handle(s.grow),
		wire.ControllerList.Handle(s.list),
		wire.ControllerSnapshot.Handle(s.snapshot),
		wire.ControllerSnapshotDelete.Handle(s.snapshotDelete),
		wire.ControllerSnapshotList.Handle(s.snapshotList),
		wire.NodeVolumeExpand.Handle(s.nodeExpand),
		wire.NodeVolumeDetach.Handle(s.nodeDetach),
	}
}

// control makes one controller call, alone among the calls that concern the object. The fence keeps late
// calls of deposed leaders out; it is checked when the turn has come.
func control[T any](ctx context.Context, s *Service, c api.ControllerCall, object, fence string, do func(context.Context, *csi.Client) (T, error)) (T, error) {
	var none T
	p, err := s.plugins.find(api.CSIPluginTypeController, c.PluginID)
	if err != nil {
		return none, err
	}
	key := ""
	if object != "" {
		key = volumeKey(c.PluginID, object)
	}
	release, err := s.turn(ctx, c.PluginID, key)
	if err != nil {
		return none, err
	}
	defer release()
	if err := s.fences.pass(short(c.PluginID, object, fence), c.Fence); err != nil {
		return none, err
	}
	out, err := do(ctx, p.client)
	if err != nil {
		if errors.Is(err, fault.Unavailable) {
			p.hurry()
		}
		return none, fmt.Errorf("plugin %s: %w", c.PluginID, err)
	}
	return out, nil
}

// empty fits functions without result.
func empty(err error) (*api.Empty, error) {
	if err != nil {
		return nil, err
	}
	return &api.Empty{}, nil
}

func (s *Service) validate(ctx context.Context, r *api.ControllerValidateRequest) (*api.Empty, error) {
	return control(ctx, s, r.ControllerCall, "", "", func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.Validate(ctx, r))
	})
}

func (s *Service) attach(ctx context.Context, r *api.ControllerPublishRequest) (*api.ControllerPublishResponse, error) {
	return control(ctx, s, r.ControllerCall, r.ExternalID, r.ProviderNodeID, func(ctx context.Context, c *csi.Client) (*api.ControllerPublishResponse, error) {
		pc, err := c.ControllerPublish(ctx, r)
		return &api.ControllerPublishResponse{PublishContext: pc}, err
	})
}

func (s *Service) detach(ctx context.Context, r *api.ControllerUnpublishRequest) (*api.Empty, error) {
	return control(ctx, s, r.ControllerCall, r.ExternalID, r.ProviderNodeID, func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.ControllerUnpublish(ctx, r))
	})
}

func (s *Service) create(ctx context.Context, r *api.ControllerCreateRequest) (*api.ControllerCreateResponse, error) {
	return control(ctx, s, r.ControllerCall, creation(r.Name), "", func(ctx context.Context, c *csi.Client) (*api.ControllerCreateResponse, error) {
		return c.CreateVolume(ctx, r)
	})
}

// creation is the object of calls that create a volume: its id is not known yet.
func creation(name string) string { return "create/" + name }

// delete sees to it that a call which created the volume, and comes late, does not make it again.
func (s *Service) delete(ctx context.Context, r *api.ControllerDeleteRequest) (*api.Empty, error) {
	if r.Name != "" {
		release, err := s.locks.take(ctx, volumeKey(r.PluginID, creation(r.Name)))
		if err != nil {
			return nil, err
		}
		defer release()
		if err := s.fences.pass(short(r.PluginID, creation(r.Name), ""), r.Fence); err != nil {
			return nil, err
		}
	}
	return control(ctx, s, r.ControllerCall, r.ExternalID, "", func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.DeleteVolume(ctx, r))
	})
}

func (s *Service) grow(ctx context.Context, r *api.ControllerExpandRequest) (*api.ControllerExpandResponse, error) {
	return control(ctx, s, r.ControllerCall, r.ExternalID, "", func(ctx context.Context, c *csi.Client) (*api.ControllerExpandResponse, error) {
		return c.ControllerExpand(ctx, r)
	})
}

func (s *Service) list(ctx context.Context, r *api.ControllerListRequest) (*api.ControllerListResponse, error) {
	return control(ctx, s, r.ControllerCall, "", "", func(ctx context.Context, c *csi.Client) (*api.ControllerListResponse, error) {
		return c.ListVolumes(ctx, r)
	})
}

func (s *Service) snapshot(ctx context.Context, r *api.ControllerSnapshotRequest) (*api.ControllerSnapshotResponse, error) {
	return control(ctx, s, r.ControllerCall, r.ExternalID, "snapshot "+r.Name, func(ctx context.Context, c *csi.Client) (*api.ControllerSnapshotResponse, error) {
		snap, err := c.CreateSnapshot(ctx, r)
		return &api.ControllerSnapshotResponse{Snapshot: snap}, err
	})
}

func (s *Service) snapshotDelete(ctx context.Context, r *api.ControllerSnapshotDeleteRequest) (*api.Empty, error) {
	return control(ctx, s, r.ControllerCall, "snapshot/"+r.ID, "", func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.DeleteSnapshot(ctx, r))
	})
}

func (s *Service) snapshotList(ctx context.Context, r *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error) {
	return control(ctx, s, r.ControllerCall, "", "", func(ctx context.Context, c *csi.Client) (*api.ControllerSnapshotListResponse, error) {
		return c.ListSnapshots(ctx, r)
	})
}

// nodeExpand lets the file system of a volume grow that is mounted here.
func (s *Service) nodeExpand(ctx context.Context, r *api.NodeVolumeExpandRequest) (*api.Empty, error) {
	for _, at := range s.journal.rows() {
		if at.State == rowMounted && at.PluginID == r.PluginID && at.ExternalID == r.ExternalID {
			return empty(s.expand(ctx, at, r.CapacityBytes))
		}
	}
	return nil, fault.New(fault.NotFound, "volume %q is not mounted on this node", r.VolumeID)
}

func (s *Service) expand(ctx context.Context, r *row, capacity int64) error {
	p, err := s.plugins.find(api.CSIPluginTypeNode, r.PluginID)
	if err != nil {
		return err
	}
	release, err := s.turn(ctx, r.PluginID, r.volume())
	if err != nil {
		return err
	}
	defer release()
	if now := s.journal.row(r.key()); now == nil || now.State != rowMounted {
		return fault.New(fault.NotFound, "volume %q is not mounted on this node any more", r.VolumeID)
	}
	_, err = p.client.NodeExpand(ctx, r.node(nil), capacity)
	return err
}

// expandQuietly serves an expansion that the node owed; the servers ask again when it failed.
func (s *Service) expandQuietly(ctx context.Context, r *row, v *api.Volume) {
	if err := s.expand(ctx, r, v.Provision.CapacityBytes); err != nil {
		s.log.Warn("expand volume", "volume_id", r.VolumeID, "error", err)
	}
}

// nodeDetach unmounts a volume of one allocation, even of one that nobody here remembers.
func (s *Service) nodeDetach(ctx context.Context, r *api.NodeVolumeDetachRequest) (*api.Empty, error) {
	if s.isLive(r.AllocID) {
		return nil, fault.New(fault.Conflict, "allocation %s still runs on this node", r.AllocID)
	}
	key := rowKey(r.AllocID, r.Namespace, r.VolumeID)
	at := s.journal.row(key)
	if at == nil {
		return empty(s.detachUnknown(ctx, r))
	}
	if at.State != rowReleased {
		if err := s.unmount(ctx, at); err != nil {
			return nil, err
		}
	}
	return empty(s.journal.remove(key))
}

// detachUnknown looks for a mount that the journal has lost, where it would be.
func (s *Service) detachUnknown(ctx context.Context, r *api.NodeVolumeDetachRequest) error {
	if err := checkPluginID(r.PluginID); err != nil {
		return err
	}
	for _, kind := range []string{api.CSIPluginTypeNode, api.CSIPluginTypeMonolith} {
		base := s.baseOf(kind, r.PluginID)
		target := targetAt(place{base, base}, r.Namespace, r.VolumeID, r.AllocID)
		on, err := mounts.IsPoint(target.Host)
		if err != nil {
			return err
		}
		if !on {
			continue
		}
		p, err := s.plugins.wait(ctx, api.CSIPluginTypeNode, r.PluginID, downPluginWait)
		if err != nil {
			return err
		}
		lost := row{
			State: rowLeaving, AllocID: r.AllocID, Namespace: r.Namespace, VolumeID: r.VolumeID,
			PluginID: r.PluginID, ExternalID: r.ExternalID, Target: target, BootID: s.bootID,
		}
		release, err := s.turn(ctx, lost.PluginID, lost.volume())
		if err != nil {
			return err
		}
		err = s.undo(ctx, p, &lost)
		release()
		if err != nil {
			return err
		}
	}
	return nil
}
