// Package drain decides which allocations of a draining node move next, and when the drain has ended.
// It is pure: it sees a node, its allocations and those of their jobs, and the time.
//
// The order: service allocations first, as many at once as their group's migrate block allows, or all of a
// group that shares a volume which one node may use: none could be elsewhere before the last has ended, nor before
// batch work that shares it is, for which they stay; batch allocations when they end or the deadline comes; then
// system jobs, unless they are ignored; jobs
// that run CSI plugins last, when no volume is left. At the deadline all go at once but the plugins:
// without them volumes would stay on the node indefinitely, and the drain with them.
//
// A drain has ended when neither an allocation nor a volume is left on the node: operators switch the machine
// off once the drain has ended. Volumes of allocations that stay, as system jobs may, do not count.
package drain

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// View is what the decision depends on.
type View struct {
	Node *api.Node
	// Allocs are the allocations of the node.
	Allocs []*api.Allocation
	// Group lists the allocations of a task group of a job, on all nodes.
	Group func(namespace, job, group string) []*api.Allocation
	// Mounted is set while volumes of allocations that ended are mounted on the node or attached to it.
	Mounted bool
	Now     time.Time
}

// Decision is what to do now.
type Decision struct {
	// Migrate lists the allocations to mark.
	Migrate []string
	// Done is set when nothing is left to wait for.
	Done bool
	// Held is set when it is volumes that the drain waits for.
	Held bool
	// Wake is when to look again though nothing changed; zero means never.
	Wake time.Time
}

type tier int

const (
	service tier = iota
	batch
	system
	plugin
	ignored
)

// Next decides.
func Next(v View) Decision {
	s := v.Node.DrainStrategy
	if s == nil {
		return Decision{}
	}
	left := map[tier][]*api.Allocation{}
	for _, a := range v.Allocs {
		if !a.ClientTerminal() && !(a.ServerTerminal() && a.ClientStatus == "") {
			t := tierOf(a, s)
			left[t] = append(left[t], a)
		}
	}
	forced := s.Deadline < 0 || (!s.ForceDeadline.IsZero() && !v.Now.Before(s.ForceDeadline))
	users := len(left[service]) + len(left[batch])
	alone := users+len(left[system]) == 0
	d := Decision{Done: alone && len(left[plugin]) == 0 && !v.Mounted, Held: alone && v.Mounted}
	if !forced && !s.ForceDeadline.IsZero() {
		d.Wake = s.ForceDeadline
	}
	if forced {
		d.mark(left[service])
		d.mark(left[batch])
	} else {
		ids, wake := paced(v, free(left[service], left[batch]))
		d.Migrate, d.Wake = append(d.Migrate, ids...), sooner(d.Wake, wake)
	}
	if forced || users == 0 {
		d.mark(left[system])
	}
	if alone && !v.Mounted {
		d.mark(left[plugin])
	}
	return d
}

func (d *Decision) mark(allocs []*api.Allocation) {
	for _, a := range allocs {
		if movable(a) {
			d.Migrate = append(d.Migrate, a.ID)
		}
	}
}

func movable(a *api.Allocation) bool {
	return !a.Terminal() && !a.DesiredTransition.Migrate
}

func tierOf(a *api.Allocation, s *api.DrainStrategy) tier {
	if a.Job == nil {
		return service
	}
	systemic := a.Job.Type == api.JobTypeSystem || a.Job.Type == api.JobTypeSysbatch
	switch {
	case systemic && s.IgnoreSystemJobs:
		return ignored
	case runsPlugin(a):
		return plugin
	case systemic:
		return system
	case a.Job.Type == api.JobTypeBatch:
		return batch
	}
	return service
}

func runsPlugin(a *api.Allocation) bool {
	g := a.Group()
	if g == nil {
		return false
	}
	for _, t := range g.Tasks {
		if t.CSIPluginConfig != nil {
			return true
		}
	}
	return false
}

// free returns the services that share no single-node volume with batch allocations. Batch allocations keep their
// volumes on this node until they end or the deadline comes, so services that share one could not run elsewhere.
func free(services, batch []*api.Allocation) []*api.Allocation {
	kept := map[[2]string]bool{}
	for _, b := range batch {
		for _, u := range b.VolumeUses() {
			if u.AccessMode.SingleNode() {
				kept[[2]string{b.Namespace, u.VolumeID}] = true
			}
		}
	}
	if len(kept) == 0 {
		return services
	}
	return slices.DeleteFunc(slices.Clone(services), func(a *api.Allocation) bool {
		return slices.ContainsFunc(a.VolumeUses(), func(u *api.VolumeUse) bool { return kept[[2]string{a.Namespace, u.VolumeID}] })
	})
}

// paced returns the allocations that may stop now without leaving a group with fewer than count - max_parallel healthy
// allocations, and when to check again because more may be healthy then. It does not apply this limit to groups that a
// volume keeps on one node.
func paced(v View, allocs []*api.Allocation) (ids []string, wake time.Time) {
	type key struct{ namespace, job, group string }
	budget := map[key]int{}
	for _, a := range allocs {
		if !movable(a) {
			continue
		}
		if a.Group().OnOneNode() {
			ids = append(ids, a.ID)
			continue
		}
		k := key{a.Namespace, a.JobID, a.TaskGroup}
		if _, known := budget[k]; !known {
			n, at := surplus(v, v.Group(k.namespace, k.job, k.group), a)
			budget[k], wake = n, sooner(wake, at)
		}
		if budget[k] > 0 {
			budget[k]--
			ids = append(ids, a.ID)
		}
	}
	return ids, wake
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// healthyAt is when a running allocation counts as healthy: it was there before the drain, was found healthy
// by its deployment, or was steady for the group's time. By the servers' clock, which does not step between nodes.
func healthyAt(v View, g *api.TaskGroup, a *api.Allocation) (at time.Time, ever bool) {
	if d := a.DeploymentStatus; d != nil && d.Healthy != nil {
		return time.Time{}, *d.Healthy
	}
	if g.Migrate == nil || a.CreateTime < v.Node.DrainStrategy.StartedAt.UnixNano() {
		return time.Time{}, true
	}
	return time.Unix(0, a.ModifyTime).Add(g.Migrate.MinHealthyTime), true
}

// surplus returns how many allocations of a's group may leave, and when there may be more.
func surplus(v View, group []*api.Allocation, a *api.Allocation) (n int, wake time.Time) {
	g := a.Group()
	if g == nil {
		return len(group), wake
	}
	parallel := 1
	if g.Migrate != nil && g.Migrate.MaxParallel > 0 {
		parallel = g.Migrate.MaxParallel
	}
	staying := 0
	for _, other := range group {
		switch {
		case !movable(other):
		case other.NodeID == a.NodeID:
			staying++
		case other.ClientStatus == api.AllocClientStatusRunning:
			switch at, ever := healthyAt(v, g, other); {
			case ever && !v.Now.Before(at):
				staying++
			case ever:
				wake = sooner(wake, at)
			}
		}
	}
	return staying - (g.Count - parallel), wake
}
