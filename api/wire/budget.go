package wire

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/keyed"
)

// limits bound what the requests of clients take of a server's memory while they are read and served, and their answers
// while they are sent.
type limits struct {
	// short is how many bytes the requests up to smallBytes of one client address may have together, long those above,
	// whole those above of all addresses. No address has more of the whole than it leaves to others.
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
	by *keyed.Map[*share]
	mu sync.Mutex
	// free is what is left of the whole, freed is closed when that grows.
	free  int64
	freed chan struct{}
}

// share is what a client address has and may have; the mutex of its budget guards the numbers.
type share struct {
	short, answers *semaphore.Weighted
	long           int64
	waiting        int
}

func newBudget(l limits) *budget {
	first := func() *share {
		return &share{short: semaphore.NewWeighted(l.short), answers: semaphore.NewWeighted(l.answers)}
	}
	return &budget{limits: l, by: keyed.New(first), free: l.whole, freed: make(chan struct{})}
}

// take makes room for a request of a client address, until give is called. It waits for as long as others of the address,
// or of all, have it. Short requests wait neither for long ones nor for those of other addresses.
func (b *budget) take(ctx context.Context, address string, bytes int) (give func(), err error) {
	n, s := int64(bytes), b.by.Enter(address)
	if n <= smallBytes {
		if err := b.acquire(ctx, s, s.short, n, "a request"); err != nil {
			b.by.Leave(address)
			return nil, err
		}
		return func() { s.short.Release(n); b.by.Leave(address) }, nil
	}
	if _, why := b.share(s, n); why != "" {
		err = b.patient(ctx, s, func(ctx context.Context) error {
			for {
				freed, why := b.share(s, n)
				if why == "" {
					return nil
				}
				select {
				case <-freed:
				case <-ctx.Done():
					return fault.New(fault.Exhausted, "no room for a request of %d bytes beside those %s that are under way: %w", n, why, ctx.Err())
				}
			}
		})
	}
	if err != nil {
		b.by.Leave(address)
		return nil, err
	}
	return func() { b.unshare(s, n); b.by.Leave(address) }, nil
}

// share takes n bytes of the whole for an address, or says whose requests are in the way and when to ask again.
func (b *budget) share(s *share, n int64) (freed <-chan struct{}, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch mine := s.long + n; {
	case mine > b.long:
		return b.freed, "of this address"
	case mine > b.free-n:
		return b.freed, "of all clients"
	default:
		s.long, b.free = mine, b.free-n
		return nil, ""
	}
}

func (b *budget) unshare(s *share, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.long, b.free = s.long-n, b.free+n
	close(b.freed)
	b.freed = make(chan struct{})
}

// hold makes room for an answer, like take. The answers of an address are in nobody else's way.
func (b *budget) hold(ctx context.Context, address string, bytes int) (give func(), err error) {
	n := int64(bytes)
	if n <= smallBytes {
		return func() {}, nil
	}
	s := b.by.Enter(address)
	if err := b.acquire(ctx, s, s.answers, n, "an answer"); err != nil {
		b.by.Leave(address)
		return nil, err
	}
	return func() { s.answers.Release(n); b.by.Leave(address) }, nil
}

func (b *budget) acquire(ctx context.Context, s *share, of *semaphore.Weighted, n int64, what string) error {
	if of.TryAcquire(n) {
		return nil
	}
	return b.patient(ctx, s, func(ctx context.Context) error {
		if err := of.Acquire(ctx, n); err != nil {
			return fault.New(fault.Exhausted, "no room for %s of %d bytes beside those of this address that are under way: %w", what, n, err)
		}
		return nil
	})
}

// patient lets one of not too many of an address wait, for not too long.
func (b *budget) patient(ctx context.Context, s *share, get func(context.Context) error) error {
	if !b.wait(s, 1) {
		return fault.New(fault.Exhausted, "too many calls of this address wait until others of it are over")
	}
	defer b.wait(s, -1)
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return get(ctx)
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
