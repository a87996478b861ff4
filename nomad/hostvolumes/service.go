package hostvolumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// nodeMax bounds a call of a node; the node gives its plugins less.
const nodeMax = 75 * time.Second

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	Nodes rpc.NodeCaller
}

// Service implements the RPC methods of host volumes.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service { return &Service{c} }

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.HostVolumeCreate.Handle(s.Create), wire.HostVolumeRegister.Handle(s.Register), wire.HostVolumeList.Handle(s.List),
		wire.HostVolumeGet.Handle(s.Get), wire.HostVolumeDelete.Handle(s.Delete),
		wire.HostVolumeClaims.Handle(s.Claims), wire.HostVolumeClaimDelete.Handle(s.DeleteClaim),
	}
}

// Create creates a volume on a node that it chooses, or updates the capabilities of one that exists.
func (s *Service) Create(ctx context.Context, r *api.HostVolumeWriteRequest) (*api.HostVolumeWriteResponse, error) {
	return s.write(ctx, r, false)
}

// Register makes a directory of a node a volume, or updates the capabilities of one that is.
func (s *Service) Register(ctx context.Context, r *api.HostVolumeWriteRequest) (*api.HostVolumeWriteResponse, error) {
	return s.write(ctx, r, true)
}

func (s *Service) write(ctx context.Context, r *api.HostVolumeWriteRequest, registered bool) (*api.HostVolumeWriteResponse, error) {
	if r.Volume == nil {
		return nil, fault.New(fault.Invalid, "missing volume definition")
	}
	v, known, err := s.defined(r, registered)
	if err != nil {
		return nil, err
	}
	if _, err := s.Raft.Propose(ctx, &Put{Volume: v}); err != nil {
		return nil, err
	}
	// What has begun is brought to an end when the caller goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nodeMax)
	defer cancel()
	out, err := s.onNode(ctx, v)
	if err != nil {
		return nil, s.undone(ctx, v, known, err)
	}
	made := *v
	made.HostPath, made.CapacityBytes = out.HostPath, out.CapacityBytes
	res, err := s.Raft.Propose(ctx, &Put{Volume: &made})
	if err != nil {
		return nil, err
	}
	tx := s.State.Read()
	if stored := tx.HostVolume(v.Namespace, v.ID); stored != nil {
		made = *hostview.Of(tx, stored)
	}
	s.Log.Info("host volume is written", "volume", v.ID, "name", v.Name, "node", v.NodeID, "path", made.HostPath)
	return &api.HostVolumeWriteResponse{Volume: &made, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// defined completes the definition of a volume with that of the known one, or with a node and an id.
func (s *Service) defined(r *api.HostVolumeWriteRequest, registered bool) (v *api.HostVolume, known bool, err error) {
	c := *r.Volume
	v = &c
	v.Namespace = cmp.Or(v.Namespace, r.Namespace, api.DefaultNamespace)
	v.Registered, v.Deleting, v.State, v.Allocations, v.CapacityBytes = registered, false, "", nil, 0
	if !registered {
		v.HostPath = ""
	}
	tx := s.State.Read()
	if v.ID != "" {
		old := tx.HostVolume(v.Namespace, v.ID)
		if old == nil {
			return nil, false, fault.New(fault.NotFound, "host volume %q does not exist in namespace %q: leave out the id to make a new one", v.ID, v.Namespace)
		}
		if old.Registered != registered {
			return nil, false, fault.New(fault.Conflict, "host volume %q was created in another way: use volume create for created and volume register for registered volumes", v.ID)
		}
		v.Name, v.PluginID, v.NodeID = cmp.Or(v.Name, old.Name), cmp.Or(v.PluginID, old.PluginID), cmp.Or(v.NodeID, old.NodeID)
		v.NodePool, v.HostPath = old.NodePool, cmp.Or(v.HostPath, old.HostPath)
		if v.Parameters == nil {
			v.Parameters = old.Parameters
		}
		if v.RequestedCapacityMinBytes == 0 && v.RequestedCapacityMaxBytes == 0 {
			v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes = old.RequestedCapacityMinBytes, old.RequestedCapacityMaxBytes
		}
		if size, had := requested(v), requested(old); size < had {
			return nil, false, fault.New(fault.Invalid, "host volume %q has a capacity of %d bytes: %d are less, and volumes do not shrink", v.ID, had, size)
		}
		return v, true, check(v)
	}
	if err := check(v); err != nil {
		return nil, false, err
	}
	n, err := place(tx, v)
	if err != nil {
		return nil, false, err
	}
	v.ID, v.NodeID, v.NodePool = uuid.NewString(), n.ID, n.NodePool
	return v, false, nil
}

// requested is the capacity that is asked for.
func requested(v *api.HostVolume) int64 {
	return max(v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes)
}

func (s *Service) onNode(ctx context.Context, v *api.HostVolume) (*api.NodeHostVolumeResponse, error) {
	caller, err := s.Nodes.Node(v.NodeID)
	if err != nil {
		return nil, err
	}
	return wire.NodeHostVolumeCreate.Call(ctx, caller, &api.NodeHostVolumeRequest{Volume: v})
}

// uncertain reports whether a node may have done, or may yet do, what failed with the error.
func uncertain(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.Timeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// undone forgets a new volume that its node refused to create.
func (s *Service) undone(ctx context.Context, v *api.HostVolume, known bool, err error) error {
	err = fmt.Errorf("host volume %q on node %s: %w", v.Name, v.NodeID, err)
	switch {
	case known:
		return err
	case uncertain(err):
		return fmt.Errorf("%w. The node may have created it: volume %s is pending until the node reports it, or until you delete it", err, v.ID)
	}
	if _, left := s.Raft.Propose(ctx, &Delete{Namespace: v.Namespace, ID: v.ID, End: true}); left != nil {
		return fmt.Errorf("%w. Volume %s is still pending: delete it", err, v.ID)
	}
	return err
}

// Delete deletes a volume that no allocation uses: first on its node, and then the row.
func (s *Service) Delete(ctx context.Context, r *api.HostVolumeDeleteRequest) (*api.WriteMeta, error) {
	ns := cmp.Or(r.Namespace, api.DefaultNamespace)
	tx := s.State.Read()
	v := tx.HostVolume(ns, r.ID)
	if v == nil {
		return nil, errMissing
	}
	n := tx.Node(v.NodeID)
	if !r.Force && (n == nil || n.Status != api.NodeStatusReady) {
		return nil, fault.New(fault.Unavailable, "node %s of host volume %q is not ready: start it, or forget the volume and what is on the node with -force", v.NodeID, v.ID)
	}
	if _, err := s.Raft.Propose(ctx, &Delete{Namespace: ns, ID: v.ID}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), nodeMax)
	defer cancel()
	if err := s.deleteOnNode(ctx, n, v); err != nil {
		if !r.Force || !uncertain(err) {
			return nil, fmt.Errorf("delete host volume %q on node %s: %w. It is unavailable until it is deleted: try again", v.ID, v.NodeID, err)
		}
		s.Log.Warn("host volume is forgotten without an answer of its node: its directory may be left there", "volume", v.ID, "node", v.NodeID, "error", err)
	}
	res, err := s.Raft.Propose(ctx, &Delete{Namespace: ns, ID: v.ID, End: true})
	if err != nil {
		return nil, err
	}
	s.Log.Info("host volume is deleted", "volume", v.ID, "name", v.Name, "node", v.NodeID)
	return &api.WriteMeta{Index: res.Index}, nil
}

func (s *Service) deleteOnNode(ctx context.Context, n *api.Node, v *api.HostVolume) error {
	if n == nil || n.Status != api.NodeStatusReady {
		return fault.New(fault.Unavailable, "the node is not ready")
	}
	caller, err := s.Nodes.Node(n.ID)
	if err != nil {
		return err
	}
	_, err = wire.NodeHostVolumeDelete.Call(ctx, caller, &api.NodeHostVolumeRequest{Volume: v})
	return err
}

// DeleteClaim deletes a claim on a sticky volume: the next allocation of its name may get another volume.
func (s *Service) DeleteClaim(ctx context.Context, r *api.HostVolumeClaimDeleteRequest) (*api.WriteMeta, error) {
	res, err := s.Raft.Propose(ctx, &DeleteClaim{Namespace: cmp.Or(r.Namespace, api.DefaultNamespace), ID: r.ID})
	if err != nil {
		return nil, err
	}
	return &api.WriteMeta{Index: res.Index}, nil
}
