package tasks_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Renew ends a task whose lease was over, as a supervising process does: an old time never helps.
func (s *scripted) Renew(id string, from int64) error {
	p, err := s.process(id)
	if err == nil && from < 0 {
		p.end(driver.Exit{Code: 137, Signal: 9, LeaseEnded: true, Err: "lease"})
	}
	return err
}

func withVolume(name string) *api.Task {
	return &api.Task{Name: name, VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "d"}}}
}

// withLease gives the group a volume that has a lease.
func (b *bench) withLease() {
	b.mounts = map[string]driver.Mount{"data": {Source: "/v"}}
	b.lease = &driver.Lease{Term: api.LeaseTerm{Term: time.Minute}, From: 5, Unmount: []string{"/v"}}
}

func TestTaskWhoseLeaseEndedFailsWithoutAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withVolume("t"))
		b.withLease()
		wait := b.run(t.Context())
		synctest.Wait()
		if got := b.driver.started[0].Lease; got != b.lease {
			t.Fatalf("the driver was given the lease %+v", got)
		}
		b.Renew(-1)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		s := b.States()["t"]
		if !s.Failed || s.Restarts != 0 || !slices.Contains(events(s), api.EventNotRestarting) {
			t.Errorf("state %+v, events %v", s, events(s))
		}
	})
}

// leaseless is a driver that keeps no leases.
type leaseless struct {
	driver.Driver
	mu    sync.Mutex
	stops []string
}

func (l *leaseless) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	l.mu.Lock()
	l.stops = append(l.stops, signal+" "+timeout.String())
	l.mu.Unlock()
	return l.Driver.Stop(ctx, id, signal, timeout)
}

// deputy stands for a driver that may keep leases, and says that this one does not.
type deputy struct{ leaseless }

func (*deputy) Renew(string, int64) error {
	return fault.New(fault.Unimplemented, "this driver keeps no leases")
}

func TestADriverThatSaysThatItKeepsNoLeasesIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withVolume("t"))
		b.withLease()
		d := &deputy{leaseless{Driver: b.driver}}
		b.instead = d
		wait := b.run(t.Context())
		synctest.Wait()
		if b.LeaseKept() {
			t.Error("the lease is taken for kept")
		}
		if l := b.driver.started[0].Lease; l == nil || !l.Shared {
			t.Errorf("the task got the lease %+v: other tasks use the volume without one", l)
		}
		b.KillUnleased(t.Context())
		synctest.Wait()
		if !slices.Contains(d.stops, "SIGKILL 0s") {
			t.Errorf("the task was stopped by %q", d.stops)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTaskOfADriverThatKeepsNoLeasesIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", withVolume("t"))
		b.withLease()
		wait := b.run(t.Context())
		synctest.Wait()
		if !b.LeaseKept() {
			t.Error("the driver keeps leases, and that is not seen")
		}
		b.KillUnleased(t.Context())
		synctest.Wait()
		if s := b.States()["t"]; s.State != api.TaskStateRunning {
			t.Errorf("a task whose driver keeps its lease is %s", s.State)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		task := withVolume("t")
		task.KillTimeout = time.Hour
		b := setup(t, "service", task)
		b.withLease()
		d := &leaseless{Driver: b.driver}
		b.instead = d
		wait := b.run(t.Context())
		synctest.Wait()
		if b.LeaseKept() {
			t.Error("the driver keeps no leases")
		}
		b.Stop()
		b.KillUnleased(t.Context())
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Contains(d.stops, "SIGKILL 0s") {
			t.Errorf("the task was stopped by %q", d.stops)
		}
	})
}

// besides has some tasks run by a driver that keeps no leases.
func (b *bench) besides(t *testing.T, tasks ...*api.Task) *leaseless {
	t.Helper()
	for _, task := range tasks {
		task.Driver = "leaseless"
	}
	fakes, other := b.conf.Driver, &leaseless{Driver: newScripted()}
	b.conf.Driver = func(name string) (driver.Driver, error) {
		if name == "leaseless" {
			return other, nil
		}
		return fakes(name)
	}
	b.renew(t)
	return other
}

func TestTaskWithoutALeaseKeepsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"}) // it mounts nothing, so that it gets no lease
		b.lease = &driver.Lease{Term: api.LeaseTerm{Term: time.Minute}}
		wait := b.run(t.Context())
		synctest.Wait()
		if b.LeaseKept() {
			t.Error("a task that was given no lease is said to keep it")
		}
		b.KillUnleased(t.Context())
		synctest.Wait()
		if s := b.States()["t"]; s.State != api.TaskStateRunning {
			t.Errorf("a task that uses no volume is %s", s.State)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTaskThatKeepsItsLeaseDoesNotSpeakForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept, other, sidecar := withVolume("kept"), withVolume("other"), &api.Task{Name: "sidecar"}
		b := setup(t, "service", kept, other, sidecar)
		b.withLease()
		d := b.besides(t, other, sidecar)
		wait := b.run(t.Context())
		b.until(t, "all run", running("kept", "other", "sidecar"))
		if b.LeaseKept() {
			t.Error("nobody keeps the lease of one task, and the node would not stop it in time")
		}
		if l := b.driver.started[0].Lease; l == nil || !l.Shared || b.lease.Shared {
			t.Errorf("the driver was given %+v: it would hide what the other task writes", l)
		}
		for range 3 {
			b.KillUnleased(t.Context())
		}
		synctest.Wait()
		if !slices.Equal(slices.Compact(d.stops), []string{"SIGKILL 0s"}) { // once more when the first has been done
			t.Errorf("tasks were stopped by %q", d.stops)
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// The task that mounted the volume has ended: nobody is there who has dirty pages written back, but the agent.
func TestNobodyKeepsALeaseForWhatRunsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := withVolume("short")
		short.Config = lasting(time.Second, 0)
		b := setup(t, "batch", short, &api.Task{Name: "sidecar"})
		b.withLease()
		wait := b.run(t.Context())
		b.until(t, "one has ended", func(s map[string]*api.TaskState) bool { return s["short"].State == api.TaskStateDead })
		synctest.Wait() // its end is told before it is left
		if b.LeaseKept() {
			t.Error("a task without a lease is said to keep it")
		}
		b.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTaskWithoutVolumesHasNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		b.lease = &driver.Lease{Term: api.LeaseTerm{Term: time.Minute}}
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		if got := b.driver.started[0].Lease; got != nil {
			t.Errorf("the driver was given the lease %+v", got)
		}
	})
}

// What a task writes where its volume was mounted would be lost. It may be unmounted while the task is started, too.
func TestTaskIsNotStartedWithoutItsVolume(t *testing.T) {
	for name, at := range map[string]int{"before the start": 1, "during the start": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, "service", &api.Task{Name: "t", VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "d"}}})
				b.mounts = map[string]driver.Mount{"data": {Source: "/v"}}
				looks := 0
				b.conf.Mounted = func() error {
					if looks++; looks == at {
						return fault.New(fault.Unavailable, "volume is not mounted any more")
					}
					return nil
				}
				b.renew(t)
				wait := b.run(t.Context())
				b.until(t, "it runs", running("t"))
				if n := len(b.driver.started); n != at || b.States()["t"].Restarts != 1 {
					t.Errorf("started %d times after %d restarts", n, b.States()["t"].Restarts)
				}
				b.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// After a restart of the agent the tasks are taken up when all volumes of their allocation are there: one of them may be
// waited for without end, and the leases of the others go on, also of an attempt that is on no record.
func TestLeaseOfATaskIsKeptBeforeItIsTakenUpAgain(t *testing.T) {
	for name, leases := range map[string]bool{"by the driver": true, "by the agent": false} {
		for record, kept := range map[string]bool{"on record": true, "not on record": false} {
			t.Run(name+", "+record, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := setup(t, "service", withVolume("t"))
					b.withLease()
					d := &leaseless{Driver: b.driver}
					if !leases {
						b.instead = d
					}
					ctx, end := context.WithCancel(t.Context())
					wait := b.run(ctx)
					synctest.Wait()
					end()
					_ = wait()
					b.renew(t) // the next agent process, which mounts volumes first
					if !kept { // the one before had no time to record what it had begun
						b.conf.Restored = nil
						var err error
						if b.Group, err = tasks.New(b.conf); err != nil {
							t.Fatal(err)
						}
					}
					if b.LeaseKept() != leases {
						t.Errorf("the lease is kept: %v", !leases)
					}
					if leases {
						b.Renew(-1)
					} else {
						b.KillUnleased(t.Context())
					}
					synctest.Wait()
					p, err := b.driver.process("a1/t/1")
					if err != nil {
						t.Fatal(err)
					}
					select {
					case <-p.done:
					default:
						t.Error("the task did not hear of its lease")
					}
				})
			})
		}
	}
}
