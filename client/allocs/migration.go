package allocs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/diskpages"
	"github.com/open-nomad/open-nomad/internal/retry"
)

const (
	// patience is how long another node may send nothing before its data counts as lost.
	patience = time.Minute
	// dataHold is how long the files of an ended allocation are kept for another node after it asked for them.
	dataHold = time.Minute
	// copySilence is the time that one step of a copy may take before the disk is reported as unresponsive.
	copySilence = 30 * time.Second
	// copiesMax is how often a copy begins again because the data changed.
	copiesMax = 3
	// progressFirst is when a copy is reported first; each further report comes after twice the time.
	progressFirst           = 10 * time.Second
	pagePauseMin, pagePause = 100 * time.Millisecond, 2 * time.Second
)

// takeThere copies the data of an allocation of another node here; earlier is the allocation that has more of it. An error of
// class fault.NotFound means that there is no data to get, one of class fault.Exhausted that this node's disk is full: the
// allocation fails, and a replacement on another node can still get the data. Data that an earlier agent process has copied is
// not copied again.
func (a *Alloc) takeThere(ctx context.Context, from string) (earlier string, err error) {
	found := false
	a.moving.build = func() (err error) {
		complete, ok, err := a.dir.Complete()
		if err == nil && ok {
			err = a.dir.TakeData(complete, a.taskNames())
		}
		if found = ok; err == nil {
			err = a.dir.RemoveIncoming()
		}
		return err
	}
	if err := a.onDisk(ctx, from); err != nil || found {
		return "", err
	}
	for n := 1; ; n++ {
		earlier, err = a.copyData(ctx, from)
		if !errors.Is(err, diskpages.ErrChanged) || n == copiesMax {
			break
		}
		a.moving.build = a.dir.RemoveIncoming
		if err := a.onDisk(ctx, from); err != nil {
			return "", err
		}
	}
	if class := fault.Of(err); err == nil || ctx.Err() != nil || class == fault.Internal || class == fault.Exhausted {
		return earlier, err
	}
	a.moving.build = a.dir.RemoveIncoming
	if err := a.onDisk(ctx, from); err != nil {
		return "", err
	}
	return "", fault.New(fault.NotFound, "The data of allocation %s cannot be copied from its node: %v", from, err)
}

// onDisk runs the step that is set in moving, until the disk takes it.
func (a *Alloc) onDisk(ctx context.Context, from string) error {
	a.moving.silence = copySilence
	err := a.moving.untilDone(ctx, a.tellWaiting)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("copy the data of allocation %s: %w", from, err)
	}
	return err
}

// copyData copies all pages and puts the data in its place.
func (a *Alloc) copyData(ctx context.Context, from string) (earlier string, err error) {
	names := a.taskNames()
	w := diskpages.NewWriter(a.dir.Incoming().Dir(), names, a.Present().Group().EphemeralDisk.SizeMB)
	r := &api.DiskDataRequest{AllocID: a.id, From: from, Tasks: names}
	began, omitted, end := time.Now(), 0, false
	wait := newPageWait(a, from)
	report := progressFirst
	for !end {
		err := a.conf.Pages(ctx, r, func(page *api.DiskDataResponse) error {
			if len(page.Entries) == 0 && !page.End {
				return fault.New(fault.Invalid, "a page of the data of allocation %s has no entries", from)
			}
			wait.succeeded()
			a.moving.build = func() error { return w.Write(page) }
			if err := a.onDisk(ctx, from); err != nil {
				return &diskError{err}
			}
			r.Cursor = w.Next(page)
			omitted += page.Omitted
			end, earlier = page.End, page.Earlier
			return nil
		})
		var written *diskError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.As(err, &written):
			return "", written.error
		default:
			if err := wait.after(ctx, err); err != nil {
				return "", err
			}
		}
		if took := time.Since(began); took > report {
			report *= 2
			a.TellDisk("The data of allocation %s is being copied from its node: %s so far", from, amount(w.Copied()))
		}
	}
	complete := a.dir.Incoming()
	a.moving.build = func() error {
		err := w.Finish()
		if err == nil && earlier == "" { // else the rest of the data is to be copied by another process, too
			if err = a.dir.CompleteIncoming(); err == nil {
				complete, _, err = a.dir.Complete()
			}
		}
		return err
	}
	if err := a.onDisk(ctx, from); err != nil {
		return "", err
	}
	a.moving.build = func() error { return errors.Join(a.dir.TakeData(complete, names), a.dir.RemoveIncoming()) }
	if err := a.onDisk(ctx, from); err != nil {
		return "", err
	}
	left := ""
	if omitted > 0 {
		left = fmt.Sprintf("; %d entries are left out: devices, pipes, sockets, or links that lead outside", omitted)
	}
	a.TellDisk("The data of allocation %s is copied from its node: %s in %s%s", from, amount(w.Copied()), time.Since(began).Round(time.Millisecond), left)
	return earlier, nil
}

func amount(c diskpages.Copied) string {
	return fmt.Sprintf("%d entries, %.1f MB", c.Files, float64(c.Bytes)/(1<<20))
}

// diskError is an error of this node, not of the one that has the data.
type diskError struct{ error }

// pageWait waits between two attempts to get a page.
type pageWait struct {
	a      *Alloc
	from   string
	last   time.Time
	began  time.Time
	told   bool
	pauses *retry.Pace
}

func newPageWait(a *Alloc, from string) *pageWait {
	return &pageWait{a: a, from: from, last: time.Now(), began: time.Now(), pauses: retry.Between(pagePauseMin, pagePause)}
}

func (w *pageWait) succeeded() {
	w.last = time.Now()
	w.pauses.Reset()
}

// final are the errors after which there is no further attempt.
var final = []fault.Class{fault.NotFound, fault.Denied, fault.Invalid, fault.TooLarge, fault.Unimplemented}

// after waits after a failed attempt; it returns an error when there must be no further one. An allocation that is to stop is
// waited for until it has ended.
func (w *pageWait) after(ctx context.Context, err error) error {
	now := time.Now()
	switch {
	case errors.Is(err, fault.Conflict), errors.Is(err, fault.Unavailable), errors.Is(err, fault.NotLeader):
		w.last = now // an outage of the servers says nothing about the data
	case slices.Contains(final, fault.Of(err)):
		return err
	case now.Sub(w.last) > patience:
		return fault.New(fault.NotFound, "no data for %s: %v", patience, err)
	}
	if !w.told && now.Sub(w.began) > diskSilence {
		w.told = true
		w.a.tellWaiting(fmt.Sprintf("The data of allocation %s is waited for: %v", w.from, err))
	}
	if !w.pauses.Wait(ctx) {
		return ctx.Err()
	}
	return nil
}

// DiskData reads a page of the data for another node, where the allocation is replaced. An error of class fault.Conflict means that
// it has not ended yet, fault.NotFound that its files are removed.
func (a *Alloc) DiskData(ctx context.Context, r *api.DiskDataRequest) (*api.DiskDataResponse, error) {
	a.awaited.Store(time.Now().Add(dataHold).UnixNano())
	select {
	case <-a.ended:
	default:
		return nil, fault.New(fault.Conflict, "allocation %s has not ended", a.id)
	}
	if err := a.moving.ended(ctx); err != nil { // it may have been stopped while it got its own data
		return nil, err
	}
	select {
	case a.removing <- struct{}{}:
		defer func() { <-a.removing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.removed {
		return nil, fault.New(fault.NotFound, "the files of allocation %s are removed", a.id)
	}
	page, err := diskpages.Read(a.dir.Dir(), r.Tasks, r.Cursor)
	if err != nil {
		return nil, err
	}
	if page.End {
		page.Earlier = a.Predecessor()
	}
	return page, nil
}

// Awaited reports whether another node has asked for the data within the last minute: it may not have all of it.
func (a *Alloc) Awaited() bool { return time.Now().UnixNano() < a.awaited.Load() }

// MayBeAwaited reports whether another node may be about to ask for the data: the allocation was replaced, it ended at most a
// minute ago, and its disk migrates.
func (a *Alloc) MayBeAwaited(ended time.Time) bool {
	return a.Awaited() || a.migrates() && a.Present().ServerTerminal() && time.Since(ended) < dataHold
}
