package evals_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// flaky is a log that refuses while it is off, and counts.
type flaky struct {
	*fsm.Local
	off     atomic.Bool
	class   fault.Class
	refused chan struct{}
	taken   atomic.Int64
}

func (w *world) flaky(class fault.Class, b broker.Config) *flaky {
	f := &flaky{Local: w.raft, class: class, refused: make(chan struct{}, 1000)}
	w.lead(evals.Config{Raft: f, Broker: b})
	return f
}

func (f *flaky) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if f.off.Load() {
		f.refused <- struct{}{}
		return fsm.Result{}, fault.New(f.class, "refused")
	}
	f.taken.Add(1)
	return f.Local.Propose(ctx, c)
}

func (f *flaky) untilRefused(t *testing.T, n int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for range n {
		select {
		case <-f.refused:
		case <-late:
			t.Fatal("nothing was refused")
		}
	}
}

// An evaluation reaches its delivery limit while the log takes nothing, not even that it is given up.
func TestEvaluationsThatWereGivenUpAreWrittenLater(t *testing.T) {
	w := unled(t)
	f := w.flaky(fault.Exhausted, broker.Config{DeliveryLimit: 2, FirstDelay: time.Millisecond, NextDelay: time.Millisecond})
	w.node("n1")
	f.off.Store(true)
	w.job("j", 1, evalID(1))
	f.untilRefused(t, 3)
	f.off.Store(false)
	e := w.untilEval(evalID(1), api.EvalStatusFailed)
	w.untilEval(e.NextEval, api.EvalStatusPending)
}

// The log answers as if this server did not lead while a transfer of the leadership is tried; then it leads on.
func TestARefusedTransferOfTheLeadershipDelaysNothing(t *testing.T) {
	w := unled(t)
	f := w.flaky(fault.NotLeader, broker.Config{DeliveryLimit: 2, FirstDelay: time.Millisecond})
	w.node("n1")
	f.off.Store(true)
	w.job("j", 1, evalID(1))
	f.untilRefused(t, 5)
	f.off.Store(false)
	w.untilLive("j", 1)
}

// blockedBefore stores evaluations that wait for a class that does not come, or for more than nodes have.
func (w *world) blockedBefore(n int) {
	w.write(func(tx *state.Txn) {
		for i := range n {
			id := fmt.Sprint("blocked", i)
			tx.PutJob(&api.Job{
				ID: id, Namespace: "default", Type: api.JobTypeService, Priority: 50, JobModifyIndex: tx.Index(),
				TaskGroups: []*api.TaskGroup{sized("g", 2000)},
			})
			e := &api.Evaluation{
				ID: evalID(1000 + i), Namespace: "default", JobID: id, Type: api.JobTypeService, Priority: 50,
				Status: api.EvalStatusBlocked, TriggeredBy: api.TriggerQueuedAllocs, SnapshotIndex: 2,
			}
			if i%2 == 0 {
				e.ClassEligibility = map[string]bool{"c": false}
			}
			tx.PutEval(e)
		}
	})
}

func TestANewTermRunsNoneOfThoseThatMustWait(t *testing.T) {
	const waiting = 3000
	w := unled(t)
	w.node("n1")
	w.blockedBefore(waiting)
	w.write(func(tx *state.Txn) { // the last to be filed and, if others are woken, to run
		tx.PutJob(&api.Job{
			ID: "last", Namespace: "default", Type: api.JobTypeService, Priority: 50, TaskGroups: []*api.TaskGroup{sized("g", 100)},
		})
		tx.PutEval(&api.Evaluation{
			ID: evalID(99_999), Namespace: "default", JobID: "last", Type: api.JobTypeService, Priority: 50,
			Status: api.EvalStatusBlocked, TriggeredBy: api.TriggerQueuedAllocs, SnapshotIndex: 2,
		})
	})
	w.node("n2") // it came after all were refused
	f := w.flaky(fault.Internal, broker.Config{})
	w.job("j", 1, evalID(1))
	w.untilLive("j", 1)
	w.untilLive("last", 1)
	if n := f.taken.Load(); n > 10 {
		t.Errorf("%d entries of the log for two that could be placed", n)
	}
}

// New work does not stand behind those who were woken.
func TestNewWorkGoesBeforeTheWoken(t *testing.T) {
	const waiting = 3000
	w := unled(t)
	w.node("n1")
	w.blockedBefore(waiting)
	w.lead(evals.Config{Workers: 1})
	w.changeNode("n1", func(n *api.Node) { n.ComputedClass = "d"; inZone("z", 2000)(n) }) // wakes all, for one
	w.job("j", 0, evalID(1))
	w.untilEval(evalID(1), api.EvalStatusComplete)
	left := 0
	for e := range w.store.Read().Evals("*") {
		if e.Status == api.EvalStatusBlocked && e.SnapshotIndex <= 2 {
			left++
		}
	}
	if left < waiting/2 {
		t.Errorf("%d of %d woken went before new work", waiting-left, waiting)
	}
}

func TestWhatWasSupersededBeforeTheTermIsCancelled(t *testing.T) {
	w := unled(t)
	w.blockedBefore(1)
	w.write(func(tx *state.Txn) {
		tx.PutEval(&api.Evaluation{
			ID: evalID(2), Namespace: "default", JobID: "blocked0", Type: api.JobTypeService, Status: api.EvalStatusComplete, SnapshotIndex: 3,
		})
	})
	w.lead(evals.Config{})
	w.untilEval(evalID(1000), api.EvalStatusCancelled)
}
