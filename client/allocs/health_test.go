package allocs_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/checks"
)

// deployed makes the allocation of the bench part of a deployment.
func (b *bench) deployed(u api.UpdateStrategy) *bench {
	b.alloc.DeploymentID = "d"
	b.alloc.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true}
	b.alloc.Job.Type = api.JobTypeService
	g := b.alloc.Job.TaskGroups[0]
	g.Volumes, g.Update, g.Tasks = nil, &u, []*api.Task{{Name: "t"}}
	return b
}

var quick = api.UpdateStrategy{MinHealthyTime: 10 * time.Second, HealthyDeadline: time.Minute}

// health is "" while it is not decided.
func health(t *testing.T, a *allocs.Alloc, want string) {
	t.Helper()
	synctest.Wait()
	got := ""
	if s := a.Report().DeploymentStatus; s != nil && s.Healthy != nil {
		got = map[bool]string{true: "healthy", false: "unhealthy"}[*s.Healthy]
	}
	if got != want {
		t.Errorf("health %q, want %q", got, want)
	}
}

func TestHealthIsDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t).deployed(quick)
		var told atomic.Int32
		b.conf.Changed = func(string) { told.Add(1) }
		a := b.make(t)
		wait := start(t.Context(), a)
		time.Sleep(9 * time.Second)
		health(t, a, "")
		before := told.Load()
		time.Sleep(2 * time.Second)
		health(t, a, "healthy")
		if now := told.Load(); now != before+1 {
			t.Errorf("the servers were told %d times", now-before)
		}
		if s := a.Report().DeploymentStatus; !s.Canary || s.Timestamp.IsZero() {
			t.Errorf("status %+v", s)
		}
		late := *b.alloc // the servers have not heard it when they say something else
		late.DesiredDescription = "x"
		a.Update(&late)
		b.work.become(api.TaskStateDead, true)
		health(t, a, "healthy")
		close(b.work.end)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRestartsBeginTheHealthyTimeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t).deployed(quick)
		a := b.make(t)
		wait := start(t.Context(), a)
		time.Sleep(8 * time.Second)
		b.work.become(api.TaskStatePending, false)
		time.Sleep(time.Second)
		b.work.become(api.TaskStateRunning, false)
		time.Sleep(9 * time.Second)
		health(t, a, "")
		time.Sleep(2 * time.Second)
		health(t, a, "healthy")
		a.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUnhealthyAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(*bench)
		after time.Duration
		want  string
	}{
		"task failed":         {func(b *bench) { b.work.become(api.TaskStateDead, true) }, 0, "unhealthy"},
		"task ended":          {func(b *bench) { b.work.become(api.TaskStateDead, false) }, 0, "unhealthy"},
		"never steady, early": {func(b *bench) { b.work.become(api.TaskStatePending, false) }, 50 * time.Second, ""},
		"never steady, late":  {func(b *bench) { b.work.become(api.TaskStatePending, false) }, time.Minute, "unhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t).deployed(quick)
				a := b.make(t)
				wait := start(t.Context(), a)
				synctest.Wait()
				c.do(b)
				time.Sleep(c.after)
				health(t, a, c.want)
				a.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				health(t, a, c.want)
			})
		})
	}
}

func TestNobodyAsksForHealth(t *testing.T) {
	manual := quick
	manual.HealthCheck = "manual"
	for name, prepare := range map[string]func(*bench){
		"manual":        func(b *bench) { b.deployed(manual) },
		"no deployment": func(b *bench) { b.deployed(quick); b.alloc.DeploymentID = "" },
		"being stopped": func(b *bench) { b.deployed(quick); b.alloc.DesiredStatus = api.AllocDesiredStatusStop },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				prepare(b)
				a := b.make(t)
				wait := start(t.Context(), a)
				time.Sleep(2 * time.Minute)
				health(t, a, "")
				a.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				health(t, a, "")
			})
		})
	}
}

func TestSuccessorsOfDrainedAllocationsTellTheirHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t).deployed(quick)
		b.alloc.DeploymentID, b.alloc.DeploymentStatus, b.alloc.PreviousAllocation = "", nil, "a0"
		b.alloc.Job.TaskGroups[0].Migrate = &api.MigrateStrategy{MinHealthyTime: 5 * time.Second, HealthyDeadline: time.Minute}
		a := b.make(t)
		wait := start(t.Context(), a)
		time.Sleep(6 * time.Second)
		health(t, a, "healthy")
		a.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestHealthSurvivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t).deployed(quick)
		ctx, kill := context.WithCancel(t.Context())
		a := b.make(t)
		wait := start(ctx, a)
		time.Sleep(11 * time.Second)
		health(t, a, "healthy")
		kill()
		_ = wait()
		all, err := b.db.Allocs()
		if err != nil {
			t.Fatal(err)
		}
		b.alloc = all["a1"].Alloc
		again := b.make(t)
		health(t, again, "healthy")
		again.Stop()
		if err := start(t.Context(), again)(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestANewDeploymentAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t).deployed(quick)
		a := b.make(t)
		wait := start(t.Context(), a)
		time.Sleep(2 * time.Minute)
		health(t, a, "healthy")
		next := *b.alloc
		next.DeploymentID, next.DeploymentStatus = "d2", nil
		a.Update(&next)
		health(t, a, "")
		time.Sleep(9 * time.Second)
		health(t, a, "")
		time.Sleep(2 * time.Second)
		health(t, a, "healthy")
		a.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFailingChecksMakeAnAllocationUnhealthy(t *testing.T) {
	for mode, want := range map[string]string{"checks": "unhealthy", "": "unhealthy", "task_states": "healthy"} {
		t.Run("health_check "+mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := quick
				u.HealthCheck = mode
				b := setup(t).deployed(u)
				b.alloc.Job.TaskGroups[0].Services = []*api.Service{{
					Name: "web", Provider: "nomad", PortLabel: "missing",
					Checks: []api.ServiceCheck{{Name: "c", Type: "tcp", Interval: time.Second, Timeout: time.Second, CheckRestart: &api.CheckRestart{Limit: 3, Grace: 5 * time.Second}}},
				}}
				b.conf.Checks = checks.New(checks.Config{
					Replace: func(*api.Allocation, string) func(string) string { return func(s string) string { return s } },
					Address: func() string { return "" }, Jitter: func(d time.Duration) time.Duration { return d / 2 },
				})
				a := b.make(t)
				wait := start(t.Context(), a)
				time.Sleep(20 * time.Second)
				health(t, a, map[string]string{"unhealthy": "", "healthy": "healthy"}[want])
				time.Sleep(time.Minute)
				health(t, a, want)
				for _, c := range a.Checks() {
					if c.Status != api.CheckFailure {
						t.Errorf("%+v", c)
					}
				}
				if !slices.Contains(b.all(), `restart t: healthcheck: check "c" unhealthy`) {
					t.Errorf("the task is not restarted: %q", b.all())
				}
				a.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
