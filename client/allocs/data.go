package allocs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// eventDisk is the event of what becomes of the data of the previous allocation.
const eventDisk = "Ephemeral Disk"

// data moves the data of the previous allocation here when the ephemeral disk of the group is sticky. Each directory is
// moved by one rename and only to where nothing is yet, so a move that was interrupted is continued.
type data struct{ a *Alloc }

// Name implements [steps.Step].
func (data) Name() string { return "data" }

func (s data) Up(ctx context.Context, _ *Scope) error {
	a := s.a
	if a.settled.Load() {
		return nil
	}
	if a.wantsData() {
		if err := a.takeData(ctx); err != nil {
			return err
		}
	}
	a.settled.Store(true)
	return nil
}

func (data) Down(context.Context, *Scope) error { return nil }

// Predecessor is the allocation whose data this one waits for; empty when it does not. Its files must not be removed.
func (a *Alloc) Predecessor() string {
	if a.settled.Load() || !a.wantsData() {
		return ""
	}
	return a.Present().PreviousAllocation
}

// wantsData reports whether the allocation continues with the data of another one.
func (a *Alloc) wantsData() bool {
	p := a.Present()
	g := p.Group()
	return p.PreviousAllocation != "" && g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Sticky
}

// takeData moves the data of the predecessor here. A predecessor that ended before it got the data of its own predecessor
// has left it there.
func (a *Alloc) takeData(ctx context.Context) error {
	found := false
	for _, prev := range a.sources() {
		if err := a.awaitDown(ctx, prev); err != nil {
			return err
		}
		a.moving.build = func() error { return prev.give(a) }
		switch err := a.moving.untilDone(ctx, a.tellWaiting); {
		case err == nil:
			found = true
		case !errors.Is(err, fault.NotFound):
			return fmt.Errorf("move the data of allocation %s: %w", prev.id, err)
		}
	}
	if !found {
		a.tasks.Tell(a.taskNames(), eventDisk, fmt.Sprintf("The data of allocation %s is not on this node: the disk starts empty", a.Present().PreviousAllocation))
	}
	return nil
}

// sources are the allocations of this node whose data the allocation gets, the newest first.
func (a *Alloc) sources() (out []*Alloc) {
	if a.conf.Find == nil {
		return nil
	}
	seen := map[string]bool{a.id: true}
	for p := a.Present(); p.PreviousAllocation != "" && !seen[p.PreviousAllocation]; {
		prev := a.conf.Find(p.PreviousAllocation)
		if prev == nil {
			break
		}
		out, p = append(out, prev), prev.Present()
		seen[prev.id] = true
		if prev.settled.Load() || !prev.wantsData() {
			break
		}
	}
	return out
}

// awaitDown waits until another allocation uses nothing on the node any more, and reports a long wait.
func (a *Alloc) awaitDown(ctx context.Context, other *Alloc) error {
	slow := time.NewTimer(diskSilence)
	defer slow.Stop()
	for {
		select {
		case <-other.down:
			return nil
		case <-slow.C:
			a.tellWaiting(fmt.Sprintf("The end of allocation %s is waited for, whose data this one takes over", other.id))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give moves the data of an allocation that is down to its successor; an error of class fault.NotFound means that it has
// been removed.
func (a *Alloc) give(to *Alloc) error {
	a.removing <- struct{}{} // both work on the same disk
	defer func() { <-a.removing }()
	if a.removed {
		return fault.New(fault.NotFound, "the files of allocation %s are removed", a.id)
	}
	return to.dir.TakeData(a.dir, to.taskNames())
}
