package broker

import (
	"context"
	"time"
)

// after sets the item's deadline; an earlier one no longer counts.
func (b *Broker) after(it *item, at time.Time, do func()) {
	if b.clock.Set(it, at, do) {
		select {
		case b.rearm <- struct{}{}:
		default:
		}
	}
}

func (b *Broker) stop(it *item) { b.clock.Drop(it) }

// due reports whether the item has a deadline.
func (b *Broker) due(it *item) bool {
	_, due := b.clock.Get(it)
	return due
}

// Run serves delays and nack timeouts until ctx ends.
func (b *Broker) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(b.expire())
		select {
		case <-timer.C:
		case <-b.rearm:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expire does what is due and returns the time until the next timer.
func (b *Broker) expire() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, do, due := b.clock.Take(now); due; _, do, due = b.clock.Take(now) {
		do()
	}
	if at, some := b.clock.Next(); some {
		return at.Sub(now)
	}
	return time.Hour
}
