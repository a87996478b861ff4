package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// coveredBytes is how long a request or an answer may be that is covered by the quota of its call.
const coveredBytes = 4 << 10

// extent is how much of something one client address may have, and all together. No address has more of the whole than it
// leaves to others.
type extent struct{ each, whole int64 }

// limits bound what the calls of clients take of a server's memory while requests are read and served, and answers sent.
type limits struct {
	// calls are how many may be open: a goroutine, a stream of gRPC, metadata up to headerBytes, and coveredBytes twice.
	calls extent
	// shortRequests are the bytes of those up to smallBytes, requests of those above. So are the answers that are not taken yet.
	shortRequests, requests, shortAnswers, answers extent
	// waiting is how many calls may wait for a quota; others are refused at once.
	waiting extent
	// patience is how long one waits, stall how long the client may take for each portionBytes of it, and of an answer.
	patience, stall time.Duration
}

var usualLimits = limits{
	calls:         extent{2 * callsMax, 8 * callsMax},
	shortRequests: extent{64 << 20, 256 << 20}, requests: extent{4 * MaxMessageBytes, 8 * MaxMessageBytes},
	shortAnswers: extent{64 << 20, 256 << 20}, answers: extent{4 * MaxMessageBytes, 8 * MaxMessageBytes},
	waiting:  extent{256, 4096},
	patience: 10 * time.Second, stall: 30 * time.Second,
}

// budget is what is left of the limits.
type budget struct {
	limits
	calls, shortRequests, requests, shortAnswers, answers, waiting *quota
}

func newBudget(l limits) *budget {
	return &budget{
		limits: l, calls: newQuota(l.calls), shortRequests: newQuota(l.shortRequests), requests: newQuota(l.requests),
		shortAnswers: newQuota(l.shortAnswers), answers: newQuota(l.answers), waiting: newQuota(l.waiting),
	}
}

// enter takes what an open call needs, until give is called.
func (b *budget) enter(ctx context.Context, address string) (give func(), err error) {
	return b.take(ctx, b.calls, address, 1, "one more call")
}

// read takes what a request of so many bytes needs. Short ones wait for no long ones.
func (b *budget) read(ctx context.Context, address string, bytes int) (give func(), err error) {
	return b.bytes(ctx, b.shortRequests, b.requests, address, bytes, "a request")
}

// hold takes what an answer of at most so many bytes needs.
func (b *budget) hold(ctx context.Context, address string, bytes int) (give func(), err error) {
	return b.bytes(ctx, b.shortAnswers, b.answers, address, bytes, "an answer")
}

func (b *budget) bytes(ctx context.Context, short, long *quota, address string, n int, what string) (give func(), err error) {
	switch {
	case n <= coveredBytes:
		return func() {}, nil
	case n <= smallBytes:
		long = short
	}
	return b.take(ctx, long, address, int64(n), fmt.Sprintf("%s of %d bytes", what, n))
}

// take takes n of a quota for an address. One of not too many waits for them, for not too long.
func (b *budget) take(ctx context.Context, r *quota, address string, n int64, what string) (give func(), err error) {
	give = func() { r.give(address, n) }
	freed, why := r.try(address, n)
	if why == "" {
		return give, nil
	}
	if _, why := b.waiting.try(address, 1); why != "" {
		return nil, fault.New(fault.Exhausted, "too many calls %s wait until others are over", why)
	}
	defer b.waiting.give(address, 1)
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	for {
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fault.New(fault.Exhausted, "no room for %s beside those %s that are under way: %w", what, why, ctx.Err())
		}
		if freed, why = r.try(address, n); why == "" {
			return give, nil
		}
	}
}

// quota is what is left of something that addresses share.
type quota struct {
	extent
	mu   sync.Mutex
	free int64
	has  map[string]int64
	// freed is closed when there is more; nil while nobody has asked for it.
	freed chan struct{}
}

func newQuota(e extent) *quota { return &quota{extent: e, free: e.whole, has: map[string]int64{}} }

// try takes n for an address, or says whose share is in the way and when to ask again.
func (r *quota) try(address string, n int64) (freed <-chan struct{}, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.has[address] + n
	switch {
	case mine > r.each:
		why = "of this address"
	case mine > r.free-n:
		why = "of all clients"
	default:
		r.has[address], r.free = mine, r.free-n
		return nil, ""
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed, why
}

func (r *quota) give(address string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += n
	if r.has[address] -= n; r.has[address] == 0 {
		delete(r.has, address)
	}
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
