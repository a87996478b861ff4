// Package pace bounds how many tasks of a node start, or end, at the same time. Each start takes processor time; without a
// bound 200 starts at once share the processors, and the first task runs when the last one does.
package pace

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Pace gives a place to each of a number of starts or ends. Use New.
type Pace struct {
	places   *semaphore.Weighted
	patience time.Duration
}

// New makes a pace for so many starts at a time. A start that takes longer than patience waits for something other than
// the processors, such as a volume that does not respond: it loses its place, so that it does not hold up the others.
func New(places int, patience time.Duration) *Pace {
	return &Pace{semaphore.NewWeighted(int64(places)), patience}
}

// Take waits for a place; leave gives it back. The error is that of ctx.
func (p *Pace) Take(ctx context.Context) (leave func(), err error) {
	if err := p.places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	release := sync.OnceFunc(func() { p.places.Release(1) })
	late := time.AfterFunc(p.patience, release)
	return func() {
		late.Stop()
		release()
	}, nil
}
