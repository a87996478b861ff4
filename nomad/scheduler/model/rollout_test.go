package model_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
)

// rolledOut checks a group that changes by a deployment.
func (p *part) rolledOut() error {
	var d *api.Deployment
	for all := range p.after.DeploymentsByJob("default", p.id) {
		ofJob := all.JobVersion == p.job.Version && all.JobCreateIndex == p.job.CreateIndex
		if all.Active() && !ofJob {
			return fmt.Errorf("deployment of version %d is under way, wanted is %d", all.JobVersion, p.job.Version)
		}
		if ofJob && (d == nil || all.CreateIndex > d.CreateIndex) {
			d = all
		}
	}
	if d == nil || d.TaskGroups[p.name] == nil {
		return p.counted()
	}
	g := d.TaskGroups[p.name]
	awaits := g.DesiredCanaries > 0 && !g.Promoted
	switch d.Status {
	case api.DeploymentStatusSuccessful:
		return p.succeeded(d)
	case api.DeploymentStatusFailed:
		return p.failed(d)
	case api.DeploymentStatusPaused:
		return p.undisturbed(d)
	}
	if awaits {
		return p.tried(d, g)
	}
	return p.stuck(d)
}

// succeeded is the end of a roll-out: all is new and its version one to go back to.
func (p *part) succeeded(d *api.Deployment) error {
	if sick(p.job) {
		return fmt.Errorf("deployment %s is successful, and its tasks are never healthy", d.ID)
	}
	if v := p.after.JobVersion("default", p.id, d.JobVersion); v == nil || !v.Stable {
		return fmt.Errorf("version %d was rolled out and is not stable", d.JobVersion)
	}
	p.canaried = d.TaskGroups[p.name].DesiredCanaries > 0
	return p.counted()
}

// failed is the other end: what ran goes on, canaries are gone, and with auto_revert the job went back when it could.
func (p *part) failed(d *api.Deployment) error {
	g := d.TaskGroups[p.name]
	for _, a := range p.now {
		if s := a.DeploymentStatus; a.DeploymentID == d.ID && s != nil && s.Canary && !g.Promoted {
			return fmt.Errorf("canary %s of a failed deployment", show(a))
		}
	}
	back := p.stable(d)
	if g.AutoRevert && back != nil && workOf(back, p.name) != workOf(p.job, p.name) && !p.byHand[d.ID] {
		return fmt.Errorf("deployment %s failed, and the job did not go back to version %d", d.ID, back.Version)
	}
	return p.undisturbed(d)
}

// stable is the newest older version that was rolled out well.
func (p *part) stable(d *api.Deployment) *api.Job {
	for _, v := range p.after.JobVersions("default", p.id) { // the newest first
		if v.Stable && v.Version < d.JobVersion {
			return v
		}
	}
	return nil
}

// undisturbed checks that a roll-out that was halted stops nothing more. What follows of those that had to go may be
// of either version, and who waits is not told.
func (p *part) undisturbed(d *api.Deployment) error {
	kept, err := p.shrunk(0)
	if err != nil && len(p.stay) <= p.count {
		return err
	}
	halted := p.before.Deployment(d.ID) != nil && !p.before.Deployment(d.ID).Active()
	for _, a := range kept {
		if !p.lives(a) && halted && p.before.Job("default", p.id).Version == p.job.Version {
			return fmt.Errorf("%s was stopped while deployment %s is %s", show(a), d.ID, d.Status)
		}
	}
	if n := p.steady(d); n > p.count {
		return fmt.Errorf("%d live of %d", n, p.count)
	}
	p.open()
	return nil
}

// steady counts those that are no canaries.
func (p *part) steady(d *api.Deployment) int {
	n := 0
	for _, a := range p.now {
		if s := a.DeploymentStatus; a.DeploymentID != d.ID || s == nil || !s.Canary {
			n++
		}
	}
	return n
}

// open takes it as it is whether somebody waits for the group.
func (p *part) open() {
	for e := range p.after.EvalsByJob("default", p.id) {
		if e.Status == api.EvalStatusBlocked && e.FailedTGAllocs[p.name] != nil {
			p.short++
			return
		}
	}
}

// tried is a roll-out whose canaries wait for their promotion: they run beside the old, which go on.
func (p *part) tried(d *api.Deployment, g *api.DeploymentState) error {
	canaries := len(p.now) - p.steady(d)
	p.open()
	switch {
	case canaries > g.DesiredCanaries:
		return fmt.Errorf("%d canaries of %d", canaries, g.DesiredCanaries)
	case canaries < g.DesiredCanaries && p.short == 0:
		return fmt.Errorf("%d canaries of %d and nobody waits for capacity", canaries, g.DesiredCanaries)
	case canaries < g.DesiredCanaries:
		if n := place(p.after, p.job, p.name, nil); n != nil {
			return fmt.Errorf("%d canaries of %d, although there is capacity on %s", canaries, g.DesiredCanaries, n.ID)
		}
	}
	before := p.before.Job("default", p.id)
	if before == nil || p.steady(d) > p.count {
		return fmt.Errorf("%d beside the canaries, wanted are %d", p.steady(d), p.count)
	}
	for _, a := range p.stay {
		s := a.DeploymentStatus
		canary := a.DeploymentID != d.ID && s != nil && s.Canary // of an older roll-out
		if !p.lives(a) && !canary && !p.wentBack() && index(a) < p.count && len(p.stay) <= p.count {
			return fmt.Errorf("%s was stopped before the canaries were promoted", show(a))
		}
	}
	if sick(p.job) && canaries > 0 {
		return fmt.Errorf("canaries of deployment %s are not healthy, and it goes on", d.ID)
	}
	return nil
}

// stuck is a roll-out that goes on: for want of capacity only.
func (p *part) stuck(d *api.Deployment) error {
	p.open()
	if p.short == 0 {
		return fmt.Errorf("deployment %s is %s: %s; nobody waits and it does not go on: %+v", d.ID, d.Status, d.StatusDescription, d.TaskGroups[p.name])
	}
	for _, a := range p.stay {
		if a.Job.Version == p.job.Version && !p.lives(a) && len(p.stay) <= p.count {
			return fmt.Errorf("%s was stopped for no reason", show(a))
		}
	}
	if n := p.steady(d); n > p.count {
		return fmt.Errorf("%d live of %d", n, p.count)
	}
	if len(p.now) < p.count {
		if n := place(p.after, p.job, p.name, nil); n != nil {
			return fmt.Errorf("%d of %d, although there is capacity on %s", len(p.now), p.count, n.ID)
		}
	}
	return nil
}
