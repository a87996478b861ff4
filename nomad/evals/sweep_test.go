package evals_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Whatever happens in whatever order, those who wait are woken by it: the sweep, which looks at all of them, finds
// nobody.
func TestTheSweepFindsNobody(t *testing.T) {
	for seed := range uint64(sweeps) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unled(t)
				c := evals.Config{SweepEvery: time.Second}
				w.lead(c)
				r := rand.New(rand.NewPCG(seed, 1))
				waited := 0
				for i := range 40 {
					if r.IntN(12) == 0 {
						w.stop()
						w.happens(r, i)
						w.lead(c)
					} else {
						w.happens(r, i)
					}
					if r.IntN(3) > 0 {
						continue // what follows comes while things are under way
					}
					synctest.Wait()
					time.Sleep(3 * time.Second)
					synctest.Wait()
					if n := w.service.MissedWakes(); n > 0 {
						t.Fatalf("step %d: %v could run and were not woken", i, n)
					}
					for e := range w.store.Read().Evals("*") {
						if e.Status == api.EvalStatusBlocked {
							waited++
						}
					}
				}
				w.stop()
				if seed == 0 && waited == 0 {
					t.Error("nobody ever waited")
				}
			})
		})
	}
}

// What its own evaluation is about to place, because its delay is over in a moment, was not missed.
func TestTheSweepLeavesWhatIsDueToItsEvaluation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unled(t)
		w.lead(evals.Config{SweepEvery: 100 * time.Millisecond})
		w.node("n1")
		version := func(cpu int) *api.Job {
			j := service("j", cpu)
			g := j.TaskGroups[0]
			g.Update = &api.UpdateStrategy{MaxParallel: 1, Canary: 1}
			g.ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: 10 * time.Second, DelayFunction: "constant"}
			return j
		}
		w.register(evalID(1), version(400))
		w.untilLive("j", 1)
		w.write(func(tx *state.Txn) {
			for d := range tx.DeploymentsByJob("default", "j") {
				over := *d
				over.Status = api.DeploymentStatusSuccessful
				tx.PutDeployment(&over)
			}
		})
		w.register(evalID(2), version(2000)) // its canary waits for capacity
		w.untilEval(evalID(2), api.EvalStatusComplete)
		w.change("j", func(a *api.Allocation) {
			a.ClientStatus, a.ModifyTime = api.AllocClientStatusFailed, time.Now().UnixNano()
		})
		w.write(func(tx *state.Txn) {
			tx.PutEval(&api.Evaluation{
				ID: evalID(3), Namespace: "default", JobID: "j", Type: api.JobTypeService, Priority: 50, Status: api.EvalStatusPending,
				TriggeredBy: api.TriggerRetryFailedAlloc,
			})
		})
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := len(w.live("j")); n != 1 {
			t.Errorf("%d live", n)
		}
		w.stop()
	})
}

// happens does one thing that may happen in a cluster.
func (w *world) happens(r *rand.Rand, step int) {
	node, job := fmt.Sprint("n", r.IntN(4)), fmt.Sprint("j", r.IntN(6))
	switch r.IntN(8) {
	case 0, 1:
		w.node(node)
		class := fmt.Sprint("c", r.IntN(2))
		w.changeNode(node, func(n *api.Node) {
			inZone(fmt.Sprint("z", r.IntN(2)), int64(500+500*r.IntN(4)))(n)
			n.Meta["class"], n.ComputedClass = class, class+n.Meta["zone"]
			if r.IntN(5) == 0 {
				n.SchedulingEligibility = api.NodeSchedulingIneligible
			}
		})
	case 2, 3, 4:
		w.register(evalID(step+1), w.anyJob(r, job))
	case 5:
		w.change(job, ends)
	case 6:
		w.change(job, func(a *api.Allocation) {
			if r.IntN(2) == 0 {
				runs(a)
			} else {
				ends(a)
			}
		})
	case 7:
		w.write(func(tx *state.Txn) {
			c := *tx.SchedulerConfig()
			c.PreemptionConfig.BatchSchedulerEnabled = r.IntN(2) == 0
			tx.PutSchedulerConfig(&c)
		})
	}
}

func (w *world) anyJob(r *rand.Rand, id string) *api.Job {
	j := &api.Job{ID: id, Type: []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem, api.JobTypeBatch}[int(id[1])%4]}
	for i := range 1 + r.IntN(2) {
		g := sized(fmt.Sprint("g", i), 100+200*r.IntN(6))
		if j.Type != api.JobTypeSystem {
			g.Count = r.IntN(4)
		}
		switch r.IntN(5) {
		case 0:
			g.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctProperty, LTarget: "${meta.zone}"}}
		case 1:
			g.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
		case 2:
			g.Constraints = []*api.Constraint{{LTarget: "${meta.class}", Operand: "=", RTarget: fmt.Sprint("c", r.IntN(2))}}
		}
		j.TaskGroups = append(j.TaskGroups, g)
	}
	return j
}
