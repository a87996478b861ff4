package broker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

// No evaluation is lost, none is out twice, one of a job at a time, and of those that are ready the one with
// the highest priority is handed out.
func TestNothingIsLostOrHandedOutTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(r, "steps")
		picks := rapid.SliceOfN(rapid.IntRange(0, 1000), len(steps), len(steps)).Draw(r, "picks")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = play(t, steps, picks) })
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

type delivery struct {
	eval  *api.Evaluation
	token string
}

func play(t *testing.T, steps, picks []int) string {
	n := 0
	b := broker.New(broker.Config{NewToken: func() string { n++; return fmt.Sprint(n) }})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = b.Run(ctx) }()
	open, out := map[string]*api.Evaluation{}, []delivery{}
	ended := func() {
		failed, cancelled := b.TakeEnded()
		for _, e := range append(failed, cancelled...) {
			delete(open, e.ID)
		}
	}
	get := func() string {
		wait, stop := context.WithTimeout(ctx, time.Nanosecond)
		defer stop()
		e, token, err := b.Dequeue(wait, "service")
		if err != nil {
			return ""
		}
		if open[e.ID] == nil {
			return "handed out after its end: " + e.ID
		}
		for _, o := range out {
			if o.eval.JobID == e.JobID {
				return "two of job " + e.JobID
			}
		}
		out = append(out, delivery{e, token})
		return ""
	}
	for i, step := range steps {
		pick := picks[i]
		switch {
		case step < 2:
			e := eval(fmt.Sprint("e", i), fmt.Sprint("j", pick%4), priority(10*(1+pick%5)), index(uint64(i+1)))
			open[e.ID] = e
			b.Enqueue(e)
		case step == 2:
			if wrong := get(); wrong != "" {
				return wrong
			}
		case step == 3 && len(out) > 0:
			o := out[pick%len(out)]
			if b.Ack(o.eval.ID, o.token) == nil {
				delete(open, o.eval.ID)
			}
			out = without(out, o)
		case step == 4 && len(out) > 0:
			o := out[pick%len(out)]
			if pick%2 == 0 {
				_ = b.Nack(o.eval.ID, o.token)
			} else {
				b.Return(o.eval.ID, o.token)
			}
			out = without(out, o)
		default:
			time.Sleep(time.Duration(pick%50) * time.Second)
			synctest.Wait()
		}
		ended()
		kept := out[:0]
		for _, o := range out { // a timeout may have taken it away
			if b.Hold(o.eval.ID, o.token) == nil && b.Extend(o.eval.ID, o.token) == nil {
				kept = append(kept, o)
			}
		}
		out = kept
	}
	for _, o := range out {
		if b.Ack(o.eval.ID, o.token) == nil {
			delete(open, o.eval.ID)
		}
	}
	out = nil
	for range 200 { // all the rest comes out, the best first
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		ended()
		last := 1 << 30
		for {
			had := len(out)
			if wrong := get(); wrong != "" {
				return wrong
			}
			if len(out) == had {
				break
			}
			if p := out[len(out)-1].eval.Priority; p > last {
				return "a lower priority came first"
			} else {
				last = p
			}
		}
		for _, o := range out {
			if err := b.Ack(o.eval.ID, o.token); err != nil {
				return err.Error()
			}
			delete(open, o.eval.ID)
		}
		out = nil
		ended()
		if len(open) == 0 {
			return ""
		}
	}
	return fmt.Sprintf("%d evaluations are lost", len(open))
}

func without(list []delivery, o delivery) []delivery {
	var rest []delivery
	for _, x := range list {
		if x.token != o.token {
			rest = append(rest, x)
		}
	}
	return rest
}

func TestHeldDeliveryDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j"))
		e, token := take(t, b)
		if err := b.Hold(e.ID, token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		nothing(t, b)
		if err := b.Extend(e.ID, token); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, again := take(t, b); again == token || time.Since(begin) != 61*time.Second {
			t.Fatalf("came back after %v", time.Since(begin))
		}
	})
}

func TestPausedBrokerForgetsAndClosedOneEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("1", "j"))
		b.Enqueue(eval("2", "k"))
		e, token := take(t, b)
		b.Pause()
		if err := b.Ack(e.ID, token); err == nil {
			t.Error("what was out before the pause was acked")
		}
		b.Enqueue(eval("3", "l"))
		nothing(t, b)
		time.Sleep(time.Hour)
		nothing(t, b)
		b.Resume()
		b.Enqueue(eval("3", "l"))
		if e, _ := take(t, b); e.ID != "3" {
			t.Errorf("%s came out", e.ID)
		}
		waiting := make(chan error, 1)
		go func() {
			_, _, err := b.Dequeue(t.Context(), "service")
			waiting <- err
		}()
		synctest.Wait()
		b.Close()
		if err := <-waiting; err == nil {
			t.Error("a wait outlived the broker")
		}
	})
}
