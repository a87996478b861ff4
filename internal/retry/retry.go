// Package retry paces retries: pauses that double up to a maximum, with jitter, so that many that failed
// together do not retry together. Servers and clients share it.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pace returns the pauses between the attempts of one operation. It is for one goroutine.
type Pace struct{ pauses backoff.ExponentialBackOff }

// Between is a pace whose pauses begin around least and double until they are around most: each is half of that to one and
// a half of it, at random.
func Between(least, most time.Duration) *Pace {
	p := &Pace{backoff.ExponentialBackOff{InitialInterval: least, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: most}}
	p.pauses.Reset()
	return p
}

// Next returns the pause before the next attempt.
func (p *Pace) Next() time.Duration { return p.pauses.NextBackOff() }

// Reset starts with short pauses again, after a success.
func (p *Pace) Reset() { p.pauses.Reset() }

// Wait waits for the next pause; it returns false when ctx ends first.
func (p *Pace) Wait(ctx context.Context) bool { return Sleep(ctx, p.Next()) }

// Sleep waits for d; it returns false when ctx ends first.
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
