package deployments

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/jobs/diff"
	"github.com/open-nomad/open-nomad/nomad/jobs/ledger"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// fail ends a deployment; with revert its job goes back to its newest older version that is stable.
func fail(tx *state.Txn, d *api.Deployment, why string, revert bool, evalID string) *Outcome {
	next := tally.Copy(d)
	next.Status, next.StatusDescription = api.DeploymentStatusFailed, why
	out := &Outcome{}
	if revert {
		next.StatusDescription = why + " - " + goBack(tx, next, evalID, out)
	}
	put(tx, next)
	if out.Reverted == nil {
		out.EvalID = evaluate(tx, next, evalID)
	}
	return out
}

// goBack registers the newest older stable version of the deployment's job anew, and says what came of it.
func goBack(tx *state.Txn, d *api.Deployment, evalID string, out *Outcome) string {
	now := tx.Job(d.Namespace, d.JobID)
	if now == nil || now.Stop || now.Version != d.JobVersion || now.CreateIndex != d.JobCreateIndex {
		return "not rolling back, since the job was changed meanwhile"
	}
	stable := newestStable(tx, d)
	switch {
	case stable == nil:
		return "no stable job version to auto revert to"
	case diff.Same(stable, now):
		return fmt.Sprintf("not rolling back to stable job version %d as current job has same specification", stable.Version)
	}
	e, err := ledger.Revert(tx, d.Namespace, d.JobID, stable.Version, evalID)
	if err != nil {
		return fmt.Sprintf("can't roll back to job version %d: %v", stable.Version, err)
	}
	out.Reverted = &stable.Version
	if e != nil {
		ours := *e
		ours.TriggeredBy, ours.DeploymentID = api.TriggerDeploymentWatcher, d.ID
		tx.PutEval(&ours)
		out.EvalID = e.ID
	}
	return fmt.Sprintf("rolling back to job version %d", stable.Version)
}

func newestStable(tx *state.Txn, d *api.Deployment) *api.Job {
	for _, v := range tx.JobVersions(d.Namespace, d.JobID) { // the newest first
		if v.Stable && v.Version < d.JobVersion && v.CreateIndex == d.JobCreateIndex {
			return v
		}
	}
	return nil
}

// unsettled reports whether a deployment was successful and its version is not marked stable. A version
// that was changed after the end of its deployment was marked by somebody else.
func unsettled(tx *state.Txn, d *api.Deployment) bool {
	if d.Status != api.DeploymentStatusSuccessful {
		return false
	}
	v := tx.JobVersion(d.Namespace, d.JobID, d.JobVersion)
	return v != nil && !v.Stable && v.CreateIndex == d.JobCreateIndex && v.ModifyIndex <= d.ModifyIndex
}

// settle marks the version of a successful deployment as one to go back to.
func settle(tx *state.Txn, d *api.Deployment) {
	if unsettled(tx, d) {
		_ = ledger.MarkStable(tx, d.Namespace, d.JobID, d.JobVersion, true) // the version is there
	}
}
