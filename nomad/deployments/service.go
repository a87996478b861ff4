package deployments

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
}

// Service serves the RPC methods of this package.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return &Service{c}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.DeploymentList.Handle(s.List),
		wire.DeploymentGet.Handle(s.Get),
		wire.DeploymentAllocations.Handle(s.Allocations),
		wire.DeploymentFail.Handle(s.Fail),
		wire.DeploymentPause.Handle(s.Pause),
		wire.DeploymentPromote.Handle(s.Promote),
		wire.DeploymentAllocHealth.Handle(s.AllocHealth),
		wire.DeploymentUnblock.Handle(s.Unblock),
		wire.JobDeployments.Handle(s.OfJob),
		wire.JobDeployment.Handle(s.NewestOfJob),
	}
}

// Fail marks a deployment failed. Its job reverts to an older version if the update block has auto_revert.
func (s *Service) Fail(ctx context.Context, r *api.DeploymentWriteRequest) (*api.DeploymentUpdateResponse, error) {
	return s.write(ctx, "fail", r.DeploymentID, &SetStatus{
		DeploymentID: r.DeploymentID, Status: api.DeploymentStatusFailed, EvalID: uuid.NewString(),
	})
}

// Unblock ends a deployment that waits for other regions.
func (s *Service) Unblock(ctx context.Context, r *api.DeploymentWriteRequest) (*api.DeploymentUpdateResponse, error) {
	return s.write(ctx, "unblock", r.DeploymentID, &SetStatus{
		DeploymentID: r.DeploymentID, Status: api.DeploymentStatusSuccessful, EvalID: uuid.NewString(),
	})
}

// Pause pauses a deployment, or lets it go on.
func (s *Service) Pause(ctx context.Context, r *api.DeploymentPauseRequest) (*api.DeploymentUpdateResponse, error) {
	return s.write(ctx, "pause", r.DeploymentID, &Pause{DeploymentID: r.DeploymentID, Pause: r.Pause, EvalID: uuid.NewString()})
}

// Promote promotes the canaries of all groups, or of some.
func (s *Service) Promote(ctx context.Context, r *api.DeploymentPromoteRequest) (*api.DeploymentUpdateResponse, error) {
	return s.write(ctx, "promote", r.DeploymentID, &Promote{
		DeploymentID: r.DeploymentID, All: r.All, Groups: r.Groups, EvalID: uuid.NewString(),
	})
}

// healthMax bounds the ids of one call.
const healthMax = 50_000

// AllocHealth sets by hand which allocations are healthy.
func (s *Service) AllocHealth(ctx context.Context, r *api.DeploymentAllocHealthRequest) (*api.DeploymentUpdateResponse, error) {
	if n := len(r.HealthyAllocationIDs) + len(r.UnhealthyAllocationIDs); n > healthMax {
		return nil, fault.New(fault.Invalid, "the health of %d allocations is set at once, at most %d are possible", n, healthMax)
	}
	return s.write(ctx, "set health in", r.DeploymentID, &SetHealth{
		DeploymentID: r.DeploymentID, Healthy: r.HealthyAllocationIDs, Unhealthy: r.UnhealthyAllocationIDs, EvalID: uuid.NewString(),
	})
}

// write brings what a user asks for into the log. Refusals are the command's words: users look for them.
func (s *Service) write(ctx context.Context, action, id string, c fsm.Command) (*api.DeploymentUpdateResponse, error) {
	if id == "" {
		return nil, fault.New(fault.Invalid, "missing deployment ID")
	}
	if d := s.State.Read().Deployment(id); d != nil {
		if err := access.Refusal(ctx, d.Namespace, fmt.Errorf("%s deployment %q: %w", action, id, missing(id))); err != nil {
			return nil, err
		}
	}
	res, err := s.Raft.Propose(ctx, c)
	switch {
	case err != nil && fault.Of(err) == fault.Invalid:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s deployment %q: %w", action, id, err)
	}
	out := &api.DeploymentUpdateResponse{DeploymentModifyIndex: res.Index, WriteMeta: api.WriteMeta{Index: res.Index}}
	if o, ok := res.Value.(*Outcome); ok {
		out.EvalID, out.RevertedJobVersion = o.EvalID, o.Reverted
		if o.EvalID != "" {
			out.EvalCreateIndex = res.Index
		}
	}
	return out, nil
}
