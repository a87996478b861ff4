// Package retry paces what is tried again: pauses that double up to a bound, with jitter, so that many who failed
// together do not come back together. Servers and clients share it.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pace hands out the pauses between the tries of one thing. It is for one goroutine.
type Pace struct{ pauses backoff.ExponentialBackOff }

// Between is a pace whose pauses begin around least and double until they are around most: each is half of that to one and
// a half of it, at random.
func Between(least, most time.Duration) *Pace {
	p := &Pace{backoff.ExponentialBackOff{InitialInterval: least, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: most}}
	p.pauses.Reset()
	return p
}

// Next is the pause before the next try.
func (p *Pace) Next() time.Duration { return p.pauses.NextBackOff() }

// Reset begins with short pauses again, after a success.
func (p *Pace) Reset() { p.pauses.Reset() }

// Wait waits for the next pause and reports whether ctx still lives.
func (p *Pace) Wait(ctx context.Context) bool { return Sleep(ctx, p.Next()) }

// Sleep waits and reports whether ctx still lives.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
