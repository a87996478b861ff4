package client

import (
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// writer writes a file in its own goroutine, one write at a time, because a disk may hang. Of the writes that are
// requested meanwhile, the last one counts.
type writer struct {
	mu      sync.Mutex
	busy    bool
	next    func() error
	waiting []chan<- error
}

// begin has something written soon.
func (w *writer) begin(write func() error) { w.add(write, nil) }

// await has something written and waits for that, no longer than the limit.
func (w *writer) await(write func() error, limit time.Duration) error {
	done := make(chan error, 1)
	w.add(write, done)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fault.New(fault.Timeout, "the disk has not responded for %s", limit)
	}
}

func (w *writer) add(write func() error, done chan<- error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = write
	if done != nil {
		w.waiting = append(w.waiting, done)
	}
	if !w.busy {
		w.busy = true
		go w.run()
	}
}

func (w *writer) run() {
	for {
		w.mu.Lock()
		write, waiting := w.next, w.waiting
		w.next, w.waiting = nil, nil
		w.busy = write != nil
		w.mu.Unlock()
		if write == nil {
			return
		}
		err := write()
		for _, done := range waiting {
			done <- err
		}
	}
}

// files are the files that the node writes in addition to its database.
type files struct{ lease, servers, voters, heard, identity, meta writer }

// end waits, bounded, for what is being written, and names what hangs.
func (f *files) end() (left []string) {
	for name, w := range map[string]*writer{leaseFile: &f.lease, serversFile: &f.servers, votersFile: &f.voters, heardFile: &f.heard, identityFile: &f.identity, metaFile: &f.meta} {
		w.mu.Lock()
		busy, last := w.busy, w.next
		w.mu.Unlock()
		if !busy {
			continue
		}
		if last == nil {
			last = func() error { return nil }
		}
		if w.await(last, diskLeave) != nil {
			left = append(left, name)
		}
	}
	return left
}
