package csi

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait between tries.
type Backoff struct {
	// First is the first wait, doubled each time up to Max; 0 means 1 s and 1 min.
	First, Max time.Duration
	// Few is how many tries errors get that only may pass; 0 means 3.
	Few int
	// Noted is told of every failed try before the wait; may be nil.
	Noted func(err error, next time.Duration)
}

// Wait returns the wait after the given number of failed tries, with jitter.
func (b Backoff) Wait(failed int) time.Duration {
	first, limit := b.First, b.Max
	if first <= 0 {
		first = time.Second
	}
	if limit <= 0 {
		limit = time.Minute
	}
	d := first
	for i := 1; i < failed && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	return d*3/4 + rand.N(d/2+1)
}

// Do makes a call and repeats it as [ActionOf] says, until it succeeds, fails for good, or ctx ends. What
// failed last is the error, also when ctx ended.
func Do(ctx context.Context, b Backoff, call func(context.Context) error) error {
	few := b.Few
	if few <= 0 {
		few = 3
	}
	for failed := 1; ; failed++ {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if a := ActionOf(err); a != Retry && (a != RetryFew || failed >= few) {
			return err
		}
		wait := b.Wait(failed)
		if b.Noted != nil {
			b.Noted(err, wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}
