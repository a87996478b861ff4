package broker

import (
	"container/heap"
	"context"
	"time"
)

// deadline is something to be done with an item at a time, while it is still the item's deadline.
type deadline struct {
	at    time.Time
	do    func()
	place int
}

// after sets the item's deadline; an earlier one no longer counts.
func (b *Broker) after(it *item, at time.Time, do func()) {
	b.stop(it)
	d := &deadline{at: at}
	d.do = func() {
		it.due = nil
		do()
	}
	it.due = d
	heap.Push(&b.clock, d)
	if d.place == 0 {
		select {
		case b.rearm <- struct{}{}:
		default:
		}
	}
}

func (b *Broker) stop(it *item) {
	if it.due != nil {
		heap.Remove(&b.clock, it.due.place)
		it.due = nil
	}
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

// expire does what is due and answers how long nothing else is.
func (b *Broker) expire() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for len(b.clock) > 0 {
		next := b.clock[0]
		if next.at.After(now) {
			return next.at.Sub(now)
		}
		heap.Pop(&b.clock)
		next.do()
	}
	return time.Hour
}

type deadlines []*deadline

// Len implements heap.Interface.
func (d deadlines) Len() int { return len(d) }

// Less implements heap.Interface.
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }

// Swap implements heap.Interface.
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	if one, ok := x.(*deadline); ok {
		one.place = len(*d)
		*d = append(*d, one)
	}
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}
