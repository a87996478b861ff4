package model_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The sequences in which this system and the compatible one were found to differ. The model says what is right at each
// step; what it leaves open is said by wants.
func TestRecordedSequencesEndAsTheSpecificationSays(t *testing.T) {
	for name, steps := range recorded() {
		t.Run(name, func(t *testing.T) {
			if err := playing(t, steps); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func one(id, kind string, count, cpu int, change ...func(*want)) want {
	w := want{id: id, kind: kind, priority: 50, work: "a", groups: []groupWant{{count: count, cpu: cpu}}}
	for _, f := range change {
		f(&w)
	}
	return w
}

func with(priority int, work string) func(*want) {
	return func(w *want) { w.priority, w.work = priority, work }
}

func ruled(rule string) func(*want) { return func(w *want) { w.groups[0].rule = rule } }

func silent(how string) func(*want) { return func(w *want) { w.silence = how } }

func rolls(u api.UpdateStrategy) func(*want) {
	return func(w *want) {
		u.HealthCheck, u.HealthyDeadline, u.MinHealthyTime = "task_states", 5*time.Minute, time.Second
		w.roll = &u
	}
}

// runs wants so many of a job to live.
func runs(job string, n int) step {
	return wants(job+" runs", func(tx *state.Txn) bool { return len(live(tx, job)) == n })
}

func waits(job string) step {
	return wants(job+" waits", func(tx *state.Txn) bool {
		for e := range tx.EvalsByJob("default", job) {
			if e.Status == api.EvalStatusBlocked {
				return true
			}
		}
		return false
	})
}

func says(job, status string) step {
	return wants("the deployment is "+status, func(tx *state.Txn) bool {
		var newest *api.Deployment
		for d := range tx.DeploymentsByJob("default", job) {
			if newest == nil || d.CreateIndex > newest.CreateIndex {
				newest = d
			}
		}
		return newest != nil && newest.Status == status
	})
}

// later lets time pass.
func later(d time.Duration) step {
	return step{"later", func(*world) error {
		time.Sleep(d)
		return nil
	}}
}

func three(mhz int64) []step {
	return []step{nodeUp("n0", "a", mhz), nodeUp("n1", "b", mhz), nodeUp("n2", "b", mhz)}
}

func spreads(parts map[string]int) func(*want) { return func(w *want) { w.groups[0].spread = parts } }

func likes(weight int) func(*want) { return func(w *want) { w.groups[0].likes = weight } }

// racks wants so many of a job on each rack, give or take one: allocations of a job push each other off a node, too.
func racks(job string, want map[string]int) step {
	return step{fmt.Sprint(job, " is on ", want), func(w *world) error {
		tx, got := w.store.Read(), map[string]int{}
		for _, a := range live(tx, job) {
			got[tx.Node(a.NodeID).Meta["rack"]]++
		}
		for _, rack := range []string{"a", "b", "c"} {
			if d := got[rack] - want[rack]; d < -1 || d > 1 {
				return fmt.Errorf("%v", got)
			}
		}
		return nil
	}}
}

func wide() []step {
	return []step{nodeUp("n0", "a", 20_000), nodeUp("n1", "b", 20_000), nodeUp("n2", "c", 20_000)}
}

func recorded() map[string][]step {
	const service, batch, system, sysbatch = api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeSysbatch
	alone := nodeUp("n0", "a", 1000)
	canaries := rolls(api.UpdateStrategy{MaxParallel: 1, Canary: 1})
	return map[string][]step{
		"evicted batch work runs again": {
			alone, preempt(true, true), register(one("low", batch, 1, 800, with(10, "a"))), runs("low", 1),
			register(one("high", service, 1, 800, with(80, "a"))), runs("low", 0), waits("low"), stopJob("high", false), runs("low", 1),
		},
		"stopped batch work waits for capacity and runs again": {
			alone, register(one("b", batch, 1, 600)), nodeUp("n1", "a", 500), eligible("n0", false),
			end("b", 0, "user"), runs("b", 0), waits("b"), eligible("n0", true), runs("b", 1), finish("b"), runs("b", 0),
		},
		"drained batch work waits for capacity": {
			alone, register(one("b", batch, 1, 600)), drain("n0"), runs("b", 0), waits("b"), nodeUp("n1", "b", 1000), runs("b", 1),
		},
		"drained batch work moves to another node": {
			alone, register(one("b", batch, 2, 400)), nodeUp("n1", "b", 1000), drain("n0"), runs("b", 2),
		},
		"batch work that its node ended alone is done again": {
			alone, register(one("b", batch, 1, 600, silent(endsAlone))), cutOff("n0"), runs("b", 1),
		},
		"two nodes go down within some seconds": {
			alone, nodeUp("n1", "b", 1000), register(one("w", service, 2, 600, silent(endsAlone), ruled(distinct))),
			nodeUp("n2", "a", 1000), nodeUp("n3", "b", 1000), bothDown("n0", "n1"), runs("w", 2),
		},
		"batch work is finished before it is moved": {
			alone, register(one("b", batch, 1, 600)), nodeUp("n1", "b", 1000), movedTooLate("n0"), runs("b", 0),
		},
		"batch work is finished out of sight": {
			alone, register(one("b", batch, 1, 600, silent(mayReturn))), nodeUp("n1", "b", 1000), outOfSight("n0", alone), runs("b", 0),
		},
		"a node is closed while something is placed there": {
			alone, closedMeanwhile("n0", register(one("w", service, 1, 600))), runs("w", 0), waits("w"),
		},
		"a canary that moves while it waits past the deadline": append(three(1000),
			register(one("s", service, 2, 300, rolls(api.UpdateStrategy{MaxParallel: 1, Canary: 1, ProgressDeadline: 10 * time.Minute, AutoRevert: true}))),
			register(one("s", service, 2, 300, with(50, "b"), rolls(api.UpdateStrategy{MaxParallel: 1, Canary: 1, ProgressDeadline: 10 * time.Minute, AutoRevert: true}))),
			says("s", api.DeploymentStatusRunning), later(11*time.Minute), drain("n0"), drain("n1"), says("s", api.DeploymentStatusRunning),
			decide("s", "promote"), says("s", api.DeploymentStatusSuccessful),
		),
		"a freed property wakes who waits for it": {
			nodeUp("n1", "z", 1000), nodeUp("n2", "z", 1500),
			register(one("w", service, 1, 1400)), // takes n2
			register(one("d", service, 2, 400, ruled(onePerDen))), runs("d", 1), waits("d"), stopJob("w", true), end("d", 0, "ends"), runs("d", 1),
		},
		"a system job of count 0 runs nowhere": append(three(1000),
			register(one("y", system, 1, 100)), runs("y", 3), register(one("y", system, 0, 100)), runs("y", 0),
			register(one("new", system, 0, 100)), runs("new", 0), register(one("y", system, 1, 100)), runs("y", 3),
		),
		"a changed system job leaves ineligible nodes": append(three(1000),
			register(one("y", system, 1, 100)), eligible("n1", false), runs("y", 3), register(one("y", system, 1, 100, with(50, "b"))), runs("y", 2),
			eligible("n1", true), runs("y", 3),
		),
		"a full system job": append(three(1000),
			register(one("w", service, 3, 900)), register(one("y", system, 1, 600, with(50, "a"))), runs("y", 0), waits("y"),
			end("w", 0, "user"), end("w", 1, "user"), end("w", 2, "user"), stopJob("w", true), runs("y", 3),
		),
		"finished sysbatch work is done": append(three(1000),
			register(one("z", sysbatch, 1, 100)), runs("z", 3), finish("z"), runs("z", 0), register(one("z", sysbatch, 1, 100, with(60, "a"))), runs("z", 0),
			register(one("z", sysbatch, 1, 100, with(60, "b"))), runs("z", 3), nodeUp("n3", "a", 1000), runs("z", 4),
		),
		"a system job without a node runs": {
			register(one("y", system, 1, 100)), runs("y", 0), alone, runs("y", 1), nodeDown("n0"), runs("y", 0), alone, runs("y", 1),
		},
		"an impossible first version is rolled out when there is a node": {
			alone, register(one("s", service, 2, 300, ruled(nowhere), canaries)), waits("s"), says("s", api.DeploymentStatusRunning),
			register(one("s", service, 2, 300, canaries)), says("s", api.DeploymentStatusSuccessful), runs("s", 2),
		},
		"blue and green": append(three(2000),
			register(one("s", service, 2, 300, rolls(api.UpdateStrategy{MaxParallel: 2, Canary: 2}))),
			register(one("s", service, 2, 300, with(50, "b"), rolls(api.UpdateStrategy{MaxParallel: 2, Canary: 2}))), runs("s", 4),
			end("s", 0, "user"), runs("s", 4), decide("s", "promote"), runs("s", 2), says("s", api.DeploymentStatusSuccessful),
		),
		"a version that fails goes back": append(three(2000),
			register(one("s", service, 3, 300, rolls(api.UpdateStrategy{MaxParallel: 1, AutoRevert: true}))),
			register(one("s", service, 3, 300, with(50, "b"), func(w *want) { w.sick = true }, rolls(api.UpdateStrategy{MaxParallel: 1, AutoRevert: true}))),
			runs("s", 3), says("s", api.DeploymentStatusSuccessful),
		),
		"paused and resumed": append(three(2000),
			register(one("s", service, 2, 300, canaries)), register(one("s", service, 2, 300, with(50, "b"), canaries)), decide("s", "pause"),
			nodeDown("n1"), decide("s", "resume"), decide("s", "promote"), says("s", api.DeploymentStatusSuccessful), runs("s", 2),
		),
		"lost and found": append(three(1000),
			register(one("w", service, 3, 700)), nodeDown("n1"), runs("w", 2), waits("w"), nodeUp("n1", "b", 1000), runs("w", 3),
		),
		"a batch job that fails twice stays": {
			alone, register(one("b", batch, 1, 100)), end("b", 0, "fails"), runs("b", 1), end("b", 0, "fails"), runs("b", 0),
			register(one("b", batch, 1, 100, with(50, "b"))), runs("b", 1),
		},
		"instances go on without their template": {
			alone, register(one("p", batch, 1, 100, func(w *want) { w.launch = "periodic" })), launch("p"), later(time.Second), launch("p"),
			stopJob("p", false), wants("two instances run", func(tx *state.Txn) bool {
				n := 0
				for j := range tx.Jobs("default") {
					n += len(live(tx, j.ID))
				}
				return n == 2
			}),
		},
		"a service that ends well is followed as after a failure": {
			alone, register(one("w", service, 2, 300)), end("w", 0, "ends"), runs("w", 2), end("w", 1, "ends"), runs("w", 2),
		},
		"counts up and down": append(three(1000),
			register(one("w", service, 5, 300)), scale("w", 2), runs("w", 2), scale("w", 7), runs("w", 7), stopJob("w", false), runs("w", 0),
			register(one("w", service, 1, 300)), runs("w", 1),
		),
		"who gets cheaper gives way": {
			alone, preempt(true, false), register(one("dear", service, 1, 800, with(50, "a"))), register(one("w", service, 1, 800, with(50, "a"))),
			waits("w"), register(one("dear", service, 1, 800, with(40, "a"))), runs("dear", 0), runs("w", 1), waits("dear"),
		},
		"nine less is not enough to be evicted": {
			alone, preempt(true, false), register(one("low", service, 1, 800, with(41, "a"))), register(one("w", service, 1, 800)), runs("low", 1), waits("w"),
		},
		"parts of racks": append(wide(),
			register(one("w", service, 10, 100, spreads(map[string]int{"a": 70, "b": 20, "c": 10}))), racks("w", map[string]int{"a": 7, "b": 2, "c": 1}),
			register(one("x", service, 10, 100, spreads(map[string]int{"a": 50, "b": 30, "c": 20}))), racks("x", map[string]int{"a": 5, "b": 3, "c": 2}),
			register(one("y", service, 10, 100, spreads(map[string]int{"a": 60, "b": 40, "c": 0}))), racks("y", map[string]int{"a": 6, "b": 4}),
			register(one("z", service, 9, 100, spreads(map[string]int{}))), racks("z", map[string]int{"a": 3, "b": 3, "c": 3}),
		),
		"liked and disliked racks": append(wide(),
			register(one("w", service, 1, 100, likes(100))), racks("w", map[string]int{"a": 1}),
			register(one("x", service, 4, 100, likes(-100))), wants("none is on rack a", func(tx *state.Txn) bool {
				for _, a := range live(tx, "x") {
					if tx.Node(a.NodeID).Meta["rack"] == "a" {
						return false
					}
				}
				return len(live(tx, "x")) == 4
			}),
		),
		"a constraint moves": append(three(1000),
			register(one("w", service, 3, 200)), register(one("w", service, 3, 200, ruled(rackA))), runs("w", 3),
			register(one("w", service, 3, 200, ruled(distinct))), racks("w", map[string]int{"a": 1, "b": 2}), runs("w", 3),
		),
	}
}
