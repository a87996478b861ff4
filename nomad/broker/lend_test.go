package broker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

func TestLentDeliveryEndsWithoutSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("e", "j"))
		_, first := take(t, b)
		if err := b.Lend("e", first, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(2 * time.Second)
			if err := b.Keep("e", first); err != nil {
				t.Fatalf("a worker that gives signs loses its evaluation: %v", err)
			}
		}
		began := time.Now()
		_, second := take(t, b)
		if took := time.Since(began); took != 4*time.Second { // its patience, and the first delay
			t.Errorf("handed out again after %v", took)
		}
		if err := b.Keep("e", first); !errors.Is(err, fault.Conflict) {
			t.Errorf("the one that lost it hears %v", err)
		}
		// The next delivery is no lent one.
		time.Sleep(30 * time.Second)
		if err := b.Ack("e", second); err != nil {
			t.Error(err)
		}
	})
}

func TestSignsOfLifeDoNotEndAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t)
		b.Enqueue(eval("e", "j"))
		_, token := take(t, b)
		if err := errors.Join(b.Lend("e", token, 3*time.Second), b.Hold("e", token), b.Keep("e", token)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		nothing(t, b)
		if err := b.Extend("e", token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		take(t, b)
	})
}
