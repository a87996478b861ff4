package csi

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Backoff defines how long to wait between tries.
type Backoff struct {
	// First is the first wait, doubled each time up to Max; 0 means 1 s and 1 min.
	First, Max time.Duration
	// MaxUncertain is the number of attempts after uncertain results; 0 means 3.
	MaxUncertain int
	// Noted is called with every failed try before the wait; may be nil.
	Noted func(err error, next time.Duration)
	// Chance returns a random duration in [0, below) for the jitter of waits; nil means rand.N.
	Chance func(below time.Duration) time.Duration
	// Others are calls that succeed when this one does, as far as can be known; nil means none.
	Others *Others
}

// Others are calls that wait for the same plugin, each between two of its attempts. A success wakes a few waiting calls
// early, so the backlog drains at the plugin's speed. An early attempt is followed by one at the usual time. Nil means no
// other calls.
type Others struct {
	mu      sync.Mutex
	waiting []chan struct{} // in the order in which they came
}

// hastened is the number of calls that a success wakes early.
const hastened = 4

func (o *Others) passed() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(hastened, len(o.waiting))
	for _, w := range o.waiting[:n] {
		close(w)
	}
	o.waiting = o.waiting[n:]
}

// wait waits for d, the end of ctx, or a success of another call, and reports whether it was the success.
func (o *Others) wait(ctx context.Context, d time.Duration) (early bool) {
	if o == nil {
		return pause(ctx, d, nil)
	}
	mine := make(chan struct{})
	o.mu.Lock()
	o.waiting = append(o.waiting, mine)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.waiting = slices.DeleteFunc(o.waiting, func(w chan struct{}) bool { return w == mine })
	}()
	return pause(ctx, d, mine)
}

// pause waits for d, the end of ctx, or woken, and reports whether it was woken.
func pause(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
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
	return d*3/4 + b.chance(d/2+1)
}

func (b Backoff) chance(below time.Duration) time.Duration {
	if b.Chance != nil {
		return b.Chance(below)
	}
	return rand.N(below)
}

// Do makes a call and repeats it by its verdict, see [VerdictOf], until it succeeds, its verdict is not to repeat it,
// or ctx ends. It returns the error of the last call, also when ctx ended. An uncertain call gets a few attempts: only
// failures of the same verdict and code count.
func Do(ctx context.Context, b Backoff, call func(context.Context) error) error {
	seen := map[string]int{}
	var usual time.Time // when an early try was due
	for waits := 0; ; {
		err := call(ctx)
		if err == nil {
			b.Others.passed()
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
		var early *Others
		wait := time.Until(usual)
		if wait <= 0 {
			waits++
			wait = b.Wait(waits)
			if VerdictOf(err) != fault.VerdictUncertain {
				early = b.Others
			}
		}
		if unreached(err) {
			wait = b.Wait(1)
		}
		if b.Noted != nil {
			b.Noted(err, wait)
		}
		due := time.Now().Add(wait)
		usual = time.Time{}
		if early.wait(ctx, wait) {
			usual = due
			pause(ctx, b.chance(b.Wait(1)), nil)
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Again reports whether a call is repeated that failed with err, alike times with the same verdict and code.
func (b Backoff) Again(err error, alike int) bool {
	few := b.MaxUncertain
	if few <= 0 {
		few = 3
	}
	//exhaustive:enforce
	switch VerdictOf(err) {
	case fault.VerdictRetry, fault.VerdictRetrySoon:
		return true
	case fault.VerdictUncertain:
		return alike < few
	case fault.VerdictFinal, fault.VerdictVerify, fault.VerdictLimit, fault.VerdictChanged:
	}
	return false
}

// unreached reports whether the call never reached the plugin: another attempt costs the plugin nothing.
func unreached(err error) bool {
	var c *fault.Call
	return errors.As(err, &c) && c.Verdict == fault.VerdictRetrySoon && !c.Uncertain
}

// failureOf returns a key that identifies the kind of failure.
func failureOf(err error) string {
	var c *fault.Call
	if errors.As(err, &c) {
		return string(c.Verdict) + "/" + c.Code
	}
	return string(VerdictOf(err))
}
