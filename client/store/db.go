package store

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/retry"
)

const (
	// flushDelay is how long a lazy write may wait for company.
	flushDelay = 20 * time.Millisecond
	// retryDelay is the pause after a commit that failed.
	retryDelay = time.Second
)

// backend is where batches end: the bbolt file or, in tests, a map.
type backend interface {
	apply(batch map[slot][]byte) error
	get(at slot) ([]byte, error)
	all(bucket, prefix string) (map[string][]byte, error)
	close() error
}

// slot is the place of one value.
type slot struct{ bucket, key string }

// DB is the store of one node. Methods may be called from many goroutines.
type DB struct {
	log   hclog.Logger
	fresh bool
	back  backend
	kick  chan struct{}
	// trouble is woken by every commit that failed.
	trouble chan struct{}

	// committing is held by the one goroutine that writes a batch to the backend.
	committing sync.Mutex

	mu      sync.RWMutex
	next    *batch
	current *batch
	closed  bool
}

// batch is a set of writes that become durable together; nil values delete.
type batch struct {
	values map[slot][]byte
	// kept are those that are tried again when the commit fails: their writers do not receive the error, or treat them
	// as written whatever the disk reports.
	kept map[slot]bool
	done bool
	err  error
}

func newBatch() *batch { return &batch{values: map[slot][]byte{}, kept: map[slot]bool{}} }

// pace is what a writer wants of a write.
type pace struct {
	// durable waits for the commit.
	durable bool
	// kept tries again when the commit fails, also when the writer received the error.
	kept bool
}

// Open opens or creates the store in the file at path.
func Open(path string, log hclog.Logger) (*DB, error) {
	back, fresh, err := openFile(path, log)
	if err != nil {
		return nil, err
	}
	db := newDB(back, log)
	if db.fresh = fresh; fresh {
		// An agent that is killed before its first write leaves a store that is empty and not lost.
		err = db.write(map[slot][]byte{createdMark: {1}}, pace{kept: true})
		_ = db.Flush() // a disk that is full now gets the mark with a later write
	}
	return db, err
}

// createdMark distinguishes a store that was created before from one that was created by this Open.
var createdMark = slot{"store", "created"}

// Memory makes a store that is kept in memory only, for tests and development agents.
func Memory() *DB {
	return newDB(&memory{buckets: map[string]map[string][]byte{}}, hclog.NewNullLogger())
}

func newDB(back backend, log hclog.Logger) *DB {
	return &DB{log: log, back: back, kick: make(chan struct{}, 1), trouble: make(chan struct{}, 1), next: newBatch()}
}

// Fresh reports whether the store was made by this Open: because there was none, or only a damaged one.
func (db *DB) Fresh() bool { return db.fresh }

// Run makes lazy writes durable until ctx ends.
func (db *DB) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return db.Flush()
		case <-db.kick:
		}
		retry.Sleep(ctx, flushDelay)
		if err := db.Flush(); err != nil {
			db.log.Error("write client state", "retry_in", retryDelay, "error", err)
			retry.Sleep(ctx, retryDelay)
			db.wake(db.kick)
		}
	}
}

// Trouble gets a value after commits that failed.
func (db *DB) Trouble() <-chan struct{} { return db.trouble }

func (db *DB) wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Flush makes everything written so far durable.
func (db *DB) Flush() error {
	db.mu.RLock()
	b := db.next
	db.mu.RUnlock()
	return db.commit(b)
}

// Close flushes and closes the store; it fails every later write.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	b := db.next
	db.mu.Unlock()
	return errors.Join(db.commit(b), db.back.close())
}

// Bounds of what one slot takes; those of the file are wider.
const (
	keyMax   = 16 << 10
	valueMax = 1 << 30
)

// storable refuses what the file would refuse, and with it the other writes of its batch.
func storable(values map[slot][]byte) error {
	for at, value := range values {
		if at.bucket == "" || at.key == "" || len(at.key) > keyMax || len(value) > valueMax {
			return fault.New(fault.Invalid, "client state cannot store a key of %d bytes with a value of %d bytes in %q", len(at.key), len(value), at.bucket)
		}
	}
	return nil
}

// write queues the values and, when they must be durable, waits for the commit that holds them.
func (db *DB) write(values map[slot][]byte, how pace) error {
	if err := storable(values); err != nil {
		return err
	}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return fault.New(fault.Unavailable, "client state is closed")
	}
	b := db.next
	maps.Copy(b.values, values)
	for at := range values {
		b.kept[at] = how.kept
	}
	db.mu.Unlock()
	if how.durable {
		return db.commit(b)
	}
	db.wake(db.kick)
	return nil
}

// commit makes b durable unless another goroutine has done so while it waited for its turn. Batches are committed in
// order, so a batch that is not done when its turn comes is the one that collects writes.
func (db *DB) commit(b *batch) error {
	db.committing.Lock()
	defer db.committing.Unlock()
	if b.done {
		return b.err
	}
	db.mu.Lock()
	db.next, db.current = newBatch(), b
	db.mu.Unlock()
	if len(b.values) > 0 {
		b.err = db.back.apply(b.values)
	}
	b.done = true
	db.mu.Lock()
	if errors.Is(b.err, errDisk) {
		db.keep(b)
	}
	db.current = nil
	db.mu.Unlock()
	return b.err
}

// keep puts what must not be lost of a failed batch into the next one, where newer values win. The caller
// holds mu.
func (db *DB) keep(b *batch) {
	for at, value := range b.values {
		if _, newer := db.next.values[at]; b.kept[at] && !newer {
			db.next.values[at], db.next.kept[at] = value, true
		}
	}
	db.wake(db.kick)
	db.wake(db.trouble)
}

func (db *DB) get(at slot) ([]byte, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	for _, b := range []*batch{db.next, db.current} {
		if b == nil {
			continue
		}
		if v, ok := b.values[at]; ok {
			return v, nil
		}
	}
	return db.back.get(at)
}

// all lists the values of a bucket whose keys begin with prefix.
func (db *DB) all(bucket, prefix string) (map[string][]byte, error) {
	db.mu.RLock()
	defer db.mu.RUnlock()
	out, err := db.back.all(bucket, prefix)
	if err != nil {
		return nil, err
	}
	for _, b := range []*batch{db.current, db.next} {
		if b == nil {
			continue
		}
		for at, v := range b.values {
			if at.bucket == bucket && strings.HasPrefix(at.key, prefix) {
				out[at.key] = v
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, v []byte) bool { return v == nil })
	return out, nil
}
