package state

import (
	"context"
	"sync"
)

// Key names what may be watched: a table (Index ""), a row (Index "id") or a group of rows.
type Key struct{ Table, Index, Value string }

// TableKey is any change of a table.
func TableKey(table string) Key { return Key{Table: table} }

// leftMax bounds the memory of groups that rows left; forgetting one costs a spurious wake-up.
const leftMax = 200_000

type watches struct {
	mu sync.Mutex
	// cells are the waiting watchers, per table and index, then per value.
	cells map[place]map[string]map[*Watcher]struct{}
	// left is the last index at which a row left a group, of pages only the last one; floor stands for those forgotten.
	left  map[Key]uint64
	floor uint64
}

type place struct{ table, index string }

func (k Key) place() place { return place{k.Table, k.Index} }

func (w *watches) init() {
	w.cells, w.left, w.floor = map[place]map[string]map[*Watcher]struct{}{}, map[Key]uint64{}, 1
}

// fire wakes the watchers of rows that a commit changed. Keys are made only for watched indexes.
func (w *watches) fire(v *view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range v.left {
		w.left[k] = v.index
	}
	if len(w.left) > leftMax {
		w.left, w.floor = map[Key]uint64{}, v.index
	}
	if len(w.cells) == 0 {
		return
	}
	for of, table := range tables {
		if v.dirty&(1<<table.number) == 0 {
			continue
		}
		wake(w.cells[place{of, ""}][""])
		for _, i := range table.indexes {
			if watched := w.cells[place{of, i.name}]; len(watched) > 0 {
				wakeAll(watched, i, of, v.changes)
			}
		}
	}
}

// wakeAll wakes the watchers of keys of one index that changes touched.
func wakeAll(watched map[string]map[*Watcher]struct{}, i *index, table string, changes []Change) {
	var one [1]string
	last := ""
	for _, c := range changes {
		if c.Table != table {
			continue
		}
		for _, row := range [2]any{c.Before, c.After} {
			if row == nil {
				continue
			}
			for _, k := range i.of(row, &one) {
				if k != last || k == "" {
					wake(watched[k])
				}
				last = k
			}
		}
	}
}

func wake(watchers map[*Watcher]struct{}) {
	for w := range watchers {
		w.wake()
	}
}

// reset wakes everybody and forgets what was touched: the whole state was replaced.
func (w *watches) reset(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, values := range w.cells {
		for _, watchers := range values {
			wake(watchers)
		}
	}
	w.left, w.floor = map[Key]uint64{}, index
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
		values := s.watch.cells[k.place()]
		if values == nil {
			values = map[string]map[*Watcher]struct{}{}
			s.watch.cells[k.place()] = values
		}
		if values[k.Value] == nil {
			values[k.Value] = map[*Watcher]struct{}{}
		}
		values[k.Value][w] = struct{}{}
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
		values := w.owner.cells[k.place()]
		if delete(values[k.Value], w); len(values[k.Value]) == 0 {
			delete(values, k.Value)
		}
		if len(values) == 0 {
			delete(w.owner.cells, k.place())
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
	tx, table := s.Read(), tables[k.Table]
	if k.Index == "id" {
		if row := tx.mem.get(table, k.Value); row != nil {
			return table.modified(row)
		}
		return tx.TableIndex(k.Table)
	}
	last := tx.mem.changed[table.number]
	if k.Index != "" {
		last = tx.mem.touched(table, table.index(k.Index), k.Value)
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return max(s.watch.floor, last, s.watch.left[k])
}

// Until waits until holds returns true, asking again whenever one of the keys was touched.
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
