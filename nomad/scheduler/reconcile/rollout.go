package reconcile

import (
	"github.com/open-nomad/open-nomad/api"
)

// Descriptions of deployments that the scheduler writes.
const (
	deploymentRuns     = "Deployment is running"
	deploymentPromote  = "Deployment is running but requires manual promotion"
	deploymentAuto     = "Deployment is running pending automatic promotion"
	deploymentDone     = "Deployment completed successfully"
	deploymentJobStops = "Cancelled because job is stopped"
	deploymentJobIsNew = "Cancelled due to newer version of job"
)

// Current picks of a job's deployments the one of its version: the newest, unless that succeeded or was
// cancelled; a failed one still counts. All others that are active are cancelled. The job is nil when it
// is gone.
func Current(job *api.Job, all []*api.Deployment) (*api.Deployment, []*api.DeploymentStatusUpdate) {
	why := deploymentJobIsNew
	var current *api.Deployment
	if job == nil || job.Stop {
		why = deploymentJobStops
	} else {
		for _, d := range all {
			if of(d, job) && (current == nil || d.CreateIndex > current.CreateIndex) {
				current = d
			}
		}
	}
	var cancel []*api.DeploymentStatusUpdate
	for _, d := range all {
		if d != current && d.Active() {
			cancel = append(cancel, &api.DeploymentStatusUpdate{
				DeploymentID: d.ID, Status: api.DeploymentStatusCancelled, StatusDescription: why,
			})
		}
	}
	if current != nil && !current.Active() && current.Status != api.DeploymentStatusFailed {
		current = nil
	}
	return current, cancel
}

func of(d *api.Deployment, job *api.Job) bool {
	return d.JobVersion == job.Version && d.JobCreateIndex == job.CreateIndex
}

// NewDeployment is a deployment of the job's version without groups.
func NewDeployment(id string, job *api.Job, priority int) *api.Deployment {
	return &api.Deployment{
		ID: id, Namespace: job.Namespace, JobID: job.ID, JobVersion: job.Version, JobModifyIndex: job.ModifyIndex,
		JobSpecModifyIndex: job.JobModifyIndex, JobCreateIndex: job.CreateIndex,
		TaskGroups: map[string]*api.DeploymentState{}, EvalPriority: priority,
		Status: api.DeploymentStatusRunning, StatusDescription: deploymentRuns,
	}
}

// Describe sets the description of a deployment that begins, by what its groups want.
func Describe(d *api.Deployment) {
	canaries, auto := false, true
	for _, g := range d.TaskGroups {
		if g.DesiredCanaries > 0 {
			canaries, auto = true, auto && g.AutoPromote
		}
	}
	switch {
	case canaries && auto:
		d.StatusDescription = deploymentAuto
	case canaries:
		d.StatusDescription = deploymentPromote
	default:
		d.StatusDescription = deploymentRuns
	}
}

// Success is the change that ends the deployment well.
func Success(d *api.Deployment) *api.DeploymentStatusUpdate {
	return &api.DeploymentStatusUpdate{
		DeploymentID: d.ID, Status: api.DeploymentStatusSuccessful, StatusDescription: deploymentDone,
	}
}

// Rollout is how far a group may change: its update block and its part of the current deployment.
type Rollout struct {
	// update is nil when the group changes all at once and without deployment.
	update     *api.UpdateStrategy
	deployment *api.Deployment
	// state is the group's part of the deployment, or nil.
	state *api.DeploymentState
}

// RolloutOf looks the group's part of the current deployment up, which is nil when there is none.
func RolloutOf(g *api.TaskGroup, current *api.Deployment) Rollout {
	r := Rollout{deployment: current}
	if g.Update != nil && g.Update.MaxParallel > 0 {
		r.update = g.Update
	}
	if current != nil {
		r.state = current.TaskGroups[g.Name]
	}
	return r
}

// Halted reports whether the deployment was paused or failed: nothing new is placed for it.
func (r Rollout) Halted() bool { return r.paused() || r.failed() }

func (r Rollout) failed() bool {
	return r.deployment != nil && r.deployment.Status == api.DeploymentStatusFailed
}

func (r Rollout) paused() bool {
	return r.deployment != nil &&
		(r.deployment.Status == api.DeploymentStatusPaused || r.deployment.Status == api.DeploymentStatusPending)
}

// Promoted reports whether canaries are not asked for any more.
func (r Rollout) Promoted() bool { return r.state != nil && r.state.Promoted }

// Unpromoted reports whether the deployment has canaries that wait for their promotion.
func (r Rollout) Unpromoted() bool {
	return r.state != nil && r.state.DesiredCanaries > 0 && !r.state.Promoted
}

// Canaries is how many canaries the deployment wants of the group.
func (r Rollout) Canaries() int {
	if r.state == nil {
		return 0
	}
	return r.state.DesiredCanaries
}

// CanaryShare is how many of n replacements of a system job are canaries: a part in hundred, not more than may
// be under way at once.
func (r Rollout) CanaryShare(n int) int {
	return min(r.update.MaxParallel, (r.update.Canary*n+99)/100)
}

// Running is the group's part of a deployment that is not over; nil when there is none.
func (r Rollout) Running() *api.DeploymentState {
	if r.deployment == nil || !r.deployment.Active() {
		return nil
	}
	return r.state
}

// Member reports whether the allocation belongs to the group's current deployment.
func (r Rollout) Member(a *api.Allocation) bool {
	return r.deployment != nil && a.DeploymentID == r.deployment.ID
}

// Begins reports whether a deployment is to be created (or the group to be added to the active one):
// something is wanted, and nothing of this version ran yet or what runs changes.
func (r Rollout) Begins(wanted int, ran, changes bool) bool {
	return r.update != nil && r.state == nil && !r.Halted() && wanted > 0 && (!ran || changes)
}

// State is the group's part of a deployment that begins.
func (r Rollout) State(total, canaries int) *api.DeploymentState {
	return &api.DeploymentState{
		AutoRevert: r.update.AutoRevert, AutoPromote: r.update.AutoPromote, ProgressDeadline: r.update.ProgressDeadline,
		DesiredTotal: total, DesiredCanaries: canaries,
	}
}

// Done reports whether the group's part of the deployment has all that it wants.
func (r Rollout) Done() bool {
	return r.state == nil ||
		!r.Unpromoted() && r.state.HealthyAllocs >= max(r.state.DesiredTotal, r.state.DesiredCanaries)
}

// Limit is how many of n allocations may be replaced now, given those of the deployment that the group has
// and how many new ones are placed.
func (r Rollout) Limit(n int, members Health, placed int) int {
	switch {
	case r.Halted() || r.Unpromoted() || members.Unhealthy > 0:
		return 0
	case r.update == nil:
		return n
	}
	return min(n, max(0, r.update.MaxParallel-members.Undecided-placed))
}

// Health counts the allocations of the current deployment that are not healthy.
type Health struct{ Undecided, Unhealthy int }

// Add counts an allocation of the deployment.
func (h *Health) Add(a *api.Allocation) {
	switch s := a.DeploymentStatus; {
	case s == nil || s.Healthy == nil:
		h.Undecided++
	case !*s.Healthy:
		h.Unhealthy++
	}
}
