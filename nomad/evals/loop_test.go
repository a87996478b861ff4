package evals_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// world is a leader with an in-memory log.
type world struct {
	t       testing.TB
	store   *state.Store
	raft    *fsm.Local
	service *evals.Service
	stop    func()
	// missed is how many blocked evaluations the sweep is to find.
	missed uint64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := unled(t)
	w.lead(evals.Config{})
	return w
}

// unled is a world in which nobody leads yet.
func unled(t testing.TB) *world {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(plan.Commands, evals.Commands)
	r.Register(func() fsm.Command { return &write{} })
	return &world{t: t, store: s, raft: fsm.NewLocal(s, r)}
}

// lead begins a term, which lasts until the end of the test.
func (w *world) lead(c evals.Config) {
	c.State, c.Log = w.store, hclog.NewNullLogger()
	if c.Raft == nil {
		c.Raft = w.raft
	}
	w.service = evals.New(c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.service.Run(ctx) }()
	go func() { done <- w.service.Work(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				w.t.Errorf("run ended with %v", err)
			}
		}
		if n := w.service.MissedWakes(); n != w.missed {
			w.t.Errorf("%d blocked evaluations could run and were not woken", n)
		}
	})
	w.t.Cleanup(w.stop)
}

// write is a command of the test: any change of the state, looked up by number.
type write struct {
	evals.Update
	fn int
}

var writes = map[int]func(*state.Txn){}

func (*write) Kind() fsm.Kind { return fsm.KindSchedulerConfig }

func (w *write) MarshalMsg(b []byte) ([]byte, error) { return append(b, byte(w.fn)), nil }

func (w *write) UnmarshalMsg(b []byte) ([]byte, error) {
	w.fn = int(b[0])
	return nil, nil
}

func (w *write) Apply(tx *state.Txn) (any, error) {
	writes[w.fn](tx)
	return nil, nil
}

func (w *world) write(fn func(*state.Txn)) {
	w.t.Helper()
	writes[0] = fn
	if _, err := w.raft.Propose(w.t.Context(), &write{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(id string) {
	w.write(func(tx *state.Txn) {
		tx.PutNode(&api.Node{
			ID: id, Name: id, Datacenter: "dc1", Status: api.NodeStatusReady, ComputedClass: "c",
			SchedulingEligibility: api.NodeSchedulingEligible,
			Drivers:               map[string]*api.DriverInfo{"mock": {Detected: true, Healthy: true}},
			NodeResources: &api.NodeResources{
				Cpu: api.NodeCpuResources{CpuShares: 1000}, Memory: api.NodeMemoryResources{MemoryMB: 1024},
				Disk: api.NodeDiskResources{DiskMB: 1024},
			},
		})
	})
}

func (w *world) job(id string, count int, eval string) {
	w.write(func(tx *state.Txn) {
		j := &api.Job{
			ID: id, Namespace: "default", Type: api.JobTypeService, Priority: 50, JobModifyIndex: tx.Index(),
			TaskGroups: []*api.TaskGroup{{Name: "g", Count: count, Tasks: []*api.Task{{
				Name: "t", Driver: "mock", Resources: &api.Resources{CPU: 500, MemoryMB: 100},
			}}}},
		}
		if old := tx.Job("default", id); old != nil {
			j.Version = old.Version + 1
		}
		tx.PutJob(j)
		tx.PutJobVersion(j)
		tx.PutEval(&api.Evaluation{
			ID: eval, Namespace: "default", JobID: id, Type: j.Type, Priority: 50, Status: api.EvalStatusPending,
			TriggeredBy: api.TriggerJobRegister, JobModifyIndex: tx.Index(),
		})
	})
}

func evalID(n int) string { return fmt.Sprintf("%08d-0000-0000-0000-000000000000", n) }

func (w *world) until(what string, keys []state.Key, holds func(*state.Txn) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := state.Until(ctx, w.store, keys, holds); err != nil {
		for e := range w.store.Read().Evals("*") {
			w.t.Logf("eval %+v", *e)
		}
		w.t.Fatalf("%s: %v", what, err)
	}
}

func (w *world) untilEval(id, status string) *api.Evaluation {
	w.t.Helper()
	var e *api.Evaluation
	w.until("evaluation "+id+" "+status, []state.Key{state.EvalKey(id)}, func(tx *state.Txn) bool {
		e = tx.Eval(id)
		return e != nil && e.Status == status
	})
	return e
}

func (w *world) live(job string) []*api.Allocation {
	var list []*api.Allocation
	for a := range w.store.Read().AllocsByJob("default", job) {
		if !a.Terminal() {
			list = append(list, a)
		}
	}
	return list
}

func (w *world) untilLive(job string, n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d allocations of %s", n, job), []state.Key{state.JobAllocsKey("default", job)}, func(*state.Txn) bool {
		return len(w.live(job)) == n
	})
}

func TestRegisteredJobIsPlaced(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("j", 2, evalID(1))
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	if e.QueuedAllocations["g"] != 0 || len(e.FailedTGAllocs) != 0 {
		t.Fatalf("evaluation %+v", e)
	}
	for _, a := range w.live("j") {
		if a.Job == nil || a.NodeID != "n1" || a.CreateTime == 0 || a.AllocModifyIndex == 0 || a.EvalID != evalID(1) {
			t.Fatalf("allocation %+v", a)
		}
	}
	if n := len(w.live("j")); n != 2 {
		t.Fatalf("%d allocations", n)
	}
}

func TestBlockedEvaluationWakesWhenANodeComes(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("j", 4, evalID(1))
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	if e.BlockedEval == "" || e.QueuedAllocations["g"] != 2 {
		t.Fatalf("evaluation %+v", e)
	}
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.node("n2")
	w.untilLive("j", 4)
	w.untilEval(e.BlockedEval, api.EvalStatusComplete)
}

func TestBlockedEvaluationWakesWhenAnAllocationEnds(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("a", 2, evalID(1))
	w.untilEval(evalID(1), api.EvalStatusComplete)
	w.job("b", 1, evalID(2))
	e := w.untilEval(evalID(2), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	one := *w.live("a")[0]
	one.DesiredStatus = api.AllocDesiredStatusStop
	w.write(func(tx *state.Txn) { put := one; tx.PutAlloc(&put) })
	if len(w.live("b")) != 0 {
		t.Fatal("a stop freed the place before the node was done")
	}
	one.ClientStatus = api.AllocClientStatusComplete
	w.write(func(tx *state.Txn) { put := one; tx.PutAlloc(&put) })
	w.untilLive("b", 1)
}

func TestSupersededBlockedEvaluationIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("j", 4, evalID(1))
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	w.job("j", 1, evalID(2))
	w.untilEval(evalID(2), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusCancelled)
}
