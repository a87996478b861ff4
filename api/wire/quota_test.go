package wire

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// The addresses share what all have, and none has more than its own part of it, nor more than it leaves to others.
func TestRoomIsSharedByAddresses(t *testing.T) {
	t.Parallel()
	type take = func(b *budget, who string) (func(), error)
	bytes := func(n int, of func(*budget, context.Context, string, int) (func(), error)) take {
		return func(b *budget, who string) (func(), error) { return of(b, t.Context(), who, n) }
	}
	call := func(b *budget, who string) (func(), error) { return b.enter(t.Context(), who) }
	shares := func(n int64) extent { return extent{4 * n, 7 * n} }
	l := limits{
		calls:         shares(1),
		shortRequests: shares(smallBytes), requests: shares(smallBytes + 1), shortAnswers: shares(smallBytes), answers: shares(smallBytes + 1),
		waiting: extent{1, 2}, patience: time.Millisecond, stall: time.Hour,
	}
	for name, take := range map[string]take{
		"calls":          call,
		"short requests": bytes(smallBytes, (*budget).read), "requests": bytes(smallBytes+1, (*budget).read),
		"short answers": bytes(smallBytes, (*budget).hold), "answers": bytes(smallBytes+1, (*budget).hold),
	} {
		b := newBudget(l)
		var gives []func()
		takes := func(who string) {
			t.Helper()
			give, err := take(b, who)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, who, err)
			}
			gives = append(gives, give)
		}
		refused := func(who, why string) {
			t.Helper()
			if _, err := take(b, who); !errors.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %s: %v, not %q", name, who, err, why)
			}
		}
		for _, who := range []string{"a", "a", "a", "b", "b"} {
			takes(who)
		}
		refused("a", "of all clients") // three of seven, and two are left
		takes("c")
		refused("d", "of all clients")
		gives[0]()
		gives[4]()
		gives = append(gives[1:4:4], gives[5])
		takes("d")
		refused("a", "of all clients")
		for _, give := range gives {
			give()
		}
		gives = nil
		for range 3 {
			takes("a")
		}
		refused("a", "of all clients")
		for _, give := range gives {
			give()
		}
		for _, r := range []*quota{b.calls, b.shortRequests, b.requests, b.shortAnswers, b.answers, b.waiting} {
			if len(r.has) != 0 || r.free != r.whole {
				t.Errorf("%s: %d of %d are free, and %d addresses are remembered", name, r.free, r.whole, len(r.has))
			}
		}
	}
}

// More requests of an address than may wait for room are refused at once.
func TestFewRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	const n = smallBytes + 1
	l := narrow(extent{n, 2 * n}, 1)
	b := newBudget(l)
	give, err := b.read(t.Context(), "a", n)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		give, err := b.read(t.Context(), "a", n)
		if err == nil {
			give()
		}
		got <- err
	}()
	for {
		b.waiting.mu.Lock()
		waits := b.waiting.has["a"]
		b.waiting.mu.Unlock()
		if waits == 1 {
			break
		}
		runtime.Gosched()
	}
	if _, err := b.read(t.Context(), "a", n); !errors.Is(err, fault.Exhausted) {
		t.Errorf("a second one that would wait: %v", err)
	}
	give()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
