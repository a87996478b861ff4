package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

// distinct keeps the counters of distinct_hosts and distinct_property.
type distinct struct {
	jobHosts, groupHosts bool
	ofJob, ofGroup       map[string]int // allocations per node
	properties           []*property
}

type property struct {
	name   string
	target feasible.Target
	// wide counts all groups of the job, not only this one.
	wide  bool
	limit int
	used  map[string]int
}

func newDistinct(j *api.Job, g *api.TaskGroup) *distinct {
	d := &distinct{}
	d.add(j.Constraints, true)
	d.add(g.Constraints, false)
	for _, t := range g.Tasks {
		d.add(t.Constraints, false)
	}
	if d.jobHosts {
		d.ofJob = map[string]int{}
	}
	if d.groupHosts {
		d.ofGroup = map[string]int{}
	}
	return d
}

func (d *distinct) add(constraints []*api.Constraint, wide bool) {
	for _, c := range constraints {
		switch c.Operand {
		case api.ConstraintDistinctHosts:
			on, err := strconv.ParseBool(c.RTarget)
			if c.RTarget != "" && err == nil && !on {
				continue
			}
			d.jobHosts, d.groupHosts = d.jobHosts || wide, d.groupHosts || !wide
		case api.ConstraintDistinctProperty:
			limit, err := strconv.Atoi(c.RTarget)
			if err != nil || limit < 1 {
				limit = 1
			}
			d.properties = append(d.properties, &property{
				name: c.LTarget, target: feasible.ParseTarget(c.LTarget), wide: wide, limit: limit, used: map[string]int{},
			})
		}
	}
}

// count adds n allocations on the node; ours are those of the group itself.
func (d *distinct) count(node *api.Node, ours bool, n int) {
	if d.jobHosts {
		d.ofJob[node.ID] += n
	}
	if ours && d.groupHosts {
		d.ofGroup[node.ID] += n
	}
	for _, p := range d.properties {
		if v, ok := p.target.Value(node); ok && (ours || p.wide) {
			p.used[v] += n
		}
	}
}

func (d *distinct) refusal(node *api.Node) string {
	if d.jobHosts && d.ofJob[node.ID] > 0 || d.groupHosts && d.ofGroup[node.ID] > 0 {
		return "distinct_hosts"
	}
	for _, p := range d.properties {
		v, ok := p.target.Value(node)
		if !ok {
			return fmt.Sprintf("distinct_property: missing property %q", p.name)
		}
		if p.used[v] >= p.limit {
			return fmt.Sprintf("distinct_property: %s=%s used by %d allocs", p.name, v, p.used[v])
		}
	}
	return ""
}

// violatesDistinct reports whether a distinct constraint forbids the allocation on its node. Of conflicting allocations
// those with the lowest name indexes stay.
func (r *run) violatesDistinct(g *api.TaskGroup, a *api.Allocation) bool {
	near, known := r.tooNear[g.Name]
	if !known {
		if r.tooNear == nil {
			r.tooNear = map[string]map[string]bool{}
		}
		near = r.distinctViolations(newDistinct(r.job, g), g.Name)
		r.tooNear[g.Name] = near
	}
	return near[a.ID]
}

// distinctViolations returns the allocations of the group that violate distinct constraints.
func (r *run) distinctViolations(d *distinct, group string) map[string]bool {
	if !d.jobHosts && !d.groupHosts && len(d.properties) == 0 {
		return nil
	}
	var all []*api.Allocation
	for _, allocs := range r.allocs {
		for _, a := range allocs {
			n := r.node(a.NodeID)
			if stays := !a.Terminal() && !a.DesiredTransition.Migrate; stays && n != nil && n.Status == api.NodeStatusReady {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b *api.Allocation) int {
		return cmp.Or(reconcile.Index(a.Name)-reconcile.Index(b.Name), cmp.Compare(a.ID, b.ID))
	})
	near := map[string]bool{}
	for _, a := range all {
		ours, node := a.TaskGroup == group, r.node(a.NodeID)
		if ours && d.refusal(node) != "" {
			near[a.ID] = true
			continue
		}
		d.count(node, ours, 1)
	}
	return near
}
