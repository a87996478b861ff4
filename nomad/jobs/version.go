package jobs

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Apply marks the version.
func (c *Stability) Apply(tx *state.Txn) (any, error) {
	if err := ledger.MarkStable(tx, c.Namespace, c.JobID, c.Version, c.Stable); err != nil {
		return nil, err
	}
	return &Outcome{}, nil
}

// Apply goes back.
func (c *Reversal) Apply(tx *state.Txn) (any, error) {
	if now := tx.Job(c.Namespace, c.JobID); now != nil && c.CheckPrior && now.Version != c.Prior {
		return nil, fault.New(fault.Conflict, "enforcing version %d: job %q is at version %d", c.Prior, c.JobID, now.Version)
	}
	e, err := ledger.Revert(tx, c.Namespace, c.JobID, c.Version, c.EvalID)
	if err != nil {
		return nil, err
	}
	j := tx.Job(c.Namespace, c.JobID)
	ledger.Prune(tx, j, c.Versions)
	out := &Outcome{JobModifyIndex: j.JobModifyIndex}
	if e != nil {
		out.EvalID = e.ID
	}
	return out, nil
}

// Revert goes back to an older version of a job.
func (s *Service) Revert(ctx context.Context, r *api.JobRevertRequest) (*api.JobRegisterResponse, error) {
	if r.JobID == "" {
		return nil, fault.New(fault.Invalid, "JobID must be specified")
	}
	c := &Reversal{
		Namespace: namespace(r.Namespace), JobID: r.JobID, Version: r.JobVersion, EvalID: uuid.NewString(), Versions: s.Config.Versions,
	}
	if r.EnforcePriorVersion != nil {
		c.CheckPrior, c.Prior = true, *r.EnforcePriorVersion
	}
	warnings := ""
	if j := s.State.Read().JobVersion(c.Namespace, c.JobID, c.Version); j != nil {
		if err := permitted(ctx, j); err != nil {
			return nil, err
		}
		if err := s.withinNamespace(j); err != nil {
			return nil, fmt.Errorf("revert job %q to version %d: %w", r.JobID, r.JobVersion, err)
		}
		warnings = s.warnings(j)
	}
	res, err := s.Raft.Propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("revert job %q to version %d: %w", r.JobID, r.JobVersion, err)
	}
	out := reply(res)
	out.Warnings = warnings
	return out, nil
}

// Stable marks a version of a job as one to go back to, or not.
func (s *Service) Stable(ctx context.Context, r *api.JobStabilityRequest) (*api.JobStabilityResponse, error) {
	if r.JobID == "" {
		return nil, fault.New(fault.Invalid, "JobID must be specified")
	}
	res, err := s.Raft.Propose(ctx, &Stability{
		Namespace: namespace(r.Namespace), JobID: r.JobID, Version: r.JobVersion, Stable: r.Stable,
	})
	if err != nil {
		return nil, fmt.Errorf("stability of job %q: %w", r.JobID, err)
	}
	return &api.JobStabilityResponse{JobModifyIndex: res.Index, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}
