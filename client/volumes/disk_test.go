package volumes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A disk that hangs under one record keeps nobody from looking at the others: leases are kept by them.
func TestHungDiskKeepsNobodyFromLookingAtTheJournal(t *testing.T) {
	disk := &failing{hung: make(chan struct{})}
	r := newRigWith(t, fake.Config{}, func(c *volumes.Config) {
		disk.bucket = c.Journal.(*bucket)
		c.Journal = disk
	})
	r.plugIn("plug")
	r.up(workload("w"))
	disk.down.Store(true)
	r.down("w")
	before := disk.began.Load()
	disk.down.Store(false)
	defer close(disk.hung)
	for hang := time.After(30 * time.Second); disk.began.Load() == before; {
		select {
		case <-time.After(time.Millisecond):
		case <-hang:
			t.Fatal("the record that is owed is never removed")
		}
	}
	looked := make(chan struct{})
	go func() { r.svc.ShortestLease(); close(looked) }()
	select {
	case <-looked:
	case <-time.After(30 * time.Second):
		t.Error("nobody can look at the journal")
	}
}
