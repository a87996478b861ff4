package keyed

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Slots limit how much is done at once, for each key and in total. Waiters are served in order, and a key has at most its
// own number of them in the queue of all keys: one with many waiters does not delay the others.
type Slots struct {
	all  *semaphore.Weighted
	keys *Map[*semaphore.Weighted]
}

// NewSlots makes all slots, of which a key has at most each; both are at least one.
func NewSlots(each, all int) *Slots {
	return &Slots{
		all:  semaphore.NewWeighted(int64(max(all, 1))),
		keys: New(func() *semaphore.Weighted { return semaphore.NewWeighted(int64(max(each, 1))) }),
	}
}

// Acquire waits for a slot of the key until ctx ends. The slot is taken until release is called, which must happen once.
func (s *Slots) Acquire(ctx context.Context, key string) (release func(), err error) {
	own := s.keys.Enter(key)
	if err := own.Acquire(ctx, 1); err != nil {
		s.keys.Leave(key)
		return nil, err
	}
	if err := s.all.Acquire(ctx, 1); err != nil {
		own.Release(1)
		s.keys.Leave(key)
		return nil, err
	}
	return func() {
		s.all.Release(1)
		own.Release(1)
		s.keys.Leave(key)
	}, nil
}
