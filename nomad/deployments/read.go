package deployments

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func namespace(ns string) string {
	if ns == "" {
		return api.DefaultNamespace
	}
	return ns
}

// List lists deployments by creation.
func (s *Service) List(ctx context.Context, r *api.QueryOptions) (*api.DeploymentListResponse, error) {
	out := &api.DeploymentListResponse{}
	var err error
	out.Deployments, err = page.Read(ctx, s.State, r, &out.QueryMeta, []state.Key{state.TableKey(state.TableDeployments)},
		func(tx *state.Txn) page.List[*api.Deployment, *api.Deployment] {
			return page.Stored(tx.DeploymentSpan, func(d *api.Deployment) string { return state.AgeToken(d.CreateIndex, d.ID) })
		})
	return out, err
}

// shown is the id that a request names; none when the caller does not see the deployment.
func (s *Service) shown(ctx context.Context, id string) string {
	if d := s.State.Read().Deployment(id); d != nil {
		return access.Shown(ctx, id, d.Namespace)
	}
	return id
}

// Get reads one deployment.
func (s *Service) Get(ctx context.Context, r *api.DeploymentRequest) (*api.DeploymentGetResponse, error) {
	out := &api.DeploymentGetResponse{}
	id := s.shown(ctx, r.DeploymentID)
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.DeploymentKey(id)}, func(tx *state.Txn) error {
		out.Deployment = nil
		if d := tx.Deployment(id); d != nil && access.Sees(ctx, d.Namespace) {
			out.Deployment = d
		}
		return nil
	})
	return out, err
}

// Allocations lists what a deployment placed or took over.
func (s *Service) Allocations(ctx context.Context, r *api.DeploymentRequest) (*api.AllocListResponse, error) {
	out := &api.AllocListResponse{}
	id := s.shown(ctx, r.DeploymentID)
	keys := []state.Key{state.DeploymentKey(id)}
	if d := s.State.Read().Deployment(id); d != nil {
		keys = append(keys, state.JobAllocsKey(d.Namespace, d.JobID))
	}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) error {
		out.Allocs = []*api.AllocStub{}
		d := tx.Deployment(id)
		if d == nil || !access.Sees(ctx, d.Namespace) {
			return nil
		}
		for a := range tx.AllocsByJob(d.Namespace, d.JobID) {
			if a.DeploymentID == d.ID {
				out.Allocs = append(out.Allocs, row.Of(a))
			}
		}
		return nil
	})
	return out, err
}

// OfJob lists a job's deployments, the newest first; without All only those of its present incarnation.
func (s *Service) OfJob(ctx context.Context, r *api.JobRequest) (*api.JobDeploymentsResponse, error) {
	out := &api.JobDeploymentsResponse{}
	err := s.ofJob(ctx, r, &out.QueryMeta, func(list []*api.Deployment) { out.Deployments = list })
	return out, err
}

// NewestOfJob reads a job's newest deployment.
func (s *Service) NewestOfJob(ctx context.Context, r *api.JobRequest) (*api.JobDeploymentResponse, error) {
	out := &api.JobDeploymentResponse{}
	err := s.ofJob(ctx, r, &out.QueryMeta, func(list []*api.Deployment) {
		out.Deployment = nil
		if len(list) > 0 {
			out.Deployment = list[0]
		}
	})
	return out, err
}

func (s *Service) ofJob(ctx context.Context, r *api.JobRequest, m *api.QueryMeta, answer func([]*api.Deployment)) error {
	ns := namespace(r.Namespace)
	return rpc.Block(ctx, s.State, &r.QueryOptions, m, []state.Key{state.JobDeploymentsKey(ns, r.JobID)}, func(tx *state.Txn) error {
		list := []*api.Deployment{}
		j := tx.Job(ns, r.JobID)
		for d := range tx.DeploymentsByJob(ns, r.JobID) {
			if r.All || j == nil || d.JobCreateIndex == j.CreateIndex {
				list = append(list, d)
			}
		}
		slices.SortFunc(list, func(a, b *api.Deployment) int {
			return cmp.Or(cmp.Compare(b.CreateIndex, a.CreateIndex), strings.Compare(a.ID, b.ID))
		})
		answer(list)
		return nil
	})
}
