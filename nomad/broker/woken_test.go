package broker_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestTheWokenComeAfterFreshOnesButNotLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Wake(eval("w1", "w1", index(1)))
		b.Wake(eval("w2", "w2", index(2)))
		b.Wake(eval("urgent", "u", index(3), priority(60)))
		for i, id := range []string{"f1", "f2", "f3", "f4", "f5"} {
			b.Enqueue(eval(id, id, index(uint64(10+i))))
		}
		var order []string
		for range 8 {
			e, _ := take(t, b)
			order = append(order, e.ID)
		}
		if got := strings.Join(order, " "); got != "urgent f1 f2 f3 w1 f4 f5 w2" {
			t.Errorf("order %s", got)
		}
	})
}

// Others count on an evaluation that waits for a node: it runs and waits again.
func TestWhoWaitsForANodeIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("first", "a", index(1)))
		_, token := take(t, b)
		b.Wake(eval("n1", "a", index(2), func(e *api.Evaluation) { e.TriggeredBy, e.NodeID = api.TriggerQueuedAllocs, "n1" }))
		b.Enqueue(eval("other", "a", index(3)))
		b.Enqueue(eval("older", "a", index(2)))
		if err := b.Ack("first", token); err != nil {
			t.Fatal(err)
		}
		var ran []string
		for range 2 {
			e, token := take(t, b)
			ran = append(ran, e.ID)
			if err := b.Ack(e.ID, token); err != nil {
				t.Fatal(err)
			}
		}
		nothing(t, b)
		_, cancelled := b.TakeEnded()
		if !slices.Equal(ran, []string{"other", "n1"}) || len(cancelled) != 1 || cancelled[0].ID != "older" {
			t.Errorf("ran %v, cancelled %v", ran, cancelled)
		}
	})
}

func TestADelayedDeliveryCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("e", "a"))
		for range 10 {
			_, token := take(t, b)
			if err := b.Delay("e", token); err != nil {
				t.Fatal(err)
			}
			nothing(t, b)
		}
		if !b.Busy("default", "a") {
			t.Error("the job has nothing to do")
		}
		_, token := take(t, b)
		if err := b.Nack("e", token); err != nil {
			t.Fatal(err)
		}
		if failed, _ := b.TakeEnded(); len(failed) != 0 {
			t.Errorf("given up: %v", failed)
		}
	})
}

// A delivery that did not reach its worker is handed out again at once, and does not count against the limit.
func TestAReturnedDeliveryCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("e", "a"))
		begin := time.Now()
		for range 10 {
			_, token := take(t, b)
			b.Return("e", token)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %s", took)
		}
		_, token := take(t, b)
		if err := b.Nack("e", token); err != nil {
			t.Fatal(err)
		}
		if failed, _ := b.TakeEnded(); len(failed) != 0 {
			t.Errorf("given up: %v", failed)
		}
	})
}

func TestOnlyWhatIsKnownIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("out", "a"))
		_, token := take(t, b)
		b.Enqueue(eval("gone", "b"))
		b.Enqueue(eval("stays", "c"))
		b.Retain(func(id string) bool { return id == "stays" })
		if e, _ := take(t, b); e.ID != "stays" {
			t.Errorf("got %s", e.ID)
		}
		nothing(t, b)
		if err := b.Ack("out", token); err != nil {
			t.Error(err)
		}
	})
}
