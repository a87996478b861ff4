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

// priorityGap is how much lower the priority of an evicted job must be.
const priorityGap = 10

// movePenalty is the cost of each eviction from a group beyond its migrate.max_parallel.
const movePenalty = 50.0

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

// preempt evicts work of lower priority from some node and places the allocation there. Nodes are ranked by an estimate;
// the victims are determined exactly on the best node.
func (p *placer) preempt(a *api.Allocation, ask *feasible.VolumeAsk) bool {
	if !p.run.mayPreempt() {
		return false
	}
	if p.evictionQueue == nil {
		p.evictionQueue = rank.NewQueue(p.run.edit.Size())
		for i := range p.ranks {
			p.scoreEviction(i)
		}
	}
	for {
		best, ok := p.evictionQueue.Best(p.spreads.Boost, nil)
		if !ok {
			return false
		}
		now := p.placementScoreOf(best, nil)
		if p.preemptOn(a, best.Node, ask) {
			p.explain(a, best, now)
			return true
		}
		p.evictionQueue.Drop(best.Node)
	}
}

// scoreEviction ranks the node by the estimated evictions, or removes it when they would not free enough.
func (p *placer) scoreEviction(i int) {
	if !p.ranks[i].ok() {
		return
	}
	p.evictionQueue.Drop(i)
	row := p.run.edit.Row(i)
	net, enough := netPriority(row, p.ask, p.run.job.Priority)
	if !enough {
		return
	}
	c := p.candidate(i, row)
	c.Sum, c.Parts = c.Sum+rank.Preemption(net), c.Parts+1
	p.evictionQueue.Put(c)
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
		share := min(1, max(shareOf(missing.CPU, s.CPU), shareOf(missing.MemoryMB, s.MemoryMB), shareOf(missing.DiskMB, s.DiskMB)))
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

// shareOf returns the missing amount as a share of the used amount.
func shareOf(missing, used int64) float64 {
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
	if !p.run.mayPreempt() || p.quotaRefusal() != "" || ask != nil && ask.Refusal(node) != "" {
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
		next := p.nextVictim(i, left, moved)
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
	gone = p.keepVictims(i, gone)
	if !p.take(a, i, ask) {
		giveBack()
		return false
	}
	for _, v := range gone {
		p.run.evict(v.alloc, a)
		a.PreemptedAllocations = append(a.PreemptedAllocations, v.alloc.ID)
	}
	p.run.annotatePreemptions(p.group.Name, gone)
	return true
}

// victims returns the allocations of the node that may be evicted, lowest priority first.
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
		if feasible.HasPluginVolumes(p.run.in.View, p.run.edit.Row(i).Node, a.Group()) { // its eviction would strand volumes on the node
			continue
		}
		all = append(all, victim{a, l})
	}
	slices.SortFunc(all, func(x, y victim) int {
		return cmp.Or(x.load.Priority-y.load.Priority, cmp.Compare(x.alloc.ID, y.alloc.ID))
	})
	return all
}

// nextVictim returns the index of the next victim, or -1: the lowest priority first, then the closest to the missing
// amount. Where a port, cores or devices are missing, only allocations that hold some qualify.
func (p *placer) nextVictim(i int, left []victim, moved map[string]int) int {
	row := p.run.edit.Row(i)
	missing := row.Used.Add(p.ask).Sub(row.Total)
	best, least := -1, math.Inf(1)
	for n, v := range left {
		if best >= 0 && v.load.Priority > left[best].load.Priority {
			break
		}
		if missing == missing.Min(fleet.Amount{}) && !p.holdsWanted(row, v.load) {
			continue
		}
		if d := distance(missing, v.load.Amount) + p.run.migratePenalty(v, moved); d < least {
			best, least = n, d
		}
	}
	return best
}

// holdsWanted reports whether the load holds an exclusive resource that the group needs. At the node's limit of
// allocations every load qualifies.
func (p *placer) holdsWanted(row *fleet.Row, l fleet.Load) bool {
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
	return dynamic || p.exclusive != nil && len(x.Cores)+len(x.Devices) > 0
}

// distance returns how far the amount is from the missing one; 0 if equal.
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

// migratePenalty returns the penalty for evicting more of a group at once than its migrate block allows.
func (r *run) migratePenalty(v victim, moved map[string]int) float64 {
	g := v.alloc.Group()
	if g == nil || g.Migrate == nil {
		return 0
	}
	if n := r.evicted[v.group()] + moved[v.group()]; n >= g.Migrate.MaxParallel {
		return movePenalty * float64(n+1-g.Migrate.MaxParallel)
	}
	return 0
}

// keepVictims restores the victims whose eviction is not necessary, highest priority first, and returns the others.
func (p *placer) keepVictims(i int, gone []victim) []victim {
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

// evict adds the eviction of a victim to the plan. Its resources are already free in the fleet edit.
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

// annotatePreemptions adds the evictions to the annotations of the plan.
func (r *run) annotatePreemptions(group string, gone []victim) {
	notes := r.out.Plan.Annotations
	if d := notes.DesiredTGUpdates[group]; d != nil {
		d.Preemptions += uint64(len(gone))
	}
	for _, v := range gone {
		notes.PreemptedAllocs = append(notes.PreemptedAllocs, row.Of(v.alloc))
	}
}
