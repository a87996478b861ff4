package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/steps"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// keepers is a driver whose tasks keep leases; those that hang do not answer before answer is closed.
type keepers struct {
	driver.Driver
	hung   []string
	answer chan struct{}

	mu      sync.Mutex
	renewed map[string][]int64
}

func (k *keepers) Renew(id string, from int64) error {
	if slices.Contains(k.hung, id) {
		<-k.answer
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if from > 0 {
		k.renewed[id] = append(k.renewed[id], from)
	}
	return nil
}

// kept are entries of allocations a0 to a9, of which each has the running tasks x and y that use a volume.
func kept(t *testing.T, d driver.Driver) (all []*entry) {
	t.Helper()
	db := store.Memory()
	for n := range 10 {
		id := fmt.Sprintf("a%d", n)
		use := []*api.VolumeMount{{Volume: "v", Destination: "v"}}
		job := &api.Job{ID: "j", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{Name: "x", Driver: "d", VolumeMounts: use}, {Name: "y", Driver: "d", VolumeMounts: use}}}}}
		a := &api.Allocation{ID: id, Job: job, TaskGroup: "g"}
		old := map[string]*store.TaskRecord{}
		for _, task := range []string{"x", "y"} {
			handle, err := json.Marshal(&driver.Handle{Driver: "d", TaskID: id + task})
			if err != nil {
				t.Fatal(err)
			}
			old[task] = &store.TaskRecord{State: &api.TaskState{State: api.TaskStateRunning}, Handle: handle}
		}
		g, err := tasks.New(tasks.Config{
			Alloc: a, Restored: old, Driver: func(string) (driver.Driver, error) { return d, nil }, Changed: func() {}, Log: hclog.NewNullLogger(),
		})
		if err != nil {
			t.Fatal(err)
		}
		led, err := allocs.New(allocs.Config{
			Dirs: dirs.New(t.TempDir()), Store: db, Journal: db.Journal(id), Pace: steps.DefaultPace, Log: hclog.NewNullLogger(),
			Tasks: func(*api.Allocation, dirs.Alloc, map[string]*store.TaskRecord, func()) (allocs.Tasks, error) {
				return g, nil
			},
		}, a, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &entry{alloc: led, group: g})
	}
	return all
}

// Nine tasks of ten allocations do not answer. The others are renewed at once, and those when they do, to the newest.
func TestHungLeasesDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &keepers{answer: make(chan struct{}), renewed: map[string][]int64{}}
		for n := range 9 {
			d.hung = append(d.hung, fmt.Sprintf("a%dx", n))
		}
		c := nodeOf(t, t.TempDir(), electorate{})
		c.volumes = leased(t, mountstest.New("n"), time.Hour)
		c.table = newTable()
		for _, e := range kept(t, d) {
			c.table.entries[e.alloc.ID()] = e
		}
		began := time.Now()
		c.renewLeases(1)
		if now := leasesKept(c.table.all()); len(now) != 1 || !now["a9"] {
			t.Errorf("kept: %v", now)
		}
		if took := time.Since(began); took > 2*renewWait {
			t.Errorf("it took %s", took)
		}
		d.mu.Lock()
		for n := range 10 {
			if y := d.renewed[fmt.Sprintf("a%dy", n)]; !slices.Equal(y, []int64{1}) {
				t.Errorf("a%dy was renewed to %v", n, y)
			}
		}
		d.mu.Unlock()
		for from := range int64(5) {
			c.renewLeases(2 + from)
		}
		close(d.answer)
		synctest.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, id := range append(d.hung, "a0y", "a9x", "a9y") {
			if got := d.renewed[id]; len(got) == 0 || got[len(got)-1] != 6 || !slices.IsSorted(got) {
				t.Errorf("%s was renewed to %v", id, got)
			}
		}
	})
}
