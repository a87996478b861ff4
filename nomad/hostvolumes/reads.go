package hostvolumes

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes/hostview"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

var (
	volumeKeys = []state.Key{state.TableKey(state.TableHostVolumes), state.TableKey(state.TableNodes)}
	readJob    = api.Right{On: api.OnNamespace, Any: []string{"read-job"}}
)

// List lists volumes by namespace and id, optionally those of one node or node pool.
func (s *Service) List(ctx context.Context, r *api.HostVolumeListRequest) (*api.HostVolumeListResponse, error) {
	out := &api.HostVolumeListResponse{}
	var err error
	out.Volumes, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, volumeKeys, func(tx *state.Txn) page.List[*api.HostVolume, *api.HostVolumeStub] {
		return page.List[*api.HostVolume, *api.HostVolumeStub]{
			Walk:  tx.HostVolumeSpan,
			Token: func(v *api.HostVolume) string { return state.PathToken(v.Namespace, v.ID) },
			Keep: func(v *api.HostVolume) bool {
				return (r.NodeID == "" || v.NodeID == r.NodeID) && (r.NodePool == "" || r.NodePool == api.NodePoolAll || v.NodePool == r.NodePool)
			},
			View: func(v *api.HostVolume) any { return hostview.Of(tx, v) },
			Row:  func(v *api.HostVolume) *api.HostVolumeStub { return hostview.Stub(hostview.Of(tx, v)) },
		}
	})
	return out, err
}

// Get reads one volume with the allocations that use it, of which the caller sees those that its token may read.
func (s *Service) Get(ctx context.Context, r *api.HostVolumeGetRequest) (*api.HostVolumeGetResponse, error) {
	out := &api.HostVolumeGetResponse{}
	ns := cmp.Or(r.Namespace, api.DefaultNamespace)
	keys := volumeKeys
	if v := s.State.Read().HostVolume(ns, r.ID); v != nil {
		keys = append(keys[:2:2], state.NodeAllocsKey(v.NodeID))
	}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Volume = nil
		v := tx.HostVolume(ns, r.ID)
		if v == nil {
			return nil
		}
		out.Volume = hostview.Of(tx, v)
		if !access.Enabled(ctx) || access.Of(ctx).Rights.Allows(readJob, ns) {
			for _, a := range hostview.Users(tx, v) {
				out.Volume.Allocations = append(out.Volume.Allocations, row.Of(a))
			}
		}
		return nil
	})
	return out, err
}

// Claims lists the claims on sticky volumes by namespace and id.
func (s *Service) Claims(ctx context.Context, r *api.HostVolumeClaimListRequest) (*api.HostVolumeClaimListResponse, error) {
	out := &api.HostVolumeClaimListResponse{}
	var err error
	keys := []state.Key{state.TableKey(state.TableHostVolumeClaims)}
	out.Claims, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[*api.HostVolumeClaim, *api.HostVolumeClaim] {
		l := page.Stored(tx.HostVolumeClaimSpan, func(c *api.HostVolumeClaim) string { return state.PathToken(c.Namespace, c.ID) })
		l.Keep = func(c *api.HostVolumeClaim) bool {
			return (r.JobID == "" || c.JobID == r.JobID) && (r.TaskGroup == "" || c.TaskGroupName == r.TaskGroup) && (r.VolumeName == "" || c.VolumeName == r.VolumeName)
		}
		return l
	})
	return out, err
}
