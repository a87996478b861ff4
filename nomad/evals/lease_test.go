package evals_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/evals"
)

// A worker of another server is cut off with an evaluation in its hands: neither its answer nor its signs of life arrive.
func TestWhatAWorkerCouldNotHandBackIsHandedOutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unled(t)
		w.lead(evals.Config{Workers: -1})
		synctest.Wait()
		w.node("n1")
		w.job("j", 1, evalID(1))
		take := func() *api.EvalDequeueResponse {
			t.Helper()
			out, err := w.service.Dequeue(t.Context(), &api.EvalDequeueRequest{Kinds: []string{api.JobTypeService}, Wait: time.Minute})
			if err != nil || out.Eval == nil || out.Eval.ID != evalID(1) {
				t.Fatalf("handed out %+v, %v", out, err)
			}
			return out
		}
		lost := take()
		began := time.Now()
		next := take()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the next worker gets it after %s", took)
		}
		plan := &api.Plan{EvalID: evalID(1), EvalToken: lost.Token}
		_, submitted := w.service.Submit(t.Context(), &api.PlanSubmitRequest{Plan: plan})
		_, acked := w.service.Ack(t.Context(), &api.EvalAckRequest{EvalID: evalID(1), Token: lost.Token})
		for what, err := range map[string]error{"plan": submitted, "answer": acked} {
			if !errors.Is(err, fault.Conflict) {
				t.Errorf("the %s of the one that lost it: %v", what, err)
			}
		}
		if _, err := w.service.Ack(t.Context(), &api.EvalAckRequest{EvalID: evalID(1), Token: next.Token}); err != nil {
			t.Error(err)
		}
		w.stop()
	})
}
