package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// rollout describes how the versions of a job follow each other, fast enough for a test.
func rollout(edit func(*api.UpdateStrategy)) *api.UpdateStrategy {
	least, healthy, progress, one, zero, no := 200*time.Millisecond, 30*time.Second, time.Minute, 1, 0, false
	u := &api.UpdateStrategy{
		MaxParallel: &one, Canary: &zero, MinHealthyTime: &least, HealthyDeadline: &healthy, ProgressDeadline: &progress,
		AutoRevert: &no, AutoPromote: &no,
	}
	if edit != nil {
		edit(u)
	}
	return u
}

// versioned is a job of some allocations that run a script.
func versioned(id, script string, count int, u *api.UpdateStrategy) *api.Job {
	j := kit.ShellJob(id, script)
	j.TaskGroups[0].Count, j.TaskGroups[0].Update = &count, u
	j.TaskGroups[0].ReschedulePolicy = reschedule(0, false)
	return j
}

const sleeps = "echo %s; exec sleep 3600"

// deployed waits until the job's newest deployment is of the version and has the status.
func deployed(t *testing.T, a *kit.Agent, job string, version uint64, status string) *api.Deployment {
	t.Helper()
	var d *api.Deployment
	a.Until(40*time.Second, fmt.Sprintf("the deployment of %s version %d to be %s", job, version, status), func() (err error) {
		d, _, err = a.API.Jobs().LatestDeployment(job, nil)
		switch {
		case err != nil:
			return err
		case d == nil:
			return fmt.Errorf("there is none")
		case d.JobVersion != version || d.Status != status:
			return fmt.Errorf("version %d is %s (%s): %+v", d.JobVersion, d.Status, d.StatusDescription, d.TaskGroups["g"])
		}
		return nil
	})
	return d
}

// runs are the versions of the allocations that run and are meant to, and how many of each.
func runs(a *kit.Agent, job string) map[uint64]int {
	out := map[uint64]int{}
	for _, s := range a.Allocs(job, "running") {
		if s.DesiredStatus == "run" {
			out[s.JobVersion]++
		}
	}
	return out
}

func stable(t *testing.T, a *kit.Agent, job string, version uint64) {
	t.Helper()
	a.Until(5*time.Second, fmt.Sprintf("version %d of %s to be stable", version, job), func() error {
		all, _, _, err := a.API.Jobs().Versions(job, false, nil)
		if err != nil {
			return err
		}
		for _, j := range all {
			if *j.Version == version && *j.Stable {
				return nil
			}
		}
		return fmt.Errorf("it is not")
	})
}

func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	const count = 3
	a.Register(versioned("w", fmt.Sprintf(sleeps, "one"), count, rollout(nil)))
	d := deployed(t, a, "w", 0, "successful")
	if g := d.TaskGroups["g"]; g.DesiredTotal != count || g.HealthyAllocs != count || g.PlacedAllocs != count {
		t.Errorf("first deployment %+v", g)
	}
	stable(t, a, "w", 0)

	a.Register(versioned("w", fmt.Sprintf(sleeps, "two"), count, rollout(nil)))
	a.Until(40*time.Second, "all to be replaced", func() error {
		all, _, err := a.API.Jobs().Allocations("w", true, nil)
		if err != nil {
			return err
		}
		undecided, old, healthy := 0, 0, 0
		for _, s := range all {
			switch {
			case s.DesiredStatus != "run":
			case s.JobVersion == 0:
				old++
			case s.DeploymentStatus == nil || s.DeploymentStatus.Healthy == nil:
				undecided++
			default:
				healthy++
			}
		}
		if undecided > 1 || old+undecided+healthy > count {
			t.Fatalf("%d of the new version start at once, %d old and %d healthy ones are there", undecided, old, healthy)
		}
		if healthy != count {
			return fmt.Errorf("%d old, %d starting, %d healthy", old, undecided, healthy)
		}
		return nil
	})
	if d := deployed(t, a, "w", 1, "successful"); d.TaskGroups["g"].HealthyAllocs != count || d.StatusDescription != "Deployment completed successfully" {
		t.Errorf("second deployment: %s %+v", d.StatusDescription, d.TaskGroups["g"])
	}
	stable(t, a, "w", 1)
	if got := runs(a, "w"); got[1] != count || got[0] != 0 {
		t.Errorf("versions that run: %v", got)
	}
}

func TestCanariesWaitForTheirPromotion(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	canary := rollout(func(u *api.UpdateStrategy) { one := 1; u.Canary = &one })
	a.Register(versioned("w", fmt.Sprintf(sleeps, "one"), 2, canary))
	deployed(t, a, "w", 0, "successful")
	a.Register(versioned("w", fmt.Sprintf(sleeps, "two"), 2, canary))
	var d *api.Deployment
	a.Until(20*time.Second, "a healthy canary", func() error {
		d = deployed(t, a, "w", 1, "running")
		if g := d.TaskGroups["g"]; g.HealthyAllocs != 1 || len(g.PlacedCanaries) != 1 {
			return fmt.Errorf("%+v", g)
		}
		return nil
	})
	if want := "Deployment is running but requires manual promotion"; d.StatusDescription != want {
		t.Errorf("description %q", d.StatusDescription)
	}
	if got := runs(a, "w"); got[0] != 2 || got[1] != 1 {
		t.Errorf("versions that run beside the canary: %v", got)
	}
	if _, _, err := a.API.Deployments().PromoteGroups(d.ID, []string{"nothing"}, nil); err == nil || !strings.Contains(err.Error(), "no such group") {
		t.Errorf("promotion of a group that is not there: %v", err)
	}
	a.Kill() // the deployment outlives its agent
	a.Launch()
	if _, _, err := a.API.Deployments().PromoteAll(d.ID, nil); err != nil {
		t.Fatal(err)
	}
	d = deployed(t, a, "w", 1, "successful")
	if g := d.TaskGroups["g"]; !g.Promoted || g.HealthyAllocs != 2 {
		t.Errorf("promoted deployment %+v", g)
	}
	a.Until(10*time.Second, "two of the new version", func() error {
		if got := runs(a, "w"); got[0] != 0 || got[1] != 2 {
			return fmt.Errorf("versions that run: %v", got)
		}
		return nil
	})
	if _, _, err := a.API.Deployments().PromoteAll(d.ID, nil); err == nil || !strings.Contains(err.Error(), "can't promote terminal deployment") {
		t.Errorf("promotion of a deployment that is over: %v", err)
	}
}

func TestAFailedDeploymentGoesBack(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	back := rollout(func(u *api.UpdateStrategy) { yes := true; u.AutoRevert = &yes })
	a.Register(versioned("w", fmt.Sprintf(sleeps, "one"), 2, back))
	deployed(t, a, "w", 0, "successful")
	stable(t, a, "w", 0)
	a.Register(versioned("w", "exit 1", 2, back))
	a.Until(30*time.Second, "the deployment to fail", func() error {
		all, _, err := a.API.Jobs().Deployments("w", true, nil)
		if err != nil {
			return err
		}
		for _, d := range all {
			if want := "Failed due to unhealthy allocations - rolling back to job version 0"; d.JobVersion == 1 && d.Status == "failed" && d.StatusDescription == want {
				return nil
			} else if d.JobVersion == 1 {
				return fmt.Errorf("it is %s (%s)", d.Status, d.StatusDescription)
			}
		}
		return fmt.Errorf("there is none")
	})
	deployed(t, a, "w", 2, "successful")
	a.Until(10*time.Second, "two of the old specification", func() error {
		if got := runs(a, "w"); got[1] != 0 || got[0]+got[2] != 2 {
			return fmt.Errorf("versions that run: %v", got)
		}
		return nil
	})
	j, _, err := a.API.Jobs().Info("w", nil)
	if err != nil || *j.Version != 2 || !strings.Contains(fmt.Sprint(j.TaskGroups[0].Tasks[0].Config["args"]), "one") {
		t.Errorf("job is at version %d with %v, %v", *j.Version, j.TaskGroups[0].Tasks[0].Config, err)
	}
}
