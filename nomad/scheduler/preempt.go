package scheduler

import (
	"cmp"
	"math"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/scheduler/fleet"
	"github.com/open-nomad/open-nomad/nomad/scheduler/rank"
)

// priorityGap is how much lower the priority of a job must be to give way.
const priorityGap = 10

// manyMoves is what it costs to take one allocation more from a group than its migrate block allows.
const manyMoves = 50.0

// mayPreempt reports whether jobs of this kind may evict others.
func (r *run) mayPreempt() bool {
	c := r.in.View.SchedulerConfig().PreemptionConfig
	switch r.kind() {
	case api.JobTypeSystem:
		return c.SystemSchedulerEnabled
	case api.JobTypeSysbatch:
		return c.SysBatchSchedulerEnabled
	case api.JobTypeBatch:
		return c.BatchSchedulerEnabled
	}
	return c.ServiceSchedulerEnabled
}

// preempt frees capacity for the allocation on some node by evicting work of lower priority, and places it there.
// Nodes are ranked by an estimate of who would have to go; on the best one it is found out exactly.
func (p *placer) preempt(a *api.Allocation, ask *feasible.VolumeAsk) bool {
	if !p.run.mayPreempt() {
		return false
	}
	if p.evictable == nil {
		p.evictable = rank.NewBoard(p.run.edit.Size())
		for i := range p.fit {
			p.weigh(i)
		}
	}
	for {
		best, ok := p.evictable.Best(p.spreads.Boost, nil)
		if !ok {
			return false
		}
		now := p.occasion(best, nil)
		if p.preemptOn(a, best.Node, ask) {
			p.explain(a, best, now)
			return true
		}
		p.evictable.Drop(best.Node)
	}
}

// weigh ranks the node by what would be evicted there, or drops it when that is not enough.
func (p *placer) weigh(i int) {
	if !p.fit[i].ok() {
		return
	}
	p.evictable.Drop(i)
	row := p.run.edit.Row(i)
	net, enough := netPriority(row, p.ask, p.run.job.Priority)
	if !enough {
		return
	}
	c := p.candidate(i, row)
	c.Sum, c.Parts = c.Sum+rank.Preemption(net), c.Parts+1
	p.evictable.Put(c)
}

// netPriority estimates how much is lost when capacity for the ask is freed on the node: the highest priority
// among those that go, and the sum of all divided by it. It answers false when not enough can go.
func netPriority(row *fleet.Row, ask fleet.Amount, priority int) (float64, bool) {
	missing := row.Used.Add(ask).Sub(row.Total)
	highest, sum := 0.0, 0.0
	for _, s := range row.Shares() {
		if s.Priority > priority-priorityGap {
			break
		}
		share := min(1, max(part(missing.CPU, s.CPU), part(missing.MemoryMB, s.MemoryMB), part(missing.DiskMB, s.DiskMB)))
		if n := math.Ceil(share * float64(s.Count)); n > 0 {
			highest = float64(s.Priority)
			sum += n * highest
		}
		missing = missing.Sub(fleet.Amount{
			CPU: int64(share * float64(s.CPU)), MemoryMB: int64(share * float64(s.MemoryMB)), DiskMB: int64(share * float64(s.DiskMB)),
		})
		if share < 1 {
			missing = fleet.Amount{}
			break
		}
	}
	if missing.CPU > 0 || missing.MemoryMB > 0 || missing.DiskMB > 0 {
		return 0, false
	}
	return highest + sum/max(highest, 1), true
}

// part is which share of what is used is missing.
func part(missing, used int64) float64 {
	if missing <= 0 {
		return 0
	}
	return float64(missing) / float64(max(used, 1))
}

// victim is an allocation that may be evicted.
type victim struct {
	alloc *api.Allocation
	load  fleet.Load
}

func (v victim) group() string {
	return v.alloc.Namespace + "\x00" + v.alloc.JobID + "\x00" + v.alloc.TaskGroup
}

// preemptOn evicts as little as possible from the node so that the allocation fits, and places it there.
func (p *placer) preemptOn(a *api.Allocation, i int, ask *feasible.VolumeAsk) bool {
	node := p.run.edit.Row(i).Node
	if !p.run.mayPreempt() || ask != nil && ask.Refusal(node) != "" {
		return false
	}
	left := p.victims(i)
	var gone []victim
	moved := map[string]int{}
	giveBack := func() {
		for _, v := range gone {
			p.run.edit.Add(i, v.alloc.ID, v.load)
		}
		p.touch(i)
	}
	for {
		reason, full := p.refusal(p.run.edit.Row(i))
		if reason == "" {
			if _, ok := p.assign(p.run.edit.Row(i)); ok {
				break
			}
		} else if !full {
			giveBack()
			return false
		}
		next := p.next(i, left, moved)
		if next < 0 {
			giveBack()
			return false
		}
		v := left[next]
		left = slices.Delete(left, next, next+1)
		gone = append(gone, v)
		moved[v.group()]++
		p.run.edit.Remove(i, v.alloc.ID)
	}
	gone = p.spare(i, gone)
	if !p.take(a, i, ask) {
		giveBack()
		return false
	}
	for _, v := range gone {
		p.run.evict(v.alloc, a)
		a.PreemptedAllocations = append(a.PreemptedAllocations, v.alloc.ID)
	}
	p.run.annotate(p.group.Name, gone)
	return true
}

// victims are the allocations of the node that may be evicted, lowest priority first.
func (p *placer) victims(i int) []victim {
	var all []victim
	for id, l := range p.run.edit.Row(i).Loads() {
		if l.Priority > p.run.job.Priority-priorityGap {
			continue
		}
		a := p.run.in.View.Alloc(id)
		if a == nil || a.ServerTerminal() || a.JobID == p.run.job.ID && a.Namespace == p.run.job.Namespace {
			continue
		}
		if feasible.Holds(p.run.in.View, p.run.edit.Row(i).Node, a.Group()) { // who comes would keep it away, and volumes there
			continue
		}
		all = append(all, victim{a, l})
	}
	slices.SortFunc(all, func(x, y victim) int {
		return cmp.Or(x.load.Priority-y.load.Priority, cmp.Compare(x.alloc.ID, y.alloc.ID))
	})
	return all
}

// next is who goes next, or -1: among those of the lowest priority the one that comes closest to what is
// missing; where a port, cores or devices are missing, one that has such.
func (p *placer) next(i int, left []victim, moved map[string]int) int {
	row := p.run.edit.Row(i)
	missing := row.Used.Add(p.ask).Sub(row.Total)
	best, least := -1, math.Inf(1)
	for n, v := range left {
		if best >= 0 && v.load.Priority > left[best].load.Priority {
			break
		}
		if missing == missing.Min(fleet.Amount{}) && !p.blocks(row, v.load) {
			continue
		}
		if d := distance(missing, v.load.Amount) + p.run.strain(v, moved); d < least {
			best, least = n, d
		}
	}
	return best
}

// blocks reports whether the load has something that only one can have and that the group needs. Where capacity
// is missing for another reason everybody blocks.
func (p *placer) blocks(row *fleet.Row, l fleet.Load) bool {
	x := l.Exclusive
	if limit := row.Node.NodeMaxAllocs; limit > 0 && row.Count() >= limit {
		return true
	}
	if x == nil {
		return false
	}
	for _, held := range x.Ports {
		for n := range p.ports.static {
			if held.Port == p.ports.static[n].Value {
				return true
			}
		}
	}
	dynamic := len(p.ports.dynamic) > 0 && len(x.Ports) > 0 && p.ports.refusal(row) == noDynamicPort
	return dynamic || p.special != nil && len(x.Cores)+len(x.Devices) > 0
}

// distance is how far the amount is from what is missing, 0 for the same.
func distance(missing, amount fleet.Amount) float64 {
	sum := 0.0
	for _, d := range [][2]int64{{missing.CPU, amount.CPU}, {missing.MemoryMB, amount.MemoryMB}, {missing.DiskMB, amount.DiskMB}} {
		if d[0] > 0 {
			x := float64(d[0]-d[1]) / float64(d[0])
			sum += x * x
		}
	}
	return math.Sqrt(sum)
}

// strain is the penalty for taking more of a group at once than its migrate block allows.
func (r *run) strain(v victim, moved map[string]int) float64 {
	g := v.alloc.Group()
	if g == nil || g.Migrate == nil {
		return 0
	}
	if n := r.evicted[v.group()] + moved[v.group()]; n >= g.Migrate.MaxParallel {
		return manyMoves * float64(n+1-g.Migrate.MaxParallel)
	}
	return 0
}

// spare lets those stay after all without whom there is capacity as well; those of the highest priority first.
func (p *placer) spare(i int, gone []victim) []victim {
	slices.SortStableFunc(gone, func(x, y victim) int { return y.load.Priority - x.load.Priority })
	return slices.DeleteFunc(gone, func(v victim) bool {
		p.run.edit.Add(i, v.alloc.ID, v.load)
		if reason, _ := p.refusal(p.run.edit.Row(i)); reason == "" {
			if _, ok := p.assign(p.run.edit.Row(i)); ok {
				return true
			}
		}
		p.run.edit.Remove(i, v.alloc.ID)
		return false
	})
}

// evict adds the eviction of a victim, whose place is free in the overlay already, to the plan.
func (r *run) evict(a, by *api.Allocation) {
	evicted := *a
	evicted.Job = nil
	evicted.DesiredStatus, evicted.PreemptedByAllocation = api.AllocDesiredStatusEvict, by.ID
	evicted.DesiredDescription = "Preempted by alloc ID " + by.ID
	nodes := r.out.Plan.NodePreemptions
	if nodes == nil {
		nodes = map[string][]*api.Allocation{}
		r.out.Plan.NodePreemptions = nodes
	}
	nodes[a.NodeID] = append(nodes[a.NodeID], &evicted)
	r.gone[a.ID] = true
	if r.evicted == nil {
		r.evicted = map[string]int{}
	}
	r.evicted[victim{alloc: a}.group()]++
}

// annotate tells who reads the plan what it evicts.
func (r *run) annotate(group string, gone []victim) {
	notes := r.out.Plan.Annotations
	if d := notes.DesiredTGUpdates[group]; d != nil {
		d.Preemptions += uint64(len(gone))
	}
	for _, v := range gone {
		notes.PreemptedAllocs = append(notes.PreemptedAllocs, row.Of(v.alloc))
	}
}
