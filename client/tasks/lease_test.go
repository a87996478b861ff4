package tasks_test

import (
	"slices"
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
		b.lease = &driver.Lease{Term: time.Minute, From: 5, Unmount: []string{"/v"}}
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

func TestTaskWithoutVolumesHasNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, "batch", &api.Task{Name: "t", Config: lasting(time.Second, 0)})
		b.lease = &driver.Lease{Term: time.Minute}
		if err := b.run(t.Context())(); err != nil {
			t.Fatal(err)
		}
		if got := b.driver.started[0].Lease; got != nil {
			t.Errorf("the driver was given the lease %+v", got)
		}
	})
}
