package state

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Change is one changed row: Before is nil for a new row, After for a deleted one. Both are
// pointers to api records and read-only.
type Change struct {
	Table         string
	Before, After any
}

// Batch is what one or more commits changed. With Resync the reader must read everything again.
type Batch struct {
	Index   uint64
	Resync  bool
	Changes []Change
}

// feedMax is how many changes a feed holds for a slow reader before it asks for a resync.
const feedMax = 16_384

type feeds struct {
	mu  sync.Mutex
	all map[*Feed]struct{}
}

// Feed delivers changes of some tables in order.
type Feed struct {
	owner  *feeds
	tables map[string]struct{}
	wake   chan struct{}

	mu      sync.Mutex
	pending Batch
	closed  bool
}

// Feed follows the tables, or all when none is named. The first batch asks for a resync.
func (s *Store) Feed(names ...string) *Feed {
	f := &Feed{owner: &s.feeds, wake: make(chan struct{}, 1), pending: Batch{Resync: true}}
	if len(names) > 0 {
		f.tables = map[string]struct{}{}
		for _, n := range names {
			f.tables[n] = struct{}{}
		}
	}
	f.wake <- struct{}{}
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if s.feeds.all == nil {
		s.feeds.all = map[*Feed]struct{}{}
	}
	s.feeds.all[f] = struct{}{}
	return f
}

func (fs *feeds) publish(b Batch) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.all {
		f.add(b)
	}
}

func (f *Feed) add(b Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := f.wanted(b.Changes)
	if len(wanted) == 0 && !b.Resync {
		return
	}
	if len(f.pending.Changes) == 0 {
		f.pending.Changes = wanted
	} else {
		f.pending.Changes = append(f.pending.Changes, wanted...)
	}
	f.pending.Index = b.Index
	if b.Resync || f.pending.Resync || len(f.pending.Changes) > feedMax {
		f.pending.Resync, f.pending.Changes = true, nil
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// wanted are the changes of the feed's tables: the list itself, which others have too, when it is all of them.
func (f *Feed) wanted(all []Change) []Change {
	skip := func(c Change) bool {
		_, want := f.tables[c.Table]
		return !want && f.tables != nil
	}
	at := slices.IndexFunc(all, skip)
	if at < 0 {
		return slices.Clip(all)
	}
	wanted := slices.Clip(all[:at])
	for _, c := range all[at:] {
		if !skip(c) {
			wanted = append(wanted, c)
		}
	}
	return wanted
}

// Next waits for changes. It fails when ctx ends or the feed is closed.
func (f *Feed) Next(ctx context.Context) (Batch, error) {
	for {
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-f.wake:
		}
		f.mu.Lock()
		b, closed := f.pending, f.closed
		f.pending = Batch{}
		f.mu.Unlock()
		if closed {
			return Batch{}, fault.New(fault.Unavailable, "change feed is closed")
		}
		if b.Resync || len(b.Changes) > 0 {
			return b, nil
		}
	}
}

// NextBefore waits for changes or for the time, whichever comes first: then without changes. The zero time never comes.
func (f *Feed) NextBefore(ctx context.Context, at time.Time) (Batch, error) {
	if at.IsZero() {
		return f.Next(ctx)
	}
	bounded, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	b, err := f.Next(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return Batch{}, nil
	}
	return b, err
}

// Close ends the feed.
func (f *Feed) Close() {
	f.owner.mu.Lock()
	delete(f.owner.all, f)
	f.owner.mu.Unlock()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
