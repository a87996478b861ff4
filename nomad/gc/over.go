package gc

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func first[T any](rows iter.Seq[*T]) *T {
	for r := range rows {
		return r
	}
	return nil
}

// allocOver reports whether nobody needs the allocation any more.
func allocOver(tx *state.Txn, a *api.Allocation) bool {
	if !a.ClientTerminal() && (!a.ServerTerminal() || tx.Node(a.NodeID) != nil) {
		return false
	}
	if first(tx.ClaimsByAlloc(a.ID)) != nil {
		return false
	}
	j := tx.Job(a.Namespace, a.JobID)
	if j == nil || j.Stop || j.Status == api.JobStatusDead {
		return true
	}
	return a.ClientStatus != api.AllocClientStatusFailed || a.ServerTerminal() || a.NextAllocation != "" || !mayRetry(j, a)
}

// mayRetry reports whether a failed allocation may still be placed again.
func mayRetry(j *api.Job, a *api.Allocation) bool {
	g := j.Group(a.TaskGroup)
	if g == nil {
		return false
	}
	_, again := reconcile.NextReschedule(a, g.ReschedulePolicy)
	return again
}

// evalOver reports whether the evaluation and all that it placed can be forgotten.
func evalOver(tx *state.Txn, e *api.Evaluation, before time.Time) bool {
	if !e.Terminal() || e.ModifyTime > before.UnixNano() {
		return false
	}
	j := tx.Job(e.Namespace, e.JobID)
	batch := j != nil && (j.Type == api.JobTypeBatch || j.Type == api.JobTypeSysbatch)
	for a := range tx.AllocsByEval(e.ID) {
		if !allocOver(tx, a) || a.ModifyTime > before.UnixNano() {
			return false
		}
		// What a batch job did is how it knows that it is done.
		if batch && !(j.Stop && j.Status == api.JobStatusDead) && !olderThan(a, j) {
			return false
		}
	}
	return true
}

func olderThan(a *api.Allocation, j *api.Job) bool {
	return a.Job != nil && (a.Job.Version < j.Version || a.Job.CreateIndex < j.CreateIndex)
}

// jobOver reports whether the job itself is over; its evaluations and allocations are looked at apart.
func jobOver(tx *state.Txn, j *api.Job) bool {
	if j.Status != api.JobStatusDead || !j.Stop && (j.Periodic != nil || j.ParameterizedJob != nil) || j.VersionTag != nil {
		return false
	}
	for _, v := range tx.JobVersions(j.Namespace, j.ID) {
		if v.VersionTag != nil {
			return false
		}
	}
	return true
}

// nodeOver reports whether the node is down and nothing is left on it.
func nodeOver(tx *state.Txn, n *api.Node) bool {
	if n.Status != api.NodeStatusDown || first(tx.ClaimsByNode(n.ID)) != nil || first(tx.AttachmentsByNode(n.ID)) != nil {
		return false
	}
	for a := range tx.AllocsByNode(n.ID) {
		if !a.Terminal() {
			return false
		}
	}
	return true
}

func deploymentOver(tx *state.Txn, d *api.Deployment) bool {
	switch d.Status {
	case api.DeploymentStatusFailed, api.DeploymentStatusSuccessful, api.DeploymentStatusCancelled:
	default:
		return false
	}
	for a := range tx.AllocsByJob(d.Namespace, d.JobID) {
		if a.DeploymentID == d.ID && !a.Terminal() {
			return false
		}
	}
	return true
}
