package jobs

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func missing(ns, id string) error {
	return fault.New(fault.NotFound, "job %q in namespace %q does not exist", id, ns)
}

func missingVersion(ns, id string, version uint64) error {
	return fault.New(fault.NotFound, "job %q in namespace %q has no version %d", id, ns, version)
}

// MarkStable says within another command whether a version is one to go back to.
func MarkStable(tx *state.Txn, ns, id string, version uint64, stable bool) error {
	v := tx.JobVersion(ns, id, version)
	if v == nil {
		return missingVersion(ns, id, version)
	}
	if v.Stable == stable {
		return nil
	}
	change(tx, v, func(j *api.Job) { j.Stable = stable })
	return nil
}

// change edits what is not specification of a version, and of the job if that is its current version.
func change(tx *state.Txn, v *api.Job, edit func(*api.Job)) {
	next := *v
	edit(&next)
	next.ModifyIndex = tx.Index()
	tx.PutJobVersion(&next)
	if now := tx.Job(v.Namespace, v.ID); now != nil && now.Version == v.Version {
		j := *now
		edit(&j)
		tx.PutJob(&j)
	}
}

// Apply marks the version.
func (c *Stability) Apply(tx *state.Txn) (any, error) {
	if err := MarkStable(tx, c.Namespace, c.JobID, c.Version, c.Stable); err != nil {
		return nil, err
	}
	return &Outcome{}, nil
}

// Revert registers an older version of a job anew as its newest within another command, with its source,
// and stores an evaluation with trigger job-register, which a caller may put again changed; a periodic or
// parameterised job has none. It refuses the current version.
func Revert(tx *state.Txn, ns, id string, version uint64, evalID string) (*api.Evaluation, error) {
	now := tx.Job(ns, id)
	if now == nil {
		return nil, missing(ns, id)
	}
	if now.Version == version {
		return nil, fault.New(fault.Invalid, "can't revert job %q to its current version %d", id, version)
	}
	old := tx.JobVersion(ns, id, version)
	if old == nil {
		return nil, missingVersion(ns, id, version)
	}
	j := *old
	j.Stop = false
	if err := placed(tx, &j); err != nil {
		return nil, err
	}
	if err := needed(tx, now, &j); err != nil {
		return nil, err
	}
	store(tx, &j, now, tx.JobSubmission(ns, id, version))
	if parent(&j) {
		return nil, nil
	}
	e := evaluation(tx, &j, evalID, api.TriggerJobRegister, 0)
	tx.PutEval(e)
	return e, nil
}

// Apply goes back.
func (c *Reversal) Apply(tx *state.Txn) (any, error) {
	if now := tx.Job(c.Namespace, c.JobID); now != nil && c.CheckPrior && now.Version != c.Prior {
		return nil, fault.New(fault.Conflict, "job %q is at version %d, not %d", c.JobID, now.Version, c.Prior)
	}
	e, err := Revert(tx, c.Namespace, c.JobID, c.Version, c.EvalID)
	if err != nil {
		return nil, err
	}
	j := tx.Job(c.Namespace, c.JobID)
	prune(tx, j, c.Versions)
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
	res, err := s.Raft.Propose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("revert job %q to version %d: %w", r.JobID, r.JobVersion, err)
	}
	out := reply(res)
	if j := s.State.Read().Job(c.Namespace, c.JobID); j != nil {
		out.Warnings = s.warnings(j)
	}
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
