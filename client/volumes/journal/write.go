package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// The disk may hang, also permanently. Every wait for it is bounded: records are written in the background, those of
// one key one after the other, and waiters time out. Mounting is then tried again; unmounting continues.

const (
	// writeWait is how long the disk has to take a record.
	writeWait = 10 * time.Second
	// writeWaitHung is how long it has while it has not taken another one in that time.
	writeWaitHung = time.Second
)

// write is a record that is being written, or, when there is none, being removed.
type write struct {
	raw []byte
	// done updates memory when the record is on disk; nil when its waiter has timed out. late updates it when the
	// record is not on disk, because the disk fails or does not respond.
	done func()
	late func(*write)
	// undone is set when what it writes is not to be on disk.
	undone bool
	// over is closed when it has ended, with err.
	over chan struct{}
	err  error
}

// writes are those of one key, in their order; the first one is under way.
type writes struct {
	queue []*write
	since time.Time
}

// write makes a record durable, or removes it when there is none. done or late has updated memory when it returns, and
// is called with mu held. The wait is abandoned when the disk does not respond, or giveUp is closed.
func (j *Journal) write(giveUp <-chan struct{}, key string, raw []byte, done func(), late func(*write)) error {
	j.mu.Lock()
	w := j.begin(key, &write{raw: raw, done: done, late: late, over: make(chan struct{})})
	j.mu.Unlock()
	return j.await(giveUp, w)
}

// await waits for the end of a write, or gives it up.
func (j *Journal) await(giveUp <-chan struct{}, w *write) error {
	patience := writeWait
	if j.hangs() >= writeWait {
		patience = writeWaitHung
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.over:
		return w.err
	case <-giveUp:
	case <-timer.C:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-w.over:
		return w.err
	default:
	}
	w.done = nil
	w.late(w)
	return errNoAnswer
}

var errNoAnswer = fault.New(fault.Unavailable, "the disk of the node does not respond")

// hangs returns for how long the disk has not completed a write.
func (j *Journal) hangs() (longest time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.writes {
		longest = max(longest, time.Since(w.since))
	}
	return longest
}

// Hung reports whether the disk has not completed a write in time.
func (j *Journal) Hung() bool { return j.hangs() >= writeWaitHung }

// begin puts a write behind those of its key. The caller holds mu.
func (j *Journal) begin(key string, w *write) *write {
	all := j.writes[key]
	if all == nil {
		all = &writes{since: time.Now()}
		j.writes[key] = all
		go j.runWrites(key, all)
	}
	all.queue = append(all.queue, w)
	return w
}

// runWrites performs the writes of a key in order.
func (j *Journal) runWrites(key string, all *writes) {
	for {
		j.mu.Lock()
		if len(all.queue) == 0 {
			delete(j.writes, key)
			j.mu.Unlock()
			return
		}
		w := all.queue[0]
		all.since = time.Now()
		j.mu.Unlock()
		w.err = j.apply(key, w.raw)
		j.mu.Lock()
		all.queue = all.queue[1:]
		switch {
		case w.undone && w.err == nil && len(all.queue) == 0:
			j.begin(key, &write{raw: j.record(key), over: make(chan struct{})})
		case w.done != nil && w.err == nil:
			w.done()
		case w.done != nil:
			w.late(w)
		}
		close(w.over)
		j.mu.Unlock()
	}
}

// apply writes or removes a record.
func (j *Journal) apply(key string, raw []byte) error {
	if raw == nil {
		return j.bucket.Delete(key)
	}
	return j.bucket.Put(key, raw)
}

// giveUp has the disk keep what memory has. The caller holds mu.
func (j *Journal) giveUp(w *write) {
	w.undone = true
	for _, all := range j.writes {
		if at := slices.Index(all.queue, w); at > 0 {
			all.queue = slices.Delete(all.queue, at, at+1)
		}
	}
}

// record is what memory has of a key, nil when it has nothing. The caller holds mu.
func (j *Journal) record(key string) (raw []byte) {
	if r := j.byKey[key]; r != nil {
		raw, _ = json.Marshal(r)
	} else if st := j.stages[key]; st != nil {
		raw, _ = json.Marshal(st)
	}
	return raw
}

// RetryRemovals removes the records whose removal from disk failed, unless their key has a new record.
func (j *Journal) RetryRemovals() error {
	for key, w := range j.beginRemovals() {
		if err := j.await(nil, w); err != nil {
			return fmt.Errorf("write volume journal: %w", err)
		}
		j.log.Debug("removed a record of the volume journal that was outstanding", "key", key)
	}
	return nil
}

// beginRemovals begins to remove what is removals, and forgets what there is a new record of, on disk or on its way there.
func (j *Journal) beginRemovals() map[string]*write {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]*write{}
	for key := range j.removals {
		var last *write
		if all := j.writes[key]; all != nil && len(all.queue) > 0 {
			last = all.queue[len(all.queue)-1]
		}
		switch {
		case j.byKey[key] != nil || j.stages[key] != nil || last != nil && last.raw != nil && !last.undone:
			delete(j.removals, key)
		case last != nil && last.raw == nil && last.done == nil: // its waiter has timed out, and it is still pending
			last.done, last.late = func() { delete(j.removals, key) }, func(*write) {}
			out[key] = last
		default:
			out[key] = j.begin(key, &write{done: func() { delete(j.removals, key) }, late: func(*write) {}, over: make(chan struct{})})
		}
	}
	return out
}

// HasRemovals reports whether records must be removed from disk still.
func (j *Journal) HasRemovals() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.removals) > 0
}
