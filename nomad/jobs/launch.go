package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// launchID is the id of the instance for a time.
func launchID(parent string, at time.Time) string {
	return fmt.Sprintf("%s/periodic-%d", parent, at.Unix())
}

// Apply makes the instance. What is no longer to be launched, or was already, is skipped, unless forced.
func (c *Launch) Apply(tx *state.Txn) (any, error) {
	p := tx.Job(c.Namespace, c.JobID)
	if c.Force {
		return c.force(tx, p)
	}
	if p == nil || p.Periodic == nil || !p.Periodic.Enabled || p.Stop || !c.At.After(lastLaunch(tx, c.Namespace, c.JobID)) {
		return &Instance{}, nil
	}
	last := c.At
	if tx.Now().After(last) {
		last = tx.Now()
	}
	tx.PutLaunch(c.Namespace, c.JobID, last)
	if p.Periodic.ProhibitOverlap && live(tx, p) {
		return &Instance{}, nil
	}
	// An instance of this second was launched by hand: the planned time itself is used once.
	return begin(tx, instance(p, freeID(tx, p, c.At)), c.EvalID, api.TriggerPeriodicJob), nil
}

// lastLaunch is when the job was launched last; zero when that is of a clock that was wrong.
func lastLaunch(tx *state.Txn, ns, id string) time.Time {
	last := tx.LastLaunch(ns, id)
	if last.After(tx.Now().Add(ledger.ClockSlack)) {
		return time.Time{}
	}
	return last
}

// freeID is the id of the instance for a time, or one with a number where that is taken: the next second may be a
// time of the plan.
func freeID(tx *state.Txn, p *api.Job, at time.Time) string {
	id := launchID(p.ID, at)
	for n := 2; tx.Job(p.Namespace, id) != nil; n++ {
		id = fmt.Sprintf("%s-%d", launchID(p.ID, at), n)
	}
	return id
}

// force makes an instance now, although there is one for this second.
func (c *Launch) force(tx *state.Txn, p *api.Job) (any, error) {
	switch {
	case p == nil:
		return nil, ledger.Missing(c.Namespace, c.JobID)
	case p.Periodic == nil:
		return nil, fault.New(fault.Invalid, "can't force launch non-periodic job")
	case !p.Periodic.Enabled:
		return nil, fault.New(fault.Invalid, "can't force launch a periodic job that is disabled")
	case p.Stop:
		return nil, fault.New(fault.Invalid, "job %q is stopped", c.JobID)
	}
	return begin(tx, instance(p, freeID(tx, p, c.At)), c.EvalID, api.TriggerPeriodicJob), nil
}

// live reports whether an instance of the job has not ended.
func live(tx *state.Txn, p *api.Job) bool {
	for j := range tx.JobsByParent(p.Namespace, p.ID) {
		if status(tx, j) != api.JobStatusDead {
			return true
		}
	}
	return false
}

// Launch makes the instance of a periodic job for a time that has come.
func (s *Service) Launch(ctx context.Context, ns, id string, at time.Time) error {
	if _, err := s.Raft.Propose(ctx, &Launch{Namespace: ns, JobID: id, At: at, EvalID: uuid.NewString()}); err != nil {
		return fmt.Errorf("launch job %q: %w", id, err)
	}
	return nil
}

// PeriodicForce launches a periodic job out of turn.
func (s *Service) PeriodicForce(ctx context.Context, r *api.JobRequest) (*api.PeriodicForceResponse, error) {
	if r.JobID == "" {
		return nil, fault.New(fault.Invalid, "missing job ID for evaluation")
	}
	if err := permitted(ctx, s.State.Read().Job(namespace(r.Namespace), r.JobID)); err != nil {
		return nil, err
	}
	if err := s.withinNamespace(s.State.Read().Job(namespace(r.Namespace), r.JobID)); err != nil {
		return nil, fmt.Errorf("launch job %q: %w", r.JobID, err)
	}
	res, err := s.Raft.Propose(ctx, &Launch{Namespace: namespace(r.Namespace), JobID: r.JobID, At: time.Now(), EvalID: uuid.NewString(), Force: true})
	if err != nil {
		return nil, fmt.Errorf("launch job %q: %w", r.JobID, err)
	}
	out := &api.PeriodicForceResponse{WriteMeta: api.WriteMeta{Index: res.Index}}
	if i, ok := res.Value.(*Instance); ok {
		out.EvalID, out.EvalCreateIndex = i.EvalID, res.Index
	}
	return out, nil
}
