package ledger

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Placed reports a namespace or node pool of a job that does not exist.
func Placed(tx *state.Txn, j *api.Job) error {
	if tx.Namespace(j.Namespace) == nil {
		return fault.New(fault.Invalid, "job %q is in nonexistent namespace %q", j.ID, j.Namespace)
	}
	if tx.NodePool(j.NodePool) == nil {
		return fault.New(fault.Invalid, "job %q: node pool %q does not exist", j.ID, j.NodePool)
	}
	return nil
}

// SameType refuses to make a job of another type of the one that there is, which may be nil: what it runs
// was placed by other rules. Purge it before.
func SameType(old, j *api.Job) error {
	if old != nil && old.Type != j.Type {
		return fault.New(fault.Invalid, "cannot update job from type %q to %q", old.Type, j.Type)
	}
	return nil
}

// Evaluation is a new evaluation of the job; priority 0 is the job's.
func Evaluation(tx *state.Txn, j *api.Job, id, trigger string, priority int) *api.Evaluation {
	if priority == 0 {
		priority = j.Priority
	}
	now := tx.Now().UnixNano()
	return &api.Evaluation{
		ID: id, Namespace: j.Namespace, Priority: priority, Type: j.Type, TriggeredBy: trigger, JobID: j.ID,
		JobModifyIndex: tx.Index(), Status: api.EvalStatusPending, CreateTime: now, ModifyTime: now,
	}
}

// Parent reports whether the job is only a template of others.
func Parent(j *api.Job) bool { return j.Periodic != nil || j.ParameterizedJob != nil }
