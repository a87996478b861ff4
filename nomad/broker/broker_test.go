package broker_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// start makes a running broker inside a synctest bubble.
func start(t *testing.T) *broker.Broker {
	t.Helper()
	n := 0
	b := broker.New(broker.Config{NewToken: func() string { n++; return strconv.Itoa(n) }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = b.Run(ctx) }()
	t.Cleanup(cancel)
	return b
}

func eval(id, job string, change ...func(*api.Evaluation)) *api.Evaluation {
	e := &api.Evaluation{ID: id, JobID: job, Namespace: "default", Type: "service", Priority: 50, Status: api.EvalStatusPending}
	for _, f := range change {
		f(e)
	}
	return e
}

func priority(p int) func(*api.Evaluation) { return func(e *api.Evaluation) { e.Priority = p } }
func index(i uint64) func(*api.Evaluation) {
	return func(e *api.Evaluation) { e.CreateIndex, e.ModifyIndex = i, i }
}

func take(t *testing.T, b *broker.Broker) (*api.Evaluation, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	e, token, err := b.Dequeue(ctx, "service", "batch")
	if err != nil {
		t.Fatal(err)
	}
	return e, token
}

func nothing(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if e, _, err := b.Dequeue(ctx, "service", "batch"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dequeued %v, %v", e, err)
	}
}

func TestHigherPriorityThenOlderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("young", "a", index(3)))
		b.Enqueue(eval("old", "b", index(2)))
		b.Enqueue(eval("urgent", "c", index(4), priority(90), func(e *api.Evaluation) { e.Type = "batch" }))
		for _, want := range []string{"urgent", "old", "young"} {
			if e, _ := take(t, b); e.ID != want {
				t.Fatalf("got %s, want %s", e.ID, want)
			}
		}
	})
}

func TestOneEvaluationPerJobIsOutAndOthersAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j", index(1)))
		b.Enqueue(eval("2", "j", index(2)))
		b.Enqueue(eval("3", "j", index(3)))
		e, token := take(t, b)
		nothing(t, b)
		if err := b.Ack(e.ID, token); err != nil {
			t.Fatal(err)
		}
		if e, _ = take(t, b); e.ID != "3" {
			t.Fatalf("%s follows", e.ID)
		}
		if _, cancelled := b.TakeEnded(); len(cancelled) != 1 || cancelled[0].ID != "2" {
			t.Fatalf("cancelled %v", cancelled)
		}
	})
}

func TestNackDelaysAndDeliveryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j"))
		begin := time.Now()
		for _, want := range []time.Duration{0, time.Second, 21 * time.Second} {
			e, token := take(t, b)
			if got := time.Since(begin); got != want {
				t.Fatalf("delivered after %v, want %v", got, want)
			}
			if err := b.Nack(e.ID, token); err != nil {
				t.Fatal(err)
			}
			if err := b.Ack(e.ID, token); !errors.Is(err, fault.Conflict) {
				t.Fatalf("ack with an old token: %v", err)
			}
		}
		<-b.Ended()
		if failed, _ := b.TakeEnded(); len(failed) != 1 || failed[0].ID != "1" {
			t.Fatalf("failed %v", failed)
		}
		nothing(t, b)
	})
}

func TestUnansweredDeliveryComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j"))
		e, token := take(t, b)
		time.Sleep(59 * time.Second)
		if err := b.Extend(e.ID, token); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, again := take(t, b)
		if got := time.Since(begin); got != 61*time.Second || again == token {
			t.Fatalf("came back after %v", got)
		}
	})
}

func TestWaitUntilDelaysWithoutHoldingTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		due := time.Now().Add(time.Minute)
		b.Enqueue(eval("late", "j", func(e *api.Evaluation) { e.WaitUntil = due }))
		b.Enqueue(eval("now", "j"))
		e, token := take(t, b)
		if e.ID != "now" {
			t.Fatalf("got %s", e.ID)
		}
		if err := b.Ack(e.ID, token); err != nil {
			t.Fatal(err)
		}
		if e, _ = take(t, b); e.ID != "late" || time.Now().Before(due) {
			t.Fatalf("got %s at %v", e.ID, time.Now())
		}
	})
}

func TestForgottenEvaluationIsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j", index(1)))
		b.Enqueue(eval("2", "j", index(2)))
		b.Forget("1")
		b.Forget("unknown")
		if e, _ := take(t, b); e.ID != "2" {
			t.Fatalf("got %s", e.ID)
		}
	})
}

func TestEvaluationThatComesWhileOutFollowsTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j"))
		_, token := take(t, b)
		b.Enqueue(eval("1", "j", index(9)))
		nothing(t, b)
		if err := b.Ack("1", token); err != nil {
			t.Fatal(err)
		}
		if e, _ := take(t, b); e.ModifyIndex != 9 {
			t.Fatalf("got index %d", e.ModifyIndex)
		}
	})
}
