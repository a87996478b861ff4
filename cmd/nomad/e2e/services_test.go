package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestServicesFollowTheirJob: a version whose check fails is rolled back, the instances stay registered meanwhile, and end with
// the job.
func TestServicesFollowTheirJob(t *testing.T) {
	a := kit.Start(t)
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := func(l net.Listener) string { return fmt.Sprint(l.Addr().(*net.TCPAddr).Port) }
	refusing := port(closed)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	version := func(port, tag string) *api.Job {
		j := versioned("web", fmt.Sprintf(sleeps, tag), 2, rollout(func(u *api.UpdateStrategy) {
			healthy, progress, yes, checks := 5*time.Second, 6*time.Second, true, "checks"
			u.HealthyDeadline, u.ProgressDeadline, u.AutoRevert, u.HealthCheck = &healthy, &progress, &yes, &checks
		}))
		j.TaskGroups[0].Services = []*api.Service{{
			Name: "web", Provider: "nomad", PortLabel: port, Address: "127.0.0.1", Tags: []string{tag},
			Checks: []api.ServiceCheck{{Type: "tcp", Interval: time.Second, Timeout: time.Second}},
		}}
		return j
	}
	instances := func() []*api.ServiceRegistration {
		t.Helper()
		all, _, err := a.API.Services().Get("web", nil)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	a.Register(version(port(open), "one"))
	deployed(t, a, "web", 0, "successful")
	for _, i := range instances() {
		if i.Address != "127.0.0.1" || fmt.Sprint(i.Port) != port(open) || len(i.Tags) != 1 || i.Tags[0] != "one" {
			t.Errorf("instance %+v", i)
		}
	}
	if n := len(instances()); n != 2 {
		t.Errorf("%d instances, want 2", n)
	}

	a.Register(version(refusing, "two"))
	if d := deployed(t, a, "web", 2, "successful"); d.TaskGroups["g"].HealthyAllocs != 2 {
		t.Errorf("the deployment that goes back: %+v", d.TaskGroups["g"])
	}
	a.Until(10*time.Second, "only the first version to be registered", func() error {
		all := instances()
		for _, i := range all {
			if i.Tags[0] != "one" {
				return fmt.Errorf("instance of version %v", i.Tags)
			}
		}
		if len(all) != 2 {
			return fmt.Errorf("%d instances", len(all))
		}
		return nil
	})
	if _, _, err := a.API.Jobs().Deregister("web", true, nil); err != nil {
		t.Fatal(err)
	}
	a.Until(20*time.Second, "nothing to be registered", func() error {
		if n := len(instances()); n > 0 {
			return fmt.Errorf("%d instances", n)
		}
		return nil
	})
}
