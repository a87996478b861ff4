package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Policies lists the scaling policies of jobs that are not stopped, by id.
func (s *Service) Policies(ctx context.Context, r *api.ScalingPolicyListRequest) (*api.ScalingPolicyListResponse, error) {
	out := &api.ScalingPolicyListResponse{}
	var err error
	keys := []state.Key{state.TableKey(state.TableJobs)}
	out.Policies, err = page.Read(ctx, s.State, &r.QueryOptions, &out.QueryMeta, keys, func(tx *state.Txn) page.List[state.Policy, *api.ScalingPolicy] {
		return page.List[state.Policy, *api.ScalingPolicy]{
			Walk:  tx.PolicySpan,
			Token: func(p state.Policy) string { return p.ID },
			Keep: func(p state.Policy) bool {
				return !p.Job.Stop && (r.JobID == "" || p.Job.ID == r.JobID) && (r.Type == "" || policyOf(p).Type == r.Type)
			},
			View: func(p state.Policy) any { return policyOf(p) },
			Row:  policyOf,
		}
	})
	return out, err
}

// policyOf is the policy with the id in its job.
func policyOf(p state.Policy) *api.ScalingPolicy {
	for _, of := range state.ScalingPolicies(p.Job) {
		if of.ID == p.ID {
			return of
		}
	}
	return nil
}

// Policy reads one scaling policy.
func (s *Service) Policy(ctx context.Context, r *api.NameRequest) (*api.ScalingPolicyGetResponse, error) {
	out := &api.ScalingPolicyGetResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableJobs)}, func(tx *state.Txn) error {
		out.Policy = nil
		if j := tx.JobByPolicy(r.Name); j != nil && !j.Stop && access.Sees(ctx, j.Namespace) {
			out.Policy = policyOf(state.Policy{ID: r.Name, Job: j})
		}
		return nil
	})
	return out, err
}
