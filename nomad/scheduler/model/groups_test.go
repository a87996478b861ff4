package model_test

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// counted checks a group of which count are wanted and which changes all at once.
func (p *part) counted() error {
	over, ambiguous := p.over()
	kept, err := p.shrunk(len(over))
	if err != nil {
		return err
	}
	taken := map[int]bool{}
	for _, a := range over {
		taken[index(a)] = true
	}
	again := map[int]bool{} // names that may come back
	for _, a := range p.gone {
		again[index(a)] = true
	}
	need := p.count - len(over) - len(kept)
	for _, a := range kept {
		changed := p.changed(a)
		if row := p.after.Alloc(a.ID); p.near(a) { // one of those that are too near to each other may stay
			changed = changed || !lives(row) || row.Job.Version != p.job.Version
		}
		switch {
		case !p.lives(a) && (p.wentBack() || p.gaveWay(a)): // the version in between may have wanted fewer
			need++
			again[index(a)] = true
			continue
		case !p.lives(a) && !changed:
			return fmt.Errorf("%s was stopped for no reason", show(p.after.Alloc(a.ID)))
		case !p.lives(a) && !p.followed(a) && !p.canaried && index(a) < p.count: // else a lower name takes its place
			return fmt.Errorf("%s was stopped and has no successor", show(a))
		case !p.lives(a):
			need++
			again[index(a)] = true
			continue
		case changed:
			if n := place(p.after, p.job, p.name, p.after.Alloc(a.ID)); n != nil {
				return fmt.Errorf("%s is not replaced, although there is capacity on %s", show(a), n.ID)
			}
			p.short++
		case p.after.Alloc(a.ID).Job.Version != p.job.Version:
			return fmt.Errorf("%s stays of its version, which is %d now", show(a), p.job.Version)
		}
		taken[index(a)] = true
	}
	if err := p.named(taken, again, need); err != nil {
		return err
	}
	missing := need - len(p.fresh)
	switch {
	case missing < 0:
		return fmt.Errorf("%d came, %d were missing", len(p.fresh), need)
	case missing == 0 || missing <= ambiguous:
		return p.apart()
	}
	p.short += missing
	if n := place(p.after, p.job, p.name, nil); n != nil {
		return fmt.Errorf("%d are missing, although there is capacity on %s", missing, n.ID)
	}
	return p.apart()
}

// over are the allocations that count although they do not live: batch work that is done in this version, and what
// failed in it and is out of attempts. Of those that are ambiguous it is open whether they are.
func (p *part) over() (list []*api.Allocation, ambiguous int) {
	for a := range p.after.AllocsByJob("default", p.id) {
		if a.TaskGroup != p.name || p.job.Type != api.JobTypeBatch || a.DesiredStatus != api.AllocDesiredStatusRun ||
			a.Job.Version != p.job.Version || a.Job.CreateIndex != p.job.CreateIndex {
			continue
		}
		switch {
		case a.ClientStatus == api.AllocClientStatusComplete && !endedAlone(a):
			list = append(list, a)
		case broke(a) && a.NextAllocation == "":
			switch direct, all := p.failures(a); {
			case direct >= 1: // a batch job has one more attempt
				list = append(list, a)
			case all >= 1:
				list = append(list, a)
				ambiguous++
			}
		}
	}
	return list, ambiguous
}

// endedAlone reports whether the node ended the allocation because it heard no server: its work is not done.
func endedAlone(a *api.Allocation) bool {
	d := a.Job.Group(a.TaskGroup).Disconnect
	s := a.TaskStates["t"]
	return d != nil && d.StopOnClientAfter > 0 && a.ClientStatus == api.AllocClientStatusComplete && s != nil &&
		slices.ContainsFunc(s.Events, func(e *api.TaskEvent) bool { return e.Type == api.EventKilling })
}

// broke reports whether the allocation is followed by the rules for failures.
func broke(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusFailed || endedAlone(a)
}

// failures counts the failed predecessors of an allocation: those that it follows directly, one after the other,
// and all.
func (p *part) failures(a *api.Allocation) (direct, all int) {
	unbroken := true
	for prev := p.after.Alloc(a.PreviousAllocation); prev != nil; prev = p.after.Alloc(prev.PreviousAllocation) {
		failed := broke(prev) && prev.Job.Version == a.Job.Version
		unbroken = unbroken && failed
		if unbroken {
			direct++
		}
		if broke(prev) {
			all++
		}
	}
	return direct, all
}

func (p *part) lives(a *api.Allocation) bool { return lives(p.after.Alloc(a.ID)) }

// near reports whether the allocation is too near to another one that was there.
func (p *part) near(a *api.Allocation) bool {
	evicted := func(b *api.Allocation) bool { // it was there when the group was looked at, perhaps
		row := p.after.Alloc(b.ID)
		return row != nil && row.DesiredStatus == api.AllocDesiredStatusEvict
	}
	for _, b := range slices.Concat(p.stay, p.gone) {
		if a != b && (slices.Contains(p.stay, b) || evicted(b)) && crowds(p.after, p.job, p.name, p.after.Node(a.NodeID), b) {
			return true
		}
	}
	return false
}

// gaveWay reports whether one of a lower name was evicted in the step: when this one was stopped as beyond the count,
// that one may still have been there.
func (p *part) gaveWay(a *api.Allocation) bool {
	return slices.ContainsFunc(p.gone, func(b *api.Allocation) bool {
		row := p.after.Alloc(b.ID)
		return index(b) < index(a) && index(a) >= p.count && row != nil && row.DesiredStatus == api.AllocDesiredStatusEvict
	})
}

// wentBack reports whether a version of the job failed in the step: part of the group may have been of it.
func (p *part) wentBack() bool {
	for d := range p.after.DeploymentsByJob("default", p.id) {
		was := p.before.Deployment(d.ID)
		if d.Status == api.DeploymentStatusFailed && (was == nil || was.Status != api.DeploymentStatusFailed) {
			return true
		}
	}
	return false
}

// followed reports whether there is a successor, whatever became of it, or a canary of the name.
func (p *part) followed(a *api.Allocation) bool {
	for _, b := range p.now {
		if b.Name == a.Name {
			return true
		}
	}
	return p.linked(a)
}

// linked reports whether the allocation has a successor, whatever became of that.
func (p *part) linked(a *api.Allocation) bool {
	next := p.after.Alloc(p.after.Alloc(a.ID).NextAllocation)
	return next != nil && next.PreviousAllocation == a.ID && next.Name == a.Name
}

// shrunk takes those away that are beyond the count: those whose name a promoted canary has, then the highest names,
// and checks that they are stopped.
func (p *part) shrunk(over int) ([]*api.Allocation, error) {
	newest := map[string]uint64{}
	for _, a := range p.stay {
		newest[a.Name] = max(newest[a.Name], a.Job.Version)
	}
	rank := func(a *api.Allocation) int {
		if a.Job.Version < newest[a.Name] {
			return 1 << 20
		}
		return index(a)
	}
	kept := slices.Clone(p.stay)
	slices.SortFunc(kept, func(a, b *api.Allocation) int { return rank(a) - rank(b) })
	for surplus := len(kept) + over - p.count; surplus > 0; surplus-- {
		last := kept[len(kept)-1]
		if p.lives(last) {
			return nil, fmt.Errorf("%s is beyond the count of %d and not stopped", show(last), p.count)
		}
		kept = kept[:len(kept)-1]
	}
	return kept, nil
}

// named checks the names of those that came: they follow those that had to go, or are the lowest that are free.
func (p *part) named(taken, again map[int]bool, need int) error {
	free := map[int]bool{}
	for i := 0; len(free) < need; i++ {
		if !taken[i] {
			free[i] = true
		}
	}
	for _, a := range p.fresh {
		i := index(a)
		if taken[i] {
			return fmt.Errorf("two have the name %s", a.Name)
		}
		prev := p.after.Alloc(a.PreviousAllocation) // which may have waited for capacity for some steps
		follows := prev != nil && prev.Name == a.Name && !lives(prev)
		if !free[i] && !again[i] && !follows && !p.canaried {
			return fmt.Errorf("%s came, free are %v", show(a), free)
		}
		taken[i] = true
		if a.Job.Version != p.job.Version {
			return fmt.Errorf("%s came, wanted is version %d", show(a), p.job.Version)
		}
	}
	return nil
}

// apart checks that those that live keep the group's distance.
func (p *part) apart() error {
	for i, a := range p.now {
		for _, b := range p.now[:i] {
			current := a.Job.Version == p.job.Version && b.Job.Version == p.job.Version
			if current && crowds(p.after, p.job, p.name, p.after.Node(a.NodeID), b) {
				return fmt.Errorf("%s and %s are too near", show(a), show(b))
			}
		}
	}
	return nil
}

// everywhere checks a system or sysbatch group: one on every node that is for it.
func (p *part) everywhere() error {
	for n := range p.after.Nodes() {
		if err := p.on(n); err != nil {
			return fmt.Errorf("node %s: %w", n.ID, err)
		}
	}
	return nil
}

func (p *part) on(n *api.Node) error {
	here := func(list []*api.Allocation) (out []*api.Allocation) {
		for _, a := range list {
			if a.NodeID == n.ID {
				out = append(out, a)
			}
		}
		return out
	}
	stay, now, fresh := here(p.stay), here(p.now), here(p.fresh)
	if len(now) > 1 {
		return fmt.Errorf("%s and %s", show(now[0]), show(now[1]))
	}
	var old *api.Allocation
	if len(stay) > 0 {
		old = stay[0]
	}
	switch {
	case old != nil && !suits(n, p.job, p.name), old != nil && !takesNew(n) && p.changed(old):
		was := p.before.Job("default", p.id)
		if p.lives(old) && !p.closed[n.ID] && (was == nil || was.Version != p.job.Version) { // else what changed was the node: nobody looks again
			return fmt.Errorf("%s has no place there any more", show(old))
		}
		return nil
	case old != nil && !p.changed(old):
		if row := p.after.Alloc(old.ID); !lives(row) || row.Job.Version != p.job.Version {
			return fmt.Errorf("%s became %s, wanted is version %d", show(old), show(row), p.job.Version)
		}
		return nil
	case !takesNew(n) || !suits(n, p.job, p.name) || old == nil && p.done(n):
		return nil // nothing may come, which sort checks, or need come
	case len(fresh) == 1:
		if fresh[0].Job.Version != p.job.Version {
			return fmt.Errorf("%s came, wanted is version %d", show(fresh[0]), p.job.Version)
		}
		if old != nil && p.lives(old) {
			return fmt.Errorf("%s and %s", show(old), show(fresh[0]))
		}
		return nil
	case old != nil && !p.lives(old) && !p.linked(old):
		return fmt.Errorf("%s was stopped and has no successor", show(old))
	case fits(p.after, p.job, p.name, n, old):
		return fmt.Errorf("there is none, although there is capacity")
	}
	p.short++
	return nil
}

// done reports whether the newest work that a sysbatch job finished on the node is what it asks for.
func (p *part) done(n *api.Node) bool {
	if p.job.Type != api.JobTypeSysbatch {
		return false
	}
	var newest *api.Allocation
	for a := range p.after.AllocsByNode(n.ID) {
		finished := a.JobID == p.id && a.TaskGroup == p.name && a.DesiredStatus == api.AllocDesiredStatusRun && a.ClientStatus == api.AllocClientStatusComplete && !endedAlone(a)
		if finished && a.Job.CreateIndex == p.job.CreateIndex && (newest == nil || a.CreateIndex > newest.CreateIndex) {
			newest = a
		}
	}
	return newest != nil && workOf(newest.Job, p.name) == workOf(p.job, p.name)
}
