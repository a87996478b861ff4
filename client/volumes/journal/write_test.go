package journal

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/client/csiplugins"
)

// slowDisk is a bucket whose writes wait until they may go on, and fail while it is full.
type slowDisk struct {
	mu       sync.Mutex
	m        map[string]string
	full     bool
	puts     chan struct{} // each lets one Put go on; nil lets all
	removals chan struct{}
}

func (d *slowDisk) Get(key string) ([]byte, error) { return []byte(d.kept()[key]), nil }

func (d *slowDisk) All() (map[string][]byte, error) { return nil, nil }

func (d *slowDisk) Put(key string, value []byte) error {
	return d.change(d.puts, func() { d.m[key] = string(value) })
}

func (d *slowDisk) Delete(key string) error {
	return d.change(d.removals, func() { delete(d.m, key) })
}

func (d *slowDisk) change(gate chan struct{}, do func()) error {
	if d.full {
		return errors.New("no space")
	}
	if gate != nil {
		<-gate
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	return nil
}

func (d *slowDisk) kept() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.m)
}

// TestRecordOutlivesTheRemovalOfAnEarlierOne writes a record anew while the disk still hasRemovals its removal, in both orders.
func TestRecordOutlivesTheRemovalOfAnEarlierOne(t *testing.T) {
	r := Row{State: Mounted, AllocID: "a", Namespace: "default", VolumeID: "v"}
	for _, first := range []string{"removal", "record"} {
		t.Run(first, func(t *testing.T) {
			for range 200 {
				synctest.Test(t, func(t *testing.T) {
					d := &slowDisk{m: map[string]string{}}
					j, err := Open(d, func(string, csiplugins.Place) error { return nil }, hclog.NewNullLogger())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := j.Put(t.Context(), r); err != nil {
						t.Fatal(err)
					}
					d.full = true
					j.Remove(r.Key())
					d.full = false
					gate, last := make(chan struct{}), make(chan struct{})
					settle, put := func() { _ = j.RetryRemovals() }, func() { _, _ = j.Put(t.Context(), r) }
					if first == "removal" {
						d.removals = gate
						go settle()
						synctest.Wait()
						go put()
					} else {
						d.puts, d.removals = gate, last
						go put()
						synctest.Wait()
						go settle()
					}
					synctest.Wait()
					close(gate)
					synctest.Wait()
					close(last)
					synctest.Wait()
					if d.kept()[r.Key()] == "" {
						t.Fatal("the journal has the row, and the disk has not")
					}
				})
			}
		})
	}
}
