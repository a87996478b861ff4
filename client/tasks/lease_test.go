package tasks_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
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

func TestTaskWhoseLeaseEndedFailsWithoutAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t", VolumeMounts: []*api.VolumeMount{{Volume: "data", Destination: "d"}}})
		b.mounts = map[string]driver.Mount{"data": {Source: "/v"}}
		b.lease = &driver.Lease{Term: api.LeaseTerm{Term: time.Minute}, From: 5, Unmount: []string{"/v"}}
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

func TestTaskOfADriverThatKeepsNoLeasesIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "service", &api.Task{Name: "t"})
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
		b := setup(t, "service", &api.Task{Name: "t", KillTimeout: time.Hour})
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
