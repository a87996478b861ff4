package scheduler

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// findDeployment finds the deployment of the job's version and cancels those of other versions.
func (r *run) findDeployment() {
	for d := range r.in.View.DeploymentsByJob(r.in.Eval.Namespace, r.in.Eval.JobID) {
		r.deployments = append(r.deployments, d)
	}
	r.current, r.out.Plan.DeploymentUpdates = reconcile.Current(r.job, r.deployments)
}

// addGroup adds a group to the deployment, which it creates if there is none.
func (r *run) addGroup(group string, s *api.DeploymentState) {
	d := r.out.Plan.Deployment
	switch {
	case d != nil:
	case r.current != nil:
		changed := *r.current
		d, changed.TaskGroups = &changed, maps.Clone(r.current.TaskGroups)
	default:
		d = reconcile.NewDeployment(r.in.NewID(), r.job, r.in.Eval.Priority)
	}
	d.TaskGroups[group] = s
	if d.CreateIndex == 0 {
		reconcile.Describe(d)
	}
	r.out.Plan.Deployment, r.current = d, d
}

// inDeployment reports whether allocations of the group belong to the deployment.
func (r *run) inDeployment(group string) bool {
	return r.current != nil && r.current.Active() && r.current.TaskGroups[group] != nil
}

// finishDeployment marks the deployment successful when all groups have completed it.
func (r *run) finishDeployment(all bool) {
	d := r.current
	if !all || d == nil || d.CreateIndex == 0 || d.Status != api.DeploymentStatusRunning {
		return
	}
	r.out.Plan.DeploymentUpdates = append(r.out.Plan.DeploymentUpdates, reconcile.Success(d))
}
