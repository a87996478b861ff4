package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// Eligibility makes a node eligible for placements or not.
func (s *Service) Eligibility(ctx context.Context, r *api.NodeEligibilityRequest) (*api.NodeWriteResponse, error) {
	switch r.Eligibility {
	case api.NodeSchedulingEligible, api.NodeSchedulingIneligible:
	default:
		return nil, fault.New(fault.Invalid, "invalid scheduling eligibility %q", r.Eligibility)
	}
	return s.write(ctx, r.NodeID, "change eligibility of", &SetEligibility{NodeID: r.NodeID, Eligibility: r.Eligibility, Seed: uuid.NewString()})
}

// Drain starts a drain, or ends it where there is no DrainSpec; MarkEligible is for the end, and clients send it with
// a spec too.
func (s *Service) Drain(ctx context.Context, r *api.NodeDrainRequest) (*api.NodeWriteResponse, error) {
	if err := drainBounds(r.Meta); err != nil {
		return nil, err
	}
	c := &SetDrain{NodeID: r.NodeID, MarkEligible: r.MarkEligible, Meta: r.Meta, Seed: uuid.NewString()}
	if r.DrainSpec != nil {
		c.MarkEligible = false
		now := time.Now().UTC()
		c.Strategy = &api.DrainStrategy{DrainSpec: *r.DrainSpec, StartedAt: now}
		if r.DrainSpec.Deadline > 0 {
			c.Strategy.ForceDeadline = now.Add(r.DrainSpec.Deadline)
		}
	}
	return s.write(ctx, r.NodeID, "drain", c)
}

// Evaluate evaluates all jobs of a node.
func (s *Service) Evaluate(ctx context.Context, r *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
	return s.write(ctx, r.NodeID, "evaluate", &EvaluateNode{NodeID: r.NodeID, Seed: uuid.NewString()})
}

// Purge forgets a node.
func (s *Service) Purge(ctx context.Context, r *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
	out, err := s.write(ctx, r.NodeID, "purge", &PurgeNode{NodeID: r.NodeID, Seed: uuid.NewString()})
	if err == nil {
		s.forget(r.NodeID)
	}
	return out, err
}

func (s *Service) write(ctx context.Context, id, action string, c fsm.Command) (*api.NodeWriteResponse, error) {
	if id == "" {
		return nil, fault.New(fault.Invalid, "missing node ID")
	}
	got, err := s.propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s node: %w", action, err)
	}
	out := &api.NodeWriteResponse{EvalIDs: got.evals, WriteMeta: api.WriteMeta{Index: got.index}}
	if len(got.evals) > 0 {
		out.EvalCreateIndex = got.index
	}
	if n := s.state.Read().Node(id); n != nil {
		out.NodeModifyIndex = n.ModifyIndex
	}
	return out, nil
}
