package allocs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/steps"
)

// eventDisk is the event of what becomes of the data of the previous allocation.
const eventDisk = "Ephemeral Disk"

// settledMark is in the journal when the allocation has its data. That of the step does not show it once the step was taken down.
const settledMark = "settled"

// data gets the data of the previous allocation when the ephemeral disk of the group is sticky or migrates. Each directory is
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
		if err := a.conf.Journal.Mark(settledMark, steps.MarkUp); err != nil {
			return fmt.Errorf("record that the data is there: %w", err)
		}
	}
	a.settled.Store(true)
	return nil
}

// Down removes what a copy that was not finished has left. It is no failure when the disk does not take that: the collector
// removes all files of the allocation.
func (s data) Down(ctx context.Context, _ *Scope) error {
	a := s.a
	if a.settled.Load() || !a.wantsData() || !a.migrates() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, diskSilence)
	defer cancel()
	if a.moving.ended(ctx) != nil {
		return nil
	}
	a.moving.build = a.dir.RemoveIncoming
	select {
	case <-a.moving.begin():
	case <-ctx.Done():
	}
	return nil
}

// Predecessor is the allocation whose data this one waits for; empty when it does not. Its files must not be removed.
func (a *Alloc) Predecessor() string {
	if a.settled.Load() || !a.wantsData() {
		return ""
	}
	return a.Present().PreviousAllocation
}

// limit limits the allocation's directory to the size of its ephemeral disk, where the file system can do that. It comes after
// the data, which is never refused for its size: then nothing more can be written.
type limit struct{ a *Alloc }

// Name implements [steps.Step].
func (limit) Name() string { return "limit" }

func (s limit) Up(ctx context.Context, scope *Scope) error {
	g := scope.Alloc.Group()
	if g == nil || g.EphemeralDisk == nil || g.EphemeralDisk.SizeMB <= 0 {
		return nil
	}
	a := s.a
	a.moving.silence = diskSilence
	a.moving.build = func() error { return a.dir.Limit(int64(g.EphemeralDisk.SizeMB) << 20) }
	if err := a.moving.untilDone(ctx, a.tellWaiting); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		a.conf.Log.Warn("the size of the ephemeral disk is not enforced", "alloc_id", a.id, "error", err)
		a.TellDisk("Its size is not enforced: %v", err)
	}
	return nil
}

func (limit) Down(context.Context, *Scope) error { return nil }

// wantsData reports whether the allocation continues with the data of another one.
func (a *Alloc) wantsData() bool {
	p := a.Present()
	g := p.Group()
	return p.PreviousAllocation != "" && g != nil && g.EphemeralDisk != nil && (g.EphemeralDisk.Sticky || g.EphemeralDisk.Migrate)
}

// migrates reports whether the data may come from another node.
func (a *Alloc) migrates() bool {
	g := a.Present().Group()
	return a.conf.Pages != nil && g != nil && g.EphemeralDisk != nil && g.EphemeralDisk.Migrate
}

// chainMax is the number of predecessors that are asked for the data.
const chainMax = 16

// takeData gets the data of the predecessor. One that ended before it got the data of its own predecessor has left it there.
func (a *Alloc) takeData(ctx context.Context) error {
	found, why := false, error(nil)
	seen := map[string]bool{a.id: true}
	for id := a.Present().PreviousAllocation; id != "" && !seen[id] && len(seen) <= chainMax; {
		seen[id] = true
		var earlier string
		var err error
		switch prev := a.find(id); {
		case prev != nil:
			earlier, err = a.takeHere(ctx, prev)
		case a.migrates():
			earlier, err = a.takeThere(ctx, id)
		default:
			err = fault.New(fault.NotFound, "The data of allocation %s is not on this node", id)
		}
		switch {
		case err == nil:
			found = true
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, fault.NotFound):
			return err
		case why == nil:
			why = err
		}
		id = earlier
	}
	if !found && why != nil {
		a.TellDisk("%v: the disk starts empty", why)
	}
	return nil
}

// TellDisk records an event about the ephemeral disk in all tasks.
func (a *Alloc) TellDisk(format string, args ...any) {
	a.tasks.Tell(a.taskNames(), eventDisk, fmt.Sprintf(format, args...))
}

func (a *Alloc) find(id string) *Alloc {
	if a.conf.Find == nil {
		return nil
	}
	return a.conf.Find(id)
}

// takeHere moves the data of an allocation of this node here; earlier is the allocation that has more of it.
func (a *Alloc) takeHere(ctx context.Context, prev *Alloc) (earlier string, err error) {
	if err := a.awaitDown(ctx, prev); err != nil {
		return "", err
	}
	a.moving.build, a.moving.silence = func() error { return prev.give(a) }, diskSilence
	if err := a.moving.untilDone(ctx, a.tellWaiting); err != nil && !errors.Is(err, fault.NotFound) {
		return "", fmt.Errorf("move the data of allocation %s: %w", prev.id, err)
	} else if err != nil {
		return prev.Predecessor(), fault.New(fault.NotFound, "The data of allocation %s is removed", prev.id)
	}
	return prev.Predecessor(), nil
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
