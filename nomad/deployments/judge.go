package deployments

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// verdict is what is to be done with a deployment now.
type verdict struct {
	// fail says why it fails; revert that its job is to go back to an older version.
	fail   string
	revert bool
	// reschedule are unhealthy allocations that are to be replaced.
	reschedule []*api.Allocation
	// promote are the groups whose canaries are promoted.
	promote []string
	// again is when to judge again though nothing changed; zero means never.
	again time.Time
}

func (v *verdict) empty() bool {
	return v.fail == "" && len(v.reschedule) == 0 && len(v.promote) == 0
}

func (v *verdict) fails(why string, g *api.DeploymentState) {
	v.fail, v.revert = why, v.revert || g.AutoRevert
}

// judge finds out what is to be done with a deployment.
func judge(tx *state.Txn, d *api.Deployment, now time.Time) *verdict {
	v := &verdict{}
	if !d.Active() || d.Status == api.DeploymentStatusPaused {
		return v
	}
	for _, a := range unhealthyOf(tx, d) {
		g := d.TaskGroups[a.TaskGroup]
		if g.ProgressDeadline == 0 || !attemptsLeft(a) {
			v.fails(descriptionUnhealthy, g)
			continue
		}
		v.reschedule = append(v.reschedule, a)
	}
	if v.fail != "" {
		return v
	}
	for _, g := range d.TaskGroups {
		by := g.RequireProgressBy
		if by.IsZero() || !short(g) {
			continue
		}
		if !now.Before(by) {
			v.fails(descriptionDeadline, g)
		} else if v.again.IsZero() || by.Before(v.again) {
			v.again = by
		}
	}
	if v.fail == "" && promotesItself(d) {
		v.promote = slices.DeleteFunc(unpromoted(d), func(name string) bool { return !canariesHealthy(tx, d.TaskGroups[name]) })
		if len(v.promote) < len(unpromoted(d)) {
			v.promote = nil
		}
	}
	return v
}

// unhealthyOf are the unhealthy allocations that nobody dealt with yet, in the order of their ids.
func unhealthyOf(tx *state.Txn, d *api.Deployment) []*api.Allocation {
	counted := func(g *api.DeploymentState) bool { return g.UnhealthyAllocs > 0 }
	if !slices.ContainsFunc(slices.Collect(maps.Values(d.TaskGroups)), counted) {
		return nil
	}
	var out []*api.Allocation
	for a := range tx.AllocsByJob(d.Namespace, d.JobID) {
		if a.DeploymentID != d.ID || a.ServerTerminal() || a.NextAllocation != "" || d.TaskGroups[a.TaskGroup] == nil {
			continue
		}
		if s := a.DeploymentStatus; s != nil && s.Healthy != nil && !*s.Healthy && !a.DesiredTransition.Reschedule {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *api.Allocation) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func attemptsLeft(a *api.Allocation) bool {
	g := a.Group()
	if g == nil {
		return false
	}
	_, may := reconcile.NextReschedule(a, g.ReschedulePolicy)
	return may
}

// short reports whether a group has not reached what it must by its progress deadline: its canaries until
// they are promoted, then all its allocations. Canaries that wait for a user are no lack of progress, and
// neither are those that follow a healthy one which had to leave its node.
func short(g *api.DeploymentState) bool {
	if awaits(g) {
		return g.HealthyAllocs < g.DesiredCanaries
	}
	return g.HealthyAllocs < max(g.DesiredTotal, g.DesiredCanaries)
}

// awaits reports whether the group has canaries that were not promoted.
func awaits(g *api.DeploymentState) bool { return g.DesiredCanaries > 0 && !g.Promoted }

// unpromoted are the names of the groups that await promotion.
func unpromoted(d *api.Deployment) []string {
	var names []string
	for name, g := range d.TaskGroups {
		if awaits(g) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// canariesHealthy reports whether all canaries of a group are placed and healthy.
func canariesHealthy(tx *state.Txn, g *api.DeploymentState) bool {
	return healthyCanaries(tx, g) >= g.DesiredCanaries
}

func healthyCanaries(tx *state.Txn, g *api.DeploymentState) int {
	n := 0
	for _, id := range g.PlacedCanaries {
		if a := tx.Alloc(id); a != nil && !a.Terminal() && a.DeploymentStatus != nil &&
			a.DeploymentStatus.Healthy != nil && *a.DeploymentStatus.Healthy {
			n++
		}
	}
	return n
}

// promotesItself reports whether every group with canaries has auto_promote.
func promotesItself(d *api.Deployment) bool {
	waiting := unpromoted(d)
	return len(waiting) > 0 && !slices.ContainsFunc(waiting, func(name string) bool { return !d.TaskGroups[name].AutoPromote })
}
