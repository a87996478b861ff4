package allocs

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// healthByUser is the health_check that leaves the decision to a user.
const healthByUser = "manual"

// healthByTasks is the health_check that leaves checks out.
const healthByTasks = "task_states"

// rules is how the health of an allocation is found.
type rules struct {
	// least is how long the tasks must have run, deadline how long that may take from the start.
	least, deadline time.Duration
	// checks is set when the checks of services count.
	checks bool
	// failing is set while a check that counts does not pass; passing is since when all have.
	failing bool
	passing moment
}

// healthRules returns the rules of an allocation whose health a deployment or a drain waits for. It returns false when
// none waits, or a user sets the health.
func healthRules(a *api.Allocation) (rules, bool) {
	g := a.Group()
	if g == nil || a.Job == nil || a.ServerTerminal() || a.ClientTerminal() {
		return rules{}, false
	}
	if s := a.DeploymentStatus; s != nil && s.Healthy != nil {
		return rules{}, false
	}
	if a.DeploymentID == "" {
		// A drain waits for the successors of what it moved.
		if a.Job.Type != api.JobTypeService || a.PreviousAllocation == "" || g.Migrate == nil {
			return rules{}, false
		}
		m := g.Migrate
		return rules{least: m.MinHealthyTime, deadline: m.HealthyDeadline, checks: m.HealthCheck != healthByTasks}, true
	}
	u := g.Update
	if u == nil {
		u = a.Job.Update
	}
	if u == nil || u.HealthCheck == healthByUser {
		return rules{}, false
	}
	return rules{least: u.MinHealthyTime, deadline: u.HealthyDeadline, checks: u.HealthCheck != healthByTasks}, true
}

// opinion is what is known of the health of an allocation.
type opinion struct {
	decided, healthy bool
	// again is when to look again though nothing changed; 0 means when something does.
	again moment
}

// assess derives the health of an allocation: healthy when all that must run ran for long enough and all that must end
// ended well or is paused, and all checks passed for that long; unhealthy when a task failed, or ended though it must run, or the deadline passed. at converts the times
// in the tasks' records, so that a restarted agent continues the count of the previous one.
func assess(g *api.TaskGroup, states map[string]*api.TaskState, r rules, began, now moment, at func(time.Time) moment) opinion {
	since := max(began, r.passing)
	ready := !r.failing
	for _, t := range g.Tasks {
		if t.Lifecycle != nil && t.Lifecycle.Hook == api.TaskLifecycleHookPoststop {
			continue
		}
		s := states[t.Name]
		ends := t.Lifecycle != nil && t.Lifecycle.Hook != "" && !t.Lifecycle.Sidecar
		switch {
		case s == nil:
			ready = false
		case s.State == api.TaskStateDead && (s.Failed || !ends):
			return opinion{decided: true}
		case s.State == api.TaskStateDead:
			since = max(since, at(s.FinishedAt))
		case s.State == api.TaskStateRunning && !ends:
			since = max(since, at(s.StartedAt))
		case s.State == api.TaskStatePending && (s.Paused == api.PausedBySchedule || s.Paused == api.PausedByUser): // it runs when its time comes
		default:
			ready = false
		}
	}
	if well := since + moment(r.least); ready && now >= well {
		return opinion{decided: true, healthy: true}
	} else if end := began + moment(r.deadline); r.deadline > 0 && now >= end {
		return opinion{decided: true}
	} else if ready && (r.deadline <= 0 || well < end) {
		return opinion{again: well}
	} else if r.deadline > 0 {
		return opinion{again: end}
	}
	return opinion{}
}

// attendHealth watches the tasks until the health of the allocation is decided, for each deployment that it
// becomes part of, and ends with ctx.
func (a *Alloc) attendHealth(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	of, start := a.Present().DeploymentID, a.began()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.pulse:
		case <-timer.C:
		}
		p, now := a.Present(), a.clock.now()
		if of != p.DeploymentID { // it went over to another version as it is
			of, start = p.DeploymentID, now
		}
		r, watched := healthRules(p)
		if !watched || a.Leaving() {
			continue
		}
		a.ask(&r, now)
		o := assess(p.Group(), a.tasks.States(), r, start, now, a.clock.at)
		if o.decided {
			a.decide(of, o.healthy, time.Now())
		} else if o.again > 0 {
			timer.Reset(time.Duration(o.again - now))
		}
	}
}

// ask adds what the checks report to the rules.
func (a *Alloc) ask(r *rules, now moment) {
	if a.checks == nil || !r.checks {
		return
	}
	all, span := a.checks.Passing()
	r.failing, r.passing = !all, max(0, now-moment(span))
}

// Leaving reports whether the allocation is being stopped: then the states of its tasks do not count for its health.
func (a *Alloc) Leaving() bool {
	select {
	case <-a.stopping:
		return true
	default:
		return false
	}
}

// decide stores the health of the allocation under a deployment and reports it.
func (a *Alloc) decide(deployment string, healthy bool, now time.Time) {
	a.mu.Lock()
	if a.alloc.DeploymentID != deployment || decided(a.alloc) {
		a.mu.Unlock()
		return
	}
	next := *a.alloc
	status := api.AllocDeploymentStatus{}
	if next.DeploymentStatus != nil {
		status = *next.DeploymentStatus
	}
	status.Healthy, status.Timestamp = &healthy, now.UTC()
	next.DeploymentStatus = &status
	a.alloc = &next
	a.mu.Unlock()
	if err := a.conf.Store.PutAlloc(&next); err != nil {
		a.conf.Log.Error("store allocation", "alloc_id", a.id, "error", err)
	}
	a.conf.Log.Debug("health of allocation", "alloc_id", a.id, "healthy", healthy)
	a.conf.Changed(a.id)
}

func decided(a *api.Allocation) bool {
	return a.DeploymentStatus != nil && a.DeploymentStatus.Healthy != nil
}

// keepHealth copies the health that was decided here, which the servers may not have received, into the servers'
// version.
func keepHealth(now, next *api.Allocation) *api.Allocation {
	if now == nil || now.DeploymentID != next.DeploymentID || !decided(now) || decided(next) {
		return next
	}
	status := *now.DeploymentStatus
	if next.DeploymentStatus != nil {
		status.Canary = next.DeploymentStatus.Canary
	}
	kept := *next
	kept.DeploymentStatus = &status
	return &kept
}

// beat requests an evaluation of the health. It does not block.
func (a *Alloc) beat() {
	select {
	case a.pulse <- struct{}{}:
	default:
	}
}
