package deployments_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// led runs a test with a leader, in time that passes only when all wait.
func led(t *testing.T, fn func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := open(t)
		defer r.lead()()
		fn(t, r)
	})
}

func TestHealthyAllocationsAreEvaluatedTogether(t *testing.T) {
	led(t, func(_ *testing.T, r *rig) {
		r.deploy(nil)
		r.place("a1", nil)
		r.place("a2", nil)
		pass(time.Second)
		r.evals(0)
		r.found("a1", true)
		synctest.Wait()
		r.evals(1)
		r.found("a2", true)
		synctest.Wait()
		r.evals(1) // not so soon again
		pass(time.Second)
		r.evals(2)
		pass(time.Hour)
		r.evals(2)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
	})
}

func TestNoProgressFails(t *testing.T) {
	led(t, func(_ *testing.T, r *rig) {
		r.deploy(nil)
		r.place("a1", nil)
		pass(50 * time.Second)
		r.found("a1", true)
		pass(50 * time.Second)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		pass(11 * time.Second)
		r.status(api.DeploymentStatusFailed, "Failed due to progress deadline")
		r.evals(2)
	})
}

func TestPausedDeploymentsDoNotFail(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(nil)
		r.place("a1", nil)
		if _, err := r.Pause(t.Context(), &api.DeploymentPauseRequest{DeploymentID: "d", Pause: true}); err != nil {
			t.Fatal(err)
		}
		r.found("a1", false)
		pass(time.Hour)
		r.status(api.DeploymentStatusPaused, "Deployment is paused")
		if r.state.Read().Alloc("a1").DesiredTransition.Reschedule {
			t.Error("a paused deployment goes on")
		}
		if _, err := r.Pause(t.Context(), &api.DeploymentPauseRequest{DeploymentID: "d"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		if !r.state.Read().Alloc("a1").DesiredTransition.Reschedule {
			t.Error("the resumed deployment does not go on")
		}
		pass(time.Minute)
		r.status(api.DeploymentStatusFailed, "Failed due to progress deadline")
	})
}

func TestUnhealthyAllocationsAreReplacedWhileAttemptsLast(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(nil)
		r.place("a1", nil)
		r.found("a1", false)
		synctest.Wait()
		if !r.state.Read().Alloc("a1").DesiredTransition.Reschedule {
			t.Fatal("not marked")
		}
		r.evals(1)
		pass(5 * time.Second)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		r.place("a2", func(a *api.Allocation) {
			a.RescheduleTracker = &api.RescheduleTracker{Events: []*api.RescheduleEvent{{RescheduleTime: time.Now().UnixNano(), PrevAllocID: "a1"}}}
		})
		r.found("a2", false)
		pass(time.Second)
		r.status(api.DeploymentStatusFailed, "Failed due to unhealthy allocations")
	})
}

func TestFailsAtOnceWithoutProgressDeadline(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(func(_ *api.Deployment, g *api.DeploymentState) { g.ProgressDeadline, g.AutoRevert = 0, true })
		r.place("a1", nil)
		pass(time.Hour)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		r.found("a1", false)
		synctest.Wait()
		r.status(api.DeploymentStatusFailed, "Failed due to unhealthy allocations - rolling back to job version 0")
		j := r.state.Read().Job("default", "web")
		if j.Version != 2 || j.TaskGroups[0].Tasks[0].Config["command"] != "one" {
			t.Errorf("job is at version %d with %v", j.Version, j.TaskGroups[0].Tasks[0].Config)
		}
		r.evals(1)
	})
}

func TestPromotesItself(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(canaries(2, true))
		r.place("a1", canary)
		r.place("a2", canary)
		r.found("a1", true)
		pass(time.Second)
		if r.deployment().TaskGroups["g"].Promoted {
			t.Fatal("promoted with one healthy canary of two")
		}
		r.found("a2", true)
		pass(time.Second)
		if !r.deployment().TaskGroups["g"].Promoted {
			t.Fatal("not promoted")
		}
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		r.evals(2)
	})
}

func TestCanariesThatWaitForAUserAreNoLackOfProgress(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(canaries(1, false))
		r.place("a1", canary)
		r.found("a1", true)
		pass(time.Hour)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		if _, err := r.Promote(t.Context(), &api.DeploymentPromoteRequest{DeploymentID: "d", All: true}); err != nil {
			t.Fatal(err)
		}
		pass(50 * time.Second) // its time begins with the promotion
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		pass(11 * time.Second)
		r.status(api.DeploymentStatusFailed, "Failed due to progress deadline")
	})
}

func TestVersionsOfSuccessfulDeploymentsAreStable(t *testing.T) {
	for name, late := range map[string]bool{"seen": false, "found by the next leader": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := open(t)
				r.deploy(nil)
				if !late {
					defer r.lead()()
				}
				r.put(func(tx *state.Txn) {
					d := *tx.Deployment("d")
					d.Status = api.DeploymentStatusSuccessful
					tx.PutDeployment(&d)
				})
				if late {
					defer r.lead()()
				}
				synctest.Wait()
				tx := r.state.Read()
				if !tx.JobVersion("default", "web", 1).Stable || !tx.Job("default", "web").Stable {
					t.Error("not stable")
				}
				steps := r.raft.steps
				pass(time.Hour)
				if r.raft.steps != steps {
					t.Errorf("%d further steps", r.raft.steps-steps)
				}
				r.evals(0)
			})
		})
	}
}

func TestTheNextLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t)
		end := r.lead()
		r.deploy(nil)
		r.place("a1", nil)
		end()
		r.found("a1", true) // nobody leads
		defer r.lead()()
		r.evals(1)
		pass(2 * time.Minute)
		r.status(api.DeploymentStatusFailed, "Failed due to progress deadline")
	})
}

func TestFailedStepsAreTriedAgain(t *testing.T) {
	led(t, func(_ *testing.T, r *rig) {
		r.raft.fail = 2
		r.deploy(nil)
		r.place("a1", nil)
		r.found("a1", true)
		synctest.Wait()
		r.evals(0)
		pass(5 * time.Second)
		r.evals(1)
		if r.raft.steps != 3 {
			r.t.Errorf("%d steps", r.raft.steps)
		}
	})
}

func TestAMovedCanaryIsNoLackOfProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t)
		defer r.lead()()
		r.deploy(func(d *api.Deployment, g *api.DeploymentState) { canaries(1, false)(d, g); g.AutoRevert = true })
		r.place("c1", canary)
		r.found("c1", true)
		pass(2 * time.Hour) // nobody promotes
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		r.put(func(tx *state.Txn) { // what a drain of its node makes of it
			old := tx.Alloc("c1")
			next := *old
			next.DesiredStatus, next.ClientStatus, next.NextAllocation = api.AllocDesiredStatusStop, api.AllocClientStatusComplete, "c2"
			tx.PutAlloc(&next)
			tally.AllocChanged(tx, old, &next)
		})
		r.place("c2", canary)
		pass(5 * time.Second)
		r.status(api.DeploymentStatusRunning, "Deployment is running")
		if v := r.state.Read().Job("default", "web").Version; v != 1 {
			t.Errorf("the job was rolled back: version %d", v)
		}
	})
}

func TestACanaryThatIsNeverHealthyIsALackOfProgress(t *testing.T) {
	led(t, func(t *testing.T, r *rig) {
		r.deploy(canaries(1, false))
		r.place("c1", canary)
		pass(2 * time.Hour)
		r.status(api.DeploymentStatusFailed, "Failed due to progress deadline")
	})
}
