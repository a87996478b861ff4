package evals_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func (w *world) pause(off bool) {
	w.write(func(tx *state.Txn) {
		c := *tx.SchedulerConfig()
		c.PauseEvalBroker = off
		tx.PutSchedulerConfig(&c)
	})
}

func TestPausedBrokerHandsOutAgainFromTheState(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("a", 1, evalID(1))
	w.untilEval(evalID(1), api.EvalStatusComplete)
	w.job("full", 4, evalID(2))
	blocked := w.untilEval(evalID(2), api.EvalStatusComplete).BlockedEval
	w.untilEval(blocked, api.EvalStatusBlocked)
	w.pause(true)
	w.job("b", 1, evalID(3))
	w.node("n3")
	w.node("n2") // capacity for the blocked one: nobody may hear of it now
	if _, err := w.raft.Propose(t.Context(), &write{}); err != nil {
		t.Fatal(err)
	}
	if e := w.store.Read().Eval(evalID(3)); e.Status != api.EvalStatusPending || len(w.live("b")) != 0 {
		t.Fatalf("a paused broker handed out: %+v", e)
	}
	w.pause(false)
	w.untilEval(evalID(3), api.EvalStatusComplete)
	w.untilEval(blocked, api.EvalStatusComplete)
	w.untilLive("b", 1)
}

func TestEvaluationsAreDeletedWhilePausedOnly(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("live", 1, evalID(1))
	w.untilEval(evalID(1), api.EvalStatusComplete)
	w.job("none", 0, evalID(2))
	w.untilEval(evalID(2), api.EvalStatusComplete)
	w.job("none", 0, evalID(3))
	w.untilEval(evalID(3), api.EvalStatusComplete)
	del := func(r *api.EvalDeleteRequest) (int, error) {
		out, err := w.service.Delete(t.Context(), r)
		if err != nil {
			return 0, err
		}
		return out.Count, nil
	}
	if _, err := del(&api.EvalDeleteRequest{EvalIDs: []string{evalID(2)}}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("deleted while handing out: %v", err)
	}
	w.pause(true)
	for what, c := range map[string]struct {
		req  *api.EvalDeleteRequest
		want error
	}{
		"both":    {&api.EvalDeleteRequest{EvalIDs: []string{evalID(2)}, Filter: "ID is empty"}, fault.Invalid},
		"neither": {&api.EvalDeleteRequest{}, fault.Invalid},
		"unknown": {&api.EvalDeleteRequest{EvalIDs: []string{evalID(9)}}, fault.NotFound},
		"running": {&api.EvalDeleteRequest{EvalIDs: []string{evalID(2), evalID(1)}}, fault.Invalid},
		"filter":  {&api.EvalDeleteRequest{Filter: "ID =="}, fault.Invalid},
	} {
		if _, err := del(c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := del(&api.EvalDeleteRequest{EvalIDs: []string{evalID(2)}}); n != 1 || err != nil || w.store.Read().Eval(evalID(2)) != nil {
		t.Errorf("by id: %d, %v", n, err)
	}
	if n, err := del(&api.EvalDeleteRequest{Filter: `Status == "complete"`}); n != 1 || err != nil {
		t.Errorf("by filter: %d, %v", n, err)
	}
	if w.store.Read().Eval(evalID(1)) == nil || len(w.live("live")) != 1 {
		t.Error("an evaluation with running work is gone")
	}
	count := func(r *api.EvalListRequest) int {
		got, err := w.service.Count(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got.Count
	}
	if a, b := count(&api.EvalListRequest{}), count(&api.EvalListRequest{JobID: "none"}); a != 1 || b != 0 {
		t.Errorf("%d evaluations, %d of the other job", a, b)
	}
}

// A worker whose delivery ended may neither write nor place.
func TestOldTokensAreRefused(t *testing.T) {
	w := newWorld(t)
	w.job("j", 1, evalID(1))
	w.untilEval(evalID(1), api.EvalStatusComplete)
	p := &api.Plan{EvalID: evalID(1), EvalToken: "old", Job: w.store.Read().Job("default", "j")}
	if _, err := w.service.Submit(t.Context(), &api.PlanSubmitRequest{Plan: p}); !errors.Is(err, fault.Conflict) {
		t.Errorf("submit: %v", err)
	}
	e := &api.Evaluation{ID: evalID(1), Status: api.EvalStatusFailed}
	if _, err := w.service.Update(t.Context(), &api.EvalUpdateRequest{Token: "old", Evals: []*api.Evaluation{e, nil}}); !errors.Is(err, fault.Conflict) {
		t.Errorf("update: %v", err)
	}
	for _, r := range []*api.EvalAckRequest{{EvalID: evalID(1), Token: "old"}, {EvalID: evalID(1), Nack: true}, {EvalID: "x", Token: "", Extend: true}} {
		if _, err := w.service.Ack(t.Context(), r); !errors.Is(err, fault.Conflict) {
			t.Errorf("ack %+v: %v", r, err)
		}
	}
	if got, err := w.service.Dequeue(t.Context(), &api.EvalDequeueRequest{Kinds: []string{"service"}, Wait: 1}); err != nil || got.Eval != nil {
		t.Errorf("dequeue: %+v, %v", got, err)
	}
	w.stop()
	if _, err := w.service.Dequeue(t.Context(), &api.EvalDequeueRequest{Wait: 1}); !errors.Is(err, fault.NotLeader) {
		t.Errorf("dequeue from a server that does not lead: %v", err)
	}
}

// Capacity that is too small for a blocked evaluation does not wake it.
func TestTooLittleRoomWakesNobody(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.job("big", 3, evalID(1)) // 500 each, 1000 there
	e := w.untilEval(evalID(1), api.EvalStatusComplete)
	w.untilEval(e.BlockedEval, api.EvalStatusBlocked)
	before := w.store.Read().Eval(e.BlockedEval).ModifyIndex
	w.write(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.ID = "small"
		res := *n.NodeResources
		res.Cpu.CpuShares = 400
		n.NodeResources = &res
		tx.PutNode(&n)
	})
	w.job("other", 0, evalID(2)) // what comes after was handled after
	w.untilEval(evalID(2), api.EvalStatusComplete)
	if now := w.store.Read().Eval(e.BlockedEval); now.ModifyIndex != before || now.Status != api.EvalStatusBlocked {
		t.Fatalf("woken for nothing: %+v", now)
	}
	w.node("n2")
	w.untilLive("big", 3)
}

// What a batch job did is how it knows that it is done: deleting its old evaluations does not make it do that again.
func TestDeletedEvaluationDoesNotTakeFinishedWorkAlong(t *testing.T) {
	t.Parallel()
	s := state.New()
	r := fsm.NewRegistry(evals.Commands)
	j := &api.Job{ID: "j", Namespace: "default", Type: api.JobTypeBatch, TaskGroups: []*api.TaskGroup{{Name: "g", Count: 2}}}
	tx := s.Write(2, time.Now())
	tx.PutSchedulerConfig(&api.SchedulerConfiguration{PauseEvalBroker: true})
	tx.PutJob(j)
	tx.PutEval(&api.Evaluation{ID: "e", Namespace: "default", JobID: "j", Type: j.Type, Status: api.EvalStatusComplete})
	tx.PutAlloc(&api.Allocation{
		ID: "a", Name: "j.g[0]", Namespace: "default", JobID: "j", Job: j, TaskGroup: "g", EvalID: "e", NodeID: "n",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusComplete,
		TaskStates: map[string]*api.TaskState{"t": {State: api.TaskStateDead}},
	})
	tx.PutAlloc(&api.Allocation{ // the job goes on
		ID: "b", Name: "j.g[1]", Namespace: "default", JobID: "j", Job: j, TaskGroup: "g", EvalID: "f", NodeID: "n",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
	})
	tx.Commit()
	if _, err := fsm.NewLocal(s, r).Propose(t.Context(), &evals.Reap{Evals: []string{"e"}}); err != nil {
		t.Fatal(err)
	}
	if s.Read().Alloc("a") == nil {
		t.Error("the finished half of a job that goes on is forgotten, and will be done once more")
	}
}
