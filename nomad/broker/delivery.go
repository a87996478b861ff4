package broker

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/deadlines"
)

// Extend starts the nack timer of a delivery again.
func (b *Broker) Extend(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("extend: %w", err)
	}
	b.expect(it)
	return nil
}

// Lend is for a delivery to a worker that may be cut off: it ends when the worker gives no sign of life for
// that long, see Keep.
func (b *Broker) Lend(id, token string, patience time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("lend: %w", err)
	}
	it.patience = patience
	b.expect(it)
	return nil
}

// Keep is a sign of life of the worker that has the delivery. It starts no timer that Hold stopped.
func (b *Broker) Keep(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	if b.due(it) {
		b.expect(it)
	}
	return nil
}

// Hold stops the nack timer of a delivery, whose plan is about to be committed, until Extend starts it
// again: no other worker gets the evaluation in the meantime.
func (b *Broker) Hold(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	b.stop(it)
	return nil
}

// Return takes a delivery back that did not reach its worker: it counts for nothing.
func (b *Broker) Return(id, token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return
	}
	b.stop(it)
	it.token = ""
	it.deliveries--
	if it.again != nil {
		it.eval, it.again = it.again, nil
	}
	b.makeReady(it)
}

// Delay takes a delivery back whose worker could do nothing about it just now: it counts for nothing and is handed
// out again after a moment.
func (b *Broker) Delay(id, token string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.out(id, token)
	if err != nil {
		return fmt.Errorf("delay: %w", err)
	}
	it.token = ""
	it.deliveries--
	if it.again != nil {
		it.eval, it.again = it.again, nil
	}
	b.after(it, time.Now().Add(b.cfg.FirstDelay), func() { b.makeReady(it) })
	return nil
}

// Busy reports whether an evaluation of the job is ready, out or about to be.
func (b *Broker) Busy(ns, job string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs[jobKey{ns, job}] != nil
}

// Retain forgets what is not known; what is out stays until its ack.
func (b *Broker) Retain(known func(id string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gone []*item
	for id, it := range b.items {
		if it.token == "" && !known(id) {
			gone = append(gone, it)
		}
	}
	for _, it := range gone {
		b.drop(it)
	}
}

// Pause forgets everything and takes nothing more until Resume: what is out comes to nothing, because
// its token is no longer known. What must be written yet stays to be taken with TakeEnded.
func (b *Broker) Pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = true
	clear(b.items)
	clear(b.jobs)
	clear(b.ready)
	b.clock = deadlines.Heap[*item, func()]{}
}

// Resume takes evaluations again; the caller enqueues those of the state.
func (b *Broker) Resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = false
}

// Close ends all waits for work; nothing is handed out any more.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.over)
	}
}
