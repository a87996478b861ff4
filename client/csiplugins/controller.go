package csiplugins

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// Handlers serve the controller calls and probes that servers make on this node.
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
		wire.ControllerVerify.Handle(s.verify),
		wire.NodePluginProbe.Handle(s.probe),
	}
}

// object is what a controller call concerns. Calls of one object are made one at a time.
type object struct {
	// id is the driver's id of the volume, or a name that no volume has.
	id string
	// part is what of it the intent is for; node is the provider's name of the node that the call concerns.
	part, node string
	// volume is set when id is that of a volume.
	volume bool
	// call is what the driver is asked for by an intent, named that of a part which has no id of the volume.
	call  api.IntentCall
	named string
}

func volumeObject(externalID string, call api.IntentCall) object {
	return object{id: externalID, volume: true, call: call}
}

// attachment is the object of calls that attach or detach a volume.
func attachment(externalID, node string, call api.IntentCall) object {
	return object{id: externalID, part: node, node: node, named: node, volume: true, call: call}
}

// control makes one controller call, alone among the calls that concern the object. Intents keep late calls out:
// they are checked when the turn has come.
func control[T any](ctx context.Context, s *Service, c api.ControllerCall, o object, do func(context.Context, *csi.Client) (T, error)) (T, error) {
	var none T
	p, err := s.Find(api.CSIPluginTypeController, c.PluginID)
	if err != nil {
		return none, err
	}
	if now := s.registry.provider(p); c.Provider != "" && now != "" && now != c.Provider {
		return none, fault.New(fault.Conflict, "CSI plugin %q runs driver %q on this node, and the call is for driver %q: run that driver under this plugin id", c.PluginID, now, c.Provider)
	}
	key := ""
	if o.id != "" {
		key = VolumeKey(c.PluginID, o.id)
	}
	release, err := s.turn(ctx, c.PluginID, "controller/"+o.node, key)
	if err != nil {
		return none, err
	}
	defer release()
	f := fence{PluginID: c.PluginID, Intent: c.Fence, Call: o.call, Part: o.named}
	if o.volume {
		f.ExternalID = o.id
	}
	if err := s.pass(ctx, Hash(c.PluginID, o.id, o.part), f); err != nil {
		return none, err
	}
	var out T
	err = s.Called(p, func() (err error) { out, err = do(ctx, p.client); return err })
	now := s.registry.provider(p)
	switch {
	case c.Provider != "" && now != "" && now != c.Provider: // class Internal: the outcome is unknown
		return none, fault.New(fault.Internal, "CSI plugin %q changed to driver %q during a call for driver %q", c.PluginID, now, c.Provider)
	case errors.Is(err, fault.Unavailable), errors.Is(err, fault.Timeout):
		p.Recheck()
	}
	if err != nil {
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

func (s *Service) validate(ctx context.Context, r *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error) {
	return control(ctx, s, r.ControllerCall, object{}, func(ctx context.Context, c *csi.Client) (*api.ControllerValidateResponse, error) {
		return c.Validate(ctx, r)
	})
}

// verify looks while nothing else is done with the object: what is under way may end either way.
func (s *Service) verify(ctx context.Context, r *api.ControllerVerifyRequest) (*api.ControllerVerifyResponse, error) {
	o := volumeObject(r.ExternalID, "")
	if r.Snapshot {
		o = object{id: "snapshot/" + r.ExternalID}
	}
	return control(ctx, s, r.ControllerCall, o, func(ctx context.Context, c *csi.Client) (*api.ControllerVerifyResponse, error) {
		return c.Verify(ctx, r)
	})
}

func (s *Service) attach(ctx context.Context, r *api.ControllerPublishRequest) (*api.ControllerPublishResponse, error) {
	return control(ctx, s, r.ControllerCall, attachment(r.ExternalID, r.ProviderNodeID, api.CallAttach), func(ctx context.Context, c *csi.Client) (*api.ControllerPublishResponse, error) {
		pc, err := c.ControllerPublish(ctx, r)
		return &api.ControllerPublishResponse{PublishContext: pc}, err
	})
}

func (s *Service) detach(ctx context.Context, r *api.ControllerUnpublishRequest) (*api.Empty, error) {
	return control(ctx, s, r.ControllerCall, attachment(r.ExternalID, r.ProviderNodeID, api.CallDetach), func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.ControllerUnpublish(ctx, r))
	})
}

func (s *Service) create(ctx context.Context, r *api.ControllerCreateRequest) (*api.ControllerCreateResponse, error) {
	return control(ctx, s, r.ControllerCall, object{id: creation(r.Name), call: api.CallCreate, named: r.Name}, func(ctx context.Context, c *csi.Client) (*api.ControllerCreateResponse, error) {
		return c.CreateVolume(ctx, r)
	})
}

// creation is the object of calls that create a volume: its id is not known yet.
func creation(name string) string { return "create/" + name }

// delete sees to it that a call which created the volume, and comes late, does not make it again.
func (s *Service) delete(ctx context.Context, r *api.ControllerDeleteRequest) (*api.Empty, error) {
	if r.Name != "" {
		release, err := s.Lock(ctx, VolumeKey(r.PluginID, creation(r.Name)))
		if err != nil {
			return nil, err
		}
		defer release()
		key := Hash(r.PluginID, creation(r.Name), "")
		if r.Fence > s.fences.newest(key).Intent {
			if err := s.fences.set(key, fence{PluginID: r.PluginID, Intent: r.Fence, Call: api.CallCreate, Part: r.Name}); err != nil {
				return nil, err
			}
		}
	}
	return control(ctx, s, r.ControllerCall, volumeObject(r.ExternalID, api.CallDelete), func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.DeleteVolume(ctx, r))
	})
}

func (s *Service) grow(ctx context.Context, r *api.ControllerExpandRequest) (*api.ControllerExpandResponse, error) {
	return control(ctx, s, r.ControllerCall, volumeObject(r.ExternalID, api.CallExpand), func(ctx context.Context, c *csi.Client) (*api.ControllerExpandResponse, error) {
		return c.ControllerExpand(ctx, r)
	})
}

func (s *Service) list(ctx context.Context, r *api.ControllerListRequest) (*api.ControllerListResponse, error) {
	return control(ctx, s, r.ControllerCall, object{}, func(ctx context.Context, c *csi.Client) (*api.ControllerListResponse, error) {
		return c.ListVolumes(ctx, r)
	})
}

func (s *Service) snapshot(ctx context.Context, r *api.ControllerSnapshotRequest) (*api.ControllerSnapshotResponse, error) {
	return control(ctx, s, r.ControllerCall, object{id: r.ExternalID, part: "snapshot " + r.Name, volume: true, call: api.CallSnapshot, named: r.Name}, func(ctx context.Context, c *csi.Client) (*api.ControllerSnapshotResponse, error) {
		snap, err := c.CreateSnapshot(ctx, r)
		return &api.ControllerSnapshotResponse{Snapshot: snap}, err
	})
}

func (s *Service) snapshotDelete(ctx context.Context, r *api.ControllerSnapshotDeleteRequest) (*api.Empty, error) {
	return control(ctx, s, r.ControllerCall, object{id: "snapshot/" + r.ID, call: api.CallSnapshotDelete, named: r.ID}, func(ctx context.Context, c *csi.Client) (*api.Empty, error) {
		return empty(c.DeleteSnapshot(ctx, r))
	})
}

func (s *Service) snapshotList(ctx context.Context, r *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error) {
	return control(ctx, s, r.ControllerCall, object{}, func(ctx context.Context, c *csi.Client) (*api.ControllerSnapshotListResponse, error) {
		return c.ListSnapshots(ctx, r)
	})
}
