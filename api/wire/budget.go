package wire

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/api/fault"
)

// limits bound what the requests of clients take of a server's memory while they are read and served, and their answers
// while they are sent.
type limits struct {
	// short is how many bytes the requests up to smallBytes of one client address may have together, long those above,
	// whole those above of all addresses.
	short, long, whole int64
	// answers is how many bytes of answers above smallBytes one address may have that it has not taken.
	answers int64
	// waiting is how many requests of one address may wait for room; others are refused at once.
	waiting int
	// patience is how long one waits, stall how long the client may take for each portionBytes of it, and of an answer.
	patience, stall time.Duration
}

var usualLimits = limits{
	short: 64 << 20, long: 4 * MaxMessageBytes, whole: 8 * MaxMessageBytes, answers: 4 * MaxMessageBytes,
	waiting:  256,
	patience: 10 * time.Second, stall: 30 * time.Second,
}

// budget is what is left of the limits.
type budget struct {
	limits
	whole *semaphore.Weighted
	mu    sync.Mutex
	by    map[string]*share
}

// share is what is left to a client address; waiting and users are guarded by the mutex of its budget.
type share struct {
	short, long, answers *semaphore.Weighted
	waiting, users       int
}

func newBudget(l limits) *budget {
	return &budget{limits: l, whole: semaphore.NewWeighted(l.whole), by: map[string]*share{}}
}

// take makes room for a request of a client address, until give is called. It waits for as long as others of the address,
// or of all, have it. Short requests wait neither for long ones nor for those of other addresses.
func (b *budget) take(ctx context.Context, address string, bytes int) (give func(), err error) {
	n, s := int64(bytes), b.enter(address)
	if n <= smallBytes {
		if err := b.acquire(ctx, s, s.short, n); err != nil {
			b.leave(address, s)
			return nil, err
		}
		return func() { s.short.Release(n); b.leave(address, s) }, nil
	}
	if err := b.acquire(ctx, s, s.long, n); err != nil {
		b.leave(address, s)
		return nil, err
	}
	if err := b.acquire(ctx, s, b.whole, n); err != nil {
		s.long.Release(n)
		b.leave(address, s)
		return nil, err
	}
	return func() { b.whole.Release(n); s.long.Release(n); b.leave(address, s) }, nil
}

// hold makes room for an answer, like take. The answers of an address are in nobody else's way.
func (b *budget) hold(ctx context.Context, address string, bytes int) (give func(), err error) {
	n := int64(bytes)
	if n <= smallBytes {
		return func() {}, nil
	}
	s := b.enter(address)
	if err := b.acquire(ctx, s, s.answers, n); err != nil {
		b.leave(address, s)
		return nil, err
	}
	return func() { s.answers.Release(n); b.leave(address, s) }, nil
}

func (b *budget) enter(address string) *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.by[address]
	if s == nil {
		s = &share{short: semaphore.NewWeighted(b.limits.short), long: semaphore.NewWeighted(b.long), answers: semaphore.NewWeighted(b.limits.answers)}
		b.by[address] = s
	}
	s.users++
	return s
}

func (b *budget) leave(address string, s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(b.by, address)
	}
}

func (b *budget) acquire(ctx context.Context, s *share, of *semaphore.Weighted, n int64) error {
	if of.TryAcquire(n) {
		return nil
	}
	if !b.wait(s, 1) {
		return fault.New(fault.Exhausted, "too many requests of this address wait until others of it are served")
	}
	defer b.wait(s, -1)
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	if err := of.Acquire(ctx, n); err != nil {
		what := "a request of %d bytes beside those of this address that are under way"
		switch of {
		case b.whole:
			what = "a request of %d bytes beside those of all clients that are under way"
		case s.answers:
			what = "an answer of %d bytes beside those that this address has not taken"
		}
		return fault.New(fault.Exhausted, "no room for "+what+": %w", n, err)
	}
	return nil
}

// wait counts who waits; it reports false when one more is too many.
func (b *budget) wait(s *share, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.waiting+n > b.waiting {
		return false
	}
	s.waiting += n
	return true
}
