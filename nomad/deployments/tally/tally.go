package tally

import (
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// AllocChanged brings the deployment of an allocation in step with a change of it: before is nil for a new
// allocation, after for a deleted one. Call it for every stored change of DeploymentID or DeploymentStatus;
// other changes cost nothing.
func AllocChanged(tx *state.Txn, before, after *api.Allocation) {
	s := New(tx)
	s.AllocChanged(before, after)
	s.Write()
}

// Sheet collects the changes of many allocations and writes each deployment once.
type Sheet struct {
	tx      *state.Txn
	changed map[string]*api.Deployment
}

// New makes an empty sheet. Deployments must not be written by others until [Sheet.Write].
func New(tx *state.Txn) *Sheet { return &Sheet{tx: tx} }

// AllocChanged notes a change as the function of the same name does.
func (s *Sheet) AllocChanged(before, after *api.Allocation) {
	if after == nil || after.DeploymentID == "" {
		return
	}
	if before != nil && before.DeploymentID != after.DeploymentID {
		before = nil
	}
	was, is := healthOf(before), healthOf(after)
	if before != nil && was == is && !newCanary(before, after) {
		return
	}
	g := s.group(after)
	if g == nil {
		return
	}
	now := s.tx.Now()
	if before == nil {
		g.PlacedAllocs++
		if g.RequireProgressBy.IsZero() {
			g.extend(now)
		}
	}
	if isCanary(after) && !slices.Contains(g.PlacedCanaries, after.ID) {
		g.PlacedCanaries = append(slices.Clone(g.PlacedCanaries), after.ID)
	}
	g.count(was, -1)
	g.count(is, 1)
	if is == healthy && was != healthy {
		g.extend(now)
	}
}

// Write stores the deployments that changed.
func (s *Sheet) Write() {
	for _, id := range slices.Sorted(maps.Keys(s.changed)) {
		d := s.changed[id]
		d.ModifyTime = s.tx.Now().UnixNano()
		s.tx.PutDeployment(d)
	}
	s.changed = nil
}

// group returns the group's state in a copy of the deployment, or nil when there is none to count in.
func (s *Sheet) group(a *api.Allocation) *group {
	d := s.changed[a.DeploymentID]
	if d == nil {
		stored := s.tx.Deployment(a.DeploymentID)
		if stored == nil || stored.TaskGroups[a.TaskGroup] == nil {
			return nil
		}
		d = Copy(stored)
		if s.changed == nil {
			s.changed = map[string]*api.Deployment{}
		}
		s.changed[d.ID] = d
	}
	return (*group)(d.TaskGroups[a.TaskGroup])
}

// Copy copies a deployment with the states of its groups. Lists of canaries are shared.
func Copy(d *api.Deployment) *api.Deployment {
	out := *d
	out.TaskGroups = make(map[string]*api.DeploymentState, len(d.TaskGroups))
	for name, g := range d.TaskGroups {
		if g != nil {
			next := *g
			out.TaskGroups[name] = &next
		}
	}
	return &out
}

type group api.DeploymentState

func (g *group) count(h health, n int) {
	switch h {
	case healthy:
		g.HealthyAllocs += n
	case unhealthy:
		g.UnhealthyAllocs += n
	}
}

// extend gives the group its time to get one allocation further.
func (g *group) extend(now time.Time) {
	if by := now.Add(g.ProgressDeadline); g.ProgressDeadline > 0 && by.After(g.RequireProgressBy) {
		g.RequireProgressBy = by
	}
}

type health int

const (
	undecided health = iota
	healthy
	unhealthy
)

func healthOf(a *api.Allocation) health {
	switch {
	case a == nil || a.DeploymentStatus == nil || a.DeploymentStatus.Healthy == nil:
		return undecided
	case *a.DeploymentStatus.Healthy:
		return healthy
	}
	return unhealthy
}

func isCanary(a *api.Allocation) bool {
	return a.DeploymentStatus != nil && a.DeploymentStatus.Canary
}

func newCanary(before, after *api.Allocation) bool { return isCanary(after) && !isCanary(before) }
