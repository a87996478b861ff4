package evals

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// reapMax bounds how many evaluations one raft entry deletes.
const reapMax = 5_000

// Delete deletes evaluations that were chosen by id or by a filter. Handing out must be paused, so that
// no worker has them. By id, one that still has work is refused; by filter such ones are left out.
func (s *Service) Delete(ctx context.Context, r *api.EvalDeleteRequest) (*api.EvalDeleteResponse, error) {
	tx := s.State.Read()
	if !tx.SchedulerConfig().PauseEvalBroker {
		return nil, fault.New(fault.Invalid, "eval broker is enabled: evals can only be deleted while it is paused")
	}
	ids, err := chosen(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	resp := &api.EvalDeleteResponse{}
	for len(ids) > 0 {
		n := min(len(ids), reapMax)
		res, err := s.Raft.Propose(ctx, &Reap{Evals: ids[:n]})
		if err != nil {
			return nil, fmt.Errorf("delete evaluations: %w", err)
		}
		if gone, ok := res.Value.(int); ok {
			resp.Count += gone
		}
		resp.Index, ids = res.Index, ids[n:]
	}
	return resp, nil
}

// chosen are the ids of the evaluations to delete.
func chosen(ctx context.Context, tx *state.Txn, r *api.EvalDeleteRequest) ([]string, error) {
	switch {
	case len(r.EvalIDs) > 0 && r.Filter != "":
		return nil, fault.New(fault.Invalid, "evals cannot be deleted by both ID and filter")
	case len(r.EvalIDs) == 0 && r.Filter == "":
		return nil, fault.New(fault.Invalid, "evals must be deleted by either ID or filter")
	case r.Filter != "":
		return filtered(ctx, tx, r)
	}
	for _, id := range r.EvalIDs {
		e := tx.Eval(id)
		if e == nil {
			return nil, fault.New(fault.NotFound, "eval not found: %s", id)
		}
		if why := inUse(tx, e); why != "" {
			return nil, fault.New(fault.Invalid, "eval %s is not safe to delete: %s", id, why)
		}
	}
	return r.EvalIDs, nil
}

func filtered(ctx context.Context, tx *state.Txn, r *api.EvalDeleteRequest) ([]string, error) {
	found, _, err := page.Of(ctx, &api.QueryOptions{Namespace: r.Namespace, Filter: r.Filter}, listOf(tx, &api.EvalListRequest{}))
	var ids []string
	for _, e := range found {
		if inUse(tx, e) == "" {
			ids = append(ids, e.ID)
		}
	}
	return ids, err
}

// inUse returns why an evaluation must stay: it has allocations that run, that their job still needs, or whose volumes
// are not given back.
func inUse(tx *state.Txn, e *api.Evaluation) string {
	j := tx.Job(e.Namespace, e.JobID)
	dead := j != nil && j.Stop && rules.Status(j, tx.AllocsByJob(j.Namespace, j.ID), tx.EvalsByJob(j.Namespace, j.ID), tx.DeploymentsByJob(j.Namespace, j.ID)) == api.JobStatusDead
	for a := range tx.AllocsByEval(e.ID) {
		if !a.Terminal() || !a.ClientTerminal() {
			return fmt.Sprintf("allocation %s is not terminal", a.ID)
		}
		switch {
		case reconcile.MustRetain(a, j, dead):
			return fmt.Sprintf("allocation %s records the finished work of job %q", a.ID, e.JobID)
		case awaitsSuccessor(j, a):
			return fmt.Sprintf("allocation %s is about to be rescheduled", a.ID)
		}
		for c := range tx.ClaimsByAlloc(a.ID) {
			return fmt.Sprintf("allocation %s still claims volume %q", a.ID, c.VolumeID)
		}
	}
	return ""
}

// awaitsSuccessor reports whether a failed allocation may still be placed again.
func awaitsSuccessor(j *api.Job, a *api.Allocation) bool {
	if j == nil || j.Stop || a.ClientStatus != api.AllocClientStatusFailed || a.ServerTerminal() || a.NextAllocation != "" {
		return false
	}
	g := j.Group(a.TaskGroup)
	if g == nil {
		return false
	}
	_, again := reconcile.NextReschedule(a, g.ReschedulePolicy)
	return again
}

// Apply implements [fsm.Command]. Its result is the number of deleted evaluations, an int: those that are
// deleted or in use now, or are handed out again, stay.
func (r *Reap) Apply(tx *state.Txn) (any, error) {
	gone := 0
	if !tx.SchedulerConfig().PauseEvalBroker {
		return gone, nil
	}
	for _, id := range r.Evals {
		e := tx.Eval(id)
		if e == nil || inUse(tx, e) != "" {
			continue
		}
		var over []string
		for a := range tx.AllocsByEval(id) {
			over = append(over, a.ID)
		}
		for _, a := range over {
			tx.DeleteAlloc(a)
		}
		tx.DeleteEval(id)
		gone++
	}
	return gone, nil
}
