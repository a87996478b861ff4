package gc

import (
	"iter"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/jobs/rules"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

func first[T any](rows iter.Seq[*T]) *T {
	for r := range rows {
		return r
	}
	return nil
}

// allocOver reports whether the allocation is not needed any more.
func allocOver(tx *state.Txn, a *api.Allocation) bool {
	if !a.ClientTerminal() && (!a.ServerTerminal() || tx.Node(a.NodeID) != nil) {
		return false
	}
	if first(tx.ClaimsByAlloc(a.ID)) != nil || dataAwaited(tx, a) {
		return false
	}
	j := tx.Job(a.Namespace, a.JobID)
	if j == nil || j.Stop {
		return true
	}
	return a.ClientStatus != api.AllocClientStatusFailed || a.ServerTerminal() || a.NextAllocation != "" || !mayRetry(j, a)
}

// migrationsMax is how many replacements may stop, one after the other, before one has the data.
const migrationsMax = 16

// dataAwaited reports whether the data of the allocation may be on its way to its replacement on another node. The node would
// remove the files.
func dataAwaited(tx *state.Txn, a *api.Allocation) bool {
	next := tx.Alloc(a.NextAllocation)
	for n := 0; next != nil && next.ServerTerminal() && n < migrationsMax; n++ { // one that stopped may have left the data here
		next = tx.Alloc(next.NextAllocation)
	}
	if next == nil || next.ClientStatus != api.AllocClientStatusPending || next.ServerTerminal() || next.NodeID == a.NodeID {
		return false
	}
	g, node := next.Group(), tx.Node(a.NodeID)
	return g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Migrate && node != nil && node.Status != api.NodeStatusDown
}

// dead reports whether nothing of the job runs or will run. The status in the row of a job is
// as old as its registration.
func dead(tx *state.Txn, j *api.Job) bool {
	return rules.Status(j, tx.AllocsByJob(j.Namespace, j.ID), tx.EvalsByJob(j.Namespace, j.ID), tx.DeploymentsByJob(j.Namespace, j.ID)) == api.JobStatusDead
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
	over := j != nil && j.Stop && dead(tx, j)
	for a := range tx.AllocsByEval(e.ID) {
		if !allocOver(tx, a) || a.ModifyTime > before.UnixNano() || reconcile.MustRetain(a, j, over) {
			return false
		}
	}
	return true
}

// recordsEnd reports whether the evaluation is the newest of a stopped job: it records when the job was stopped.
func recordsEnd(tx *state.Txn, e *api.Evaluation) bool {
	if j := tx.Job(e.Namespace, e.JobID); j == nil || !j.Stop {
		return false
	}
	for other := range tx.EvalsByJob(e.Namespace, e.JobID) {
		if other.CreateIndex > e.CreateIndex {
			return false
		}
	}
	return true
}

// jobOver reports whether the job itself has ended; its evaluations and allocations are checked
// separately. A service with nothing to run, such as one scaled to zero, has ended only when it is stopped.
func jobOver(tx *state.Txn, j *api.Job) bool {
	if !j.Stop && !reconcile.RunsOnce(j) || j.VersionTag != nil || !dead(tx, j) {
		return false
	}
	for _, v := range tx.JobVersions(j.Namespace, j.ID) {
		if v.VersionTag != nil {
			return false
		}
	}
	return true
}

// nodeOver reports whether the node is down, nothing is left on it, and no other node waits for what it may have mounted.
// together are the ids of those that are collected with it: two on a removed machine would keep each other.
func nodeOver(tx *state.Txn, n *api.Node, together map[string]bool) bool {
	return empty(tx, n) && !ledger.Awaited(tx, n, func(o *api.Node) bool { return together[o.ID] && empty(tx, o) })
}

// empty reports whether the node is down and nothing is left on it.
func empty(tx *state.Txn, n *api.Node) bool {
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
