package state

import (
	"context"
	"sync"
)

// Key names what may be watched: a table (Index ""), a row (Index "id") or a group of rows.
type Key struct{ Table, Index, Value string }

// TableKey is any change of a table.
func TableKey(table string) Key { return Key{Table: table} }

// touchedMax bounds the memory of touched groups; forgetting one costs a spurious wake-up.
const touchedMax = 200_000

type watches struct {
	mu    sync.Mutex
	cells map[Key]map[*Watcher]struct{}
	// touched is the last index per table and group; floor stands for those forgotten.
	touched map[Key]uint64
	floor   uint64
}

func (w *watches) init() {
	w.cells, w.touched, w.floor = map[Key]map[*Watcher]struct{}{}, map[Key]uint64{}, 1
}

func (w *watches) fire(index uint64, keys map[Key]struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range keys {
		if k.Index != "id" {
			w.touched[k] = index
		}
		for watcher := range w.cells[k] {
			watcher.wake()
		}
	}
	if len(w.touched) > touchedMax {
		w.touched, w.floor = map[Key]uint64{}, index
	}
}

// reset wakes everybody and forgets what was touched: the whole state was replaced.
func (w *watches) reset(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watchers := range w.cells {
		for watcher := range watchers {
			watcher.wake()
		}
	}
	w.touched, w.floor = map[Key]uint64{}, index
}

// Watcher waits for a commit that touches one of its keys.
type Watcher struct {
	owner *watches
	keys  []Key
	c     chan struct{}
	once  sync.Once
}

// Watch registers interest in the keys; do it before reading. Stop must be called.
func (s *Store) Watch(keys ...Key) *Watcher {
	w := &Watcher{owner: &s.watch, keys: keys, c: make(chan struct{})}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, k := range keys {
		if s.watch.cells[k] == nil {
			s.watch.cells[k] = map[*Watcher]struct{}{}
		}
		s.watch.cells[k][w] = struct{}{}
	}
	return w
}

// C is closed when one of the keys was touched.
func (w *Watcher) C() <-chan struct{} { return w.c }

func (w *Watcher) wake() { w.once.Do(func() { close(w.c) }) }

// Stop gives up the interest.
func (w *Watcher) Stop() {
	w.owner.mu.Lock()
	defer w.owner.mu.Unlock()
	for _, k := range w.keys {
		delete(w.owner.cells[k], w)
		if len(w.owner.cells[k]) == 0 {
			delete(w.owner.cells, k)
		}
	}
}

// Touched is the last index at which the key changed. It may be older than what a later read shows
// and is at least 1.
func (s *Store) Touched(keys ...Key) uint64 {
	highest := uint64(1)
	for _, k := range keys {
		highest = max(highest, s.touchedOne(k))
	}
	return highest
}

func (s *Store) touchedOne(k Key) uint64 {
	if k.Index == "id" {
		tx := s.Read()
		if row := tx.mem.first(k.Table, "id", splitRowKey(k.Value)); row != nil {
			return tables[k.Table].modifyIndex(row)
		}
		return tx.TableIndex(k.Table)
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if i, ok := s.watch.touched[k]; ok {
		return i
	}
	return s.watch.floor
}

// Until waits until holds answers true, asking again whenever one of the keys was touched.
func Until(ctx context.Context, s *Store, keys []Key, holds func(tx *Txn) bool) error {
	for {
		w := s.Watch(keys...)
		if holds(s.Read()) {
			w.Stop()
			return nil
		}
		select {
		case <-w.C():
			w.Stop()
		case <-ctx.Done():
			w.Stop()
			return ctx.Err()
		}
	}
}
