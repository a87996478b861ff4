package driver

import (
	"context"
	"time"
)

// FingerprintPeriod is the longest time between two values of a fingerprint channel.
const FingerprintPeriod = 30 * time.Second

// Fingerprints is the channel of a driver that looks at its health once in every [FingerprintPeriod], at once for the first
// time. It is closed when ctx ends.
func Fingerprints(ctx context.Context, health func(context.Context) Fingerprint) <-chan Fingerprint {
	ch := make(chan Fingerprint)
	go func() {
		defer close(ch)
		tick := time.NewTicker(FingerprintPeriod)
		defer tick.Stop()
		for {
			select {
			case ch <- health(ctx):
			case <-ctx.Done():
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}
