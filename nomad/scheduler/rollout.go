package scheduler

import (
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// findDeployment looks the deployment of the job's version up and cancels those of other versions.
func (r *run) findDeployment() {
	for d := range r.in.View.DeploymentsByJob(r.in.Eval.Namespace, r.in.Eval.JobID) {
		r.deployments = append(r.deployments, d)
	}
	r.current, r.out.Plan.DeploymentUpdates = reconcile.Current(r.job, r.deployments)
}

// addGroup puts a group's part into the deployment, which is created when there is none.
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

// joins reports whether allocations of the group are of the deployment.
func (r *run) joins(group string) bool {
	return r.current != nil && r.current.Active() && r.current.TaskGroups[group] != nil
}

// settle ends the deployment well when all groups are done with it.
func (r *run) settle(all bool) {
	d := r.current
	if !all || d == nil || d.CreateIndex == 0 || d.Status != api.DeploymentStatusRunning {
		return
	}
	r.out.Plan.DeploymentUpdates = append(r.out.Plan.DeploymentUpdates, reconcile.Success(d))
}
