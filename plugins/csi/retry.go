package csi

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Backoff says how long to wait between tries.
type Backoff struct {
	// First is the first wait, doubled each time up to Max; 0 means 1 s and 1 min.
	First, Max time.Duration
	// Few is how many tries uncertain calls get; 0 means 3.
	Few int
	// Noted is told of every failed try before the wait; may be nil.
	Noted func(err error, next time.Duration)
	// Chance returns a duration below the bound, for the jitter of waits; nil means any.
	Chance func(below time.Duration) time.Duration
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
	chance := rand.N[time.Duration]
	if b.Chance != nil {
		chance = b.Chance
	}
	return d*3/4 + chance(d/2+1)
}

// Do makes a call and repeats it as its verdict says, see [VerdictOf], until it succeeds, its verdict is not to
// repeat it, or ctx ends. What failed last is the error, also when ctx ended. An uncertain call gets a few
// tries: only failures of the same verdict and code count.
func Do(ctx context.Context, b Backoff, call func(context.Context) error) error {
	seen := map[string]int{}
	for failed := 1; ; failed++ {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		key := failureOf(err)
		seen[key]++
		if !b.Again(err, seen[key]) {
			return err
		}
		wait := b.Wait(failed)
		if unreached(err) {
			wait = b.Wait(1)
		}
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

// Again reports whether a call is repeated that failed with err, alike times with the same verdict and code.
func (b Backoff) Again(err error, alike int) bool {
	few := b.Few
	if few <= 0 {
		few = 3
	}
	switch VerdictOf(err) {
	case fault.VerdictRetry, fault.VerdictRetrySoon:
		return true
	case fault.VerdictUncertain:
		return alike < few
	}
	return false
}

// unreached reports that a plugin could not be asked at all: looking for it again costs it nothing.
func unreached(err error) bool {
	var c *fault.Call
	return errors.As(err, &c) && c.Verdict == fault.VerdictRetrySoon && !c.Uncertain
}

// failureOf tells failures apart.
func failureOf(err error) string {
	var c *fault.Call
	if errors.As(err, &c) {
		return string(c.Verdict) + "/" + c.Code
	}
	return string(VerdictOf(err))
}
