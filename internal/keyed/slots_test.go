package keyed_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/internal/keyed"
)

// queue has each name, which begins with its key, wait for the only slot, and returns the order in which they got it.
func queue(t *testing.T, s *keyed.Slots, names string) string {
	t.Helper()
	release, err := s.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, name := range strings.Fields(names) {
		go func() {
			release, err := s.Acquire(t.Context(), name[:1])
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, name) // the slot is the lock
			release()
		}()
		synctest.Wait()
	}
	release()
	synctest.Wait()
	return strings.Join(order, " ")
}

func TestKeysShareTheSlotsFairly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := queue(t, keyed.NewSlots(1, 1), "a1 a2 a3 a4 b1 b2 c1"); got != "b1 c1 a1 b2 a2 a3 a4" {
			t.Error(got)
		}
	})
}

func TestSlotsAreLimitedForEachKeyAndInTotal(t *testing.T) {
	s := keyed.NewSlots(2, 3)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, step := range []struct {
		key string
		ok  bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		ctx := t.Context()
		if !step.ok {
			ctx = gone
		}
		if _, err := s.Acquire(ctx, step.key); (err == nil) != step.ok || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", step.key, err)
		}
	}
}

// A slot that is released while its waiter gives up goes to the next one.
func TestNoSlotIsLost(t *testing.T) {
	s := keyed.NewSlots(2, 2)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				if release, err := s.Acquire(ctx, string(rune('a'+i%7))); err == nil {
					release()
				}
			}
		})
	}
	all.Wait()
	for range 2 {
		if _, err := s.Acquire(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
	}
}
