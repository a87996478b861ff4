package jobs

import (
	"context"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Policies lists scaling policies.
func (s *Service) Policies(ctx context.Context, r *api.ScalingPolicyListRequest) (*api.ScalingPolicyListResponse, error) {
	out := &api.ScalingPolicyListResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableJobs)}, func(tx *state.Txn) error {
		out.Policies = []*api.ScalingPolicy{}
		for j := range tx.JobsPrefix(namespace(r.Namespace), "") {
			if j.Stop || r.JobID != "" && j.ID != r.JobID {
				continue
			}
			for _, p := range state.ScalingPolicies(j) {
				if r.Type == "" || p.Type == r.Type {
					out.Policies = append(out.Policies, p)
				}
			}
		}
		return nil
	})
	return out, err
}

// Policy reads one scaling policy.
func (s *Service) Policy(ctx context.Context, r *api.NameRequest) (*api.ScalingPolicyGetResponse, error) {
	out := &api.ScalingPolicyGetResponse{}
	err := rpc.Block(ctx, s.State, &r.QueryOptions, &out.QueryMeta, []state.Key{state.TableKey(state.TableJobs)}, func(tx *state.Txn) error {
		out.Policy = nil
		if j := tx.JobByPolicy(r.Name); j != nil && !j.Stop {
			for _, p := range state.ScalingPolicies(j) {
				if p.ID == r.Name {
					out.Policy = p
				}
			}
		}
		return nil
	})
	return out, err
}
