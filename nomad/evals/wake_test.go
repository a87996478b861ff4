package evals_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// register stores a new version of a job with an evaluation.
func (w *world) register(eval string, j *api.Job) {
	w.write(func(tx *state.Txn) {
		j.Namespace, j.Priority, j.JobModifyIndex = "default", 50, tx.Index()
		if old := tx.Job("default", j.ID); old != nil {
			j.Version = old.Version + 1
		}
		tx.PutJob(j)
		tx.PutJobVersion(j)
		tx.PutEval(&api.Evaluation{
			ID: eval, Namespace: "default", JobID: j.ID, Type: j.Type, Priority: 50, Status: api.EvalStatusPending,
			TriggeredBy: api.TriggerJobRegister, JobModifyIndex: tx.Index(),
		})
	})
}

func sized(name string, cpu int, on ...*api.Constraint) *api.TaskGroup {
	return &api.TaskGroup{Name: name, Count: 1, Constraints: on, Tasks: []*api.Task{{
		Name: "t", Driver: "mock", Resources: &api.Resources{CPU: cpu, MemoryMB: 100},
	}}}
}

func service(id string, cpu int) *api.Job {
	return &api.Job{ID: id, Type: api.JobTypeService, TaskGroups: []*api.TaskGroup{sized("g", cpu)}}
}

// change changes all live allocations of the job.
func (w *world) change(job string, how func(*api.Allocation)) {
	w.write(func(tx *state.Txn) {
		for _, a := range w.live(job) {
			next := *a
			how(&next)
			tx.PutAlloc(&next)
		}
	})
}

func runs(a *api.Allocation) { a.ClientStatus = api.AllocClientStatusRunning }

func ends(a *api.Allocation) {
	a.ClientStatus = api.AllocClientStatusComplete
	a.TaskStates = map[string]*api.TaskState{"t": {State: api.TaskStateDead}}
}

func (w *world) changeNode(id string, how func(*api.Node)) {
	w.write(func(tx *state.Txn) {
		n := *tx.Node(id)
		how(&n)
		tx.PutNode(&n)
	})
}

func inZone(zone string, cpu int64) func(*api.Node) {
	return func(n *api.Node) {
		n.Meta = map[string]string{"zone": zone}
		res := *n.NodeResources
		res.Cpu.CpuShares = cpu
		n.NodeResources = &res
	}
}

// onePerZone has group a on n1; group b does not fit there and waits for a's zone.
func (w *world) onePerZone(kind string) {
	w.t.Helper()
	for id, cpu := range map[string]int64{"n1": 500, "n2": 1000} {
		w.node(id)
		w.changeNode(id, inZone("z1", cpu))
	}
	w.register(evalID(1), &api.Job{
		ID: "j", Type: kind, Constraints: []*api.Constraint{{Operand: "distinct_property", LTarget: "${meta.zone}"}},
		TaskGroups: []*api.TaskGroup{
			sized("a", 400, &api.Constraint{LTarget: "${node.unique.name}", Operand: "=", RTarget: "n1"}), sized("b", 800),
		},
	})
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	if e.FailedTGAllocs["b"] == nil || len(w.live("j")) != 1 {
		w.t.Fatalf("group b does not wait: %+v", e.FailedTGAllocs)
	}
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
}

// What was freed is the property; the capacity is on another node.
func TestAFreedPropertyWakes(t *testing.T) {
	w := newWorld(t)
	w.onePerZone(api.JobTypeBatch)
	w.change("j", ends)
	w.untilLive("j", 1)
}

func TestAPropertyThatANodeNoLongerHasWakes(t *testing.T) {
	w := newWorld(t)
	w.onePerZone(api.JobTypeService)
	w.changeNode("n1", inZone("z2", 500))
	w.untilLive("j", 2)
}

// A node of 1000 MHz runs a with 600 and b with 400; a is to have 800.
func (w *world) grows() {
	w.t.Helper()
	w.node("n1")
	w.register(evalID(1), service("a", 600))
	w.untilLive("a", 1)
	w.register(evalID(2), service("b", 400))
	w.untilLive("b", 1)
	w.change("a", runs)
	w.register(evalID(3), service("a", 800))
	e := w.untilEval(evalID(3), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
}

func (w *world) untilVersion(job string, version uint64) {
	w.t.Helper()
	w.until(fmt.Sprintf("version %d of %s", version, job), []state.Key{state.JobAllocsKey("default", job)}, func(*state.Txn) bool {
		live := w.live(job)
		return len(live) == 1 && live[0].Job.Version == version
	})
}

func TestAnUpdateWakesWhenItsOwnRoomAndTheFreedRoomAreEnough(t *testing.T) {
	w := newWorld(t)
	w.grows()
	w.change("b", ends)
	w.untilVersion("a", 1)
}

// The same while another server begins to lead.
func TestAnUpdateBlockedBeforeTheTermWakes(t *testing.T) {
	w := newWorld(t)
	w.grows()
	w.stop()
	w.lead(evals.Config{})
	w.change("b", ends)
	w.untilVersion("a", 1)
}

func TestRoomThatCameBetweenTermsWakes(t *testing.T) {
	w := newWorld(t)
	w.grows()
	w.stop()
	w.change("b", ends)
	w.lead(evals.Config{})
	w.untilVersion("a", 1)
}

func TestAPropertyFreedBetweenTermsWakes(t *testing.T) {
	w := newWorld(t)
	w.onePerZone(api.JobTypeBatch)
	w.stop()
	w.change("j", ends)
	w.lead(evals.Config{})
	w.untilLive("j", 1)
}

func TestPreemptionSwitchedOnWakes(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.register(evalID(1), service("low", 800))
	w.untilLive("low", 1)
	w.write(func(tx *state.Txn) {
		j := *tx.Job("default", "low")
		j.Priority = 10
		tx.PutJob(&j)
		for _, a := range w.live("low") {
			next := *a
			next.Job = &j
			tx.PutAlloc(&next)
		}
	})
	w.register(evalID(2), service("high", 800))
	e := w.untilEval(evalID(2), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.write(func(tx *state.Txn) {
		c := *tx.SchedulerConfig()
		c.PreemptionConfig.ServiceSchedulerEnabled = true
		tx.PutSchedulerConfig(&c)
	})
	w.untilLive("high", 1)
}

// Who runs for less may have to give way to those for whom it was too dear before.
func TestALowerPriorityWakesWhoMayEvict(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.write(func(tx *state.Txn) {
		c := *tx.SchedulerConfig()
		c.PreemptionConfig.ServiceSchedulerEnabled = true
		tx.PutSchedulerConfig(&c)
	})
	w.register(evalID(1), service("dear", 800))
	w.untilLive("dear", 1)
	w.register(evalID(2), service("waits", 800))
	e := w.untilEval(evalID(2), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.write(func(tx *state.Txn) {
		j := *tx.Job("default", "dear")
		j.Priority = 10
		tx.PutJob(&j)
		for _, a := range w.live("dear") {
			next := *a
			next.Job = &j
			tx.PutAlloc(&next)
		}
	})
	w.untilLive("waits", 1)
}

// No wake-up knows of a node that changed without its row saying so; the sweep finds such a mistake and counts it.
func TestTheSweepFindsWhatNobodyWoke(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.register(evalID(1), service("j", 2000))
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	b := w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.stop()
	w.write(func(tx *state.Txn) { // a refusal that forgot what it was for
		next := *b
		next.SnapshotIndex = tx.Index() + 10
		next.ClassEligibility = map[string]bool{"c": false}
		tx.PutEval(&next)
	})
	w.missed = 1
	w.lead(evals.Config{SweepEvery: 10 * time.Millisecond})
	w.changeNode("n1", inZone("z", 3000))
	w.untilLive("j", 1)
}

func TestTheSweepLetsThoseWaitWhoMust(t *testing.T) {
	w := unled(t)
	w.lead(evals.Config{SweepEvery: time.Millisecond})
	w.grows()
	w.change("b", ends)
	w.untilVersion("a", 1)
}

func TestADryRunCreatesWhatWouldFollowOnly(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	j := service("j", 500)
	j.Namespace, j.Priority = "default", 50
	if p := evals.Plan(w.store.Read(), j, time.Now()); len(p.Created) != 0 || len(p.Failed) != 0 {
		t.Errorf("%+v", p)
	}
	j.TaskGroups[0].Count = 5
	if p := evals.Plan(w.store.Read(), j, time.Now()); len(p.Created) != 1 || p.Created[0].Status != api.EvalStatusBlocked {
		t.Errorf("%+v", p)
	}
}

// Who has failed to roll a version out goes on in the older one, which asks for less.
func TestWhatAnOlderVersionHadWakesAfterAFailedRollOut(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"n1", "n2"} {
		w.node(id)
		w.changeNode(id, inZone("z", 500))
	}
	version := func(cpu int) *api.Job {
		j := service("j", cpu)
		j.TaskGroups[0].Update = &api.UpdateStrategy{MaxParallel: 1, Canary: 2}
		return j
	}
	decided := func(status string) {
		w.write(func(tx *state.Txn) {
			for d := range tx.DeploymentsByJob("default", "j") {
				if d.Active() {
					over := *d
					over.Status = status
					tx.PutDeployment(&over)
				}
			}
		})
	}
	w.register(evalID(1), version(400))
	w.untilLive("j", 1)
	w.change("j", runs)
	decided(api.DeploymentStatusSuccessful)
	w.register(evalID(2), service("other", 400))
	w.untilLive("other", 1)
	w.register(evalID(3), version(800))
	w.untilEval(evalID(3), api.EvalStatusComplete)
	decided(api.DeploymentStatusFailed)
	w.changeNode(w.live("j")[0].NodeID, func(n *api.Node) { n.Status = api.NodeStatusDown })
	w.write(func(tx *state.Txn) {
		tx.PutEval(&api.Evaluation{
			ID: evalID(4), Namespace: "default", JobID: "j", Type: api.JobTypeService, Priority: 50, Status: api.EvalStatusPending,
			TriggeredBy: api.TriggerNodeUpdate,
		})
	})
	e := w.untilEval(evalID(4), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.change("other", ends)
	w.untilVersion("j", 0)
}
