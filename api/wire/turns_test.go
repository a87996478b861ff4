package wire_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api/wire"
)

// bench is one turn and the order in which work was done.
type bench struct {
	*wire.Processors
	let  chan struct{}
	mu   sync.Mutex
	done []string
}

func (b *bench) work(ctx context.Context, client, name string) error {
	return wire.InTurn(b.For(ctx, client+":4646"), func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.done = append(b.done, name)
		return nil
	})
}

// newBench is one whose turn is taken until let is closed.
func newBench(t *testing.T) *bench {
	b := &bench{Processors: wire.NewProcessors(1), let: make(chan struct{})}
	go func() { _ = wire.InTurn(b.For(t.Context(), "a"), func() error { <-b.let; return nil }) }()
	synctest.Wait()
	return b
}

// ask has the client's work wait behind what waits already.
func (b *bench) ask(ctx context.Context, client, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.work(ctx, client, name) }()
	synctest.Wait()
	return done
}

func TestClientsAreTakenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, name := range strings.Fields("a1 a2 a3 a4 b1 b2 c1") {
			b.ask(t.Context(), name[:1], name)
		}
		close(b.let)
		synctest.Wait()
		if got := strings.Join(b.done, " "); got != "a1 b1 c1 a2 b2 a3 a4" {
			t.Error(got)
		}
	})
}

func TestWhoGivesUpTakesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ctx, giveUp := context.WithCancel(t.Context())
		gone := []<-chan error{b.ask(ctx, "a", "a1"), b.ask(ctx, "b", "b1")}
		b.ask(t.Context(), "a", "a2")
		giveUp()
		for _, g := range gone {
			if err := <-g; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		close(b.let)
		synctest.Wait()
		if err := b.work(t.Context(), "c", "c1"); err != nil || !slices.Equal(b.done, []string{"a2", "c1"}) {
			t.Errorf("%v, then %v", b.done, err)
		}
	})
}

// A turn that comes while its client gives up goes to the next one, whichever of the two was first.
func TestNoTurnIsLost(t *testing.T) {
	turns := wire.NewTurns(2)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				if turns.Take(ctx, string(rune('a'+i%7))) == nil {
					turns.Give()
				}
			}
		})
	}
	all.Wait()
	for range 2 {
		if err := turns.Take(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWorkThatPanicsGivesItsTurnBack(t *testing.T) {
	ctx := wire.NewProcessors(1).For(t.Context(), "a")
	for _, turn := range []func(context.Context, func() error) error{wire.InTurn, wire.InLongTurn} {
		func() {
			defer func() { _ = recover() }()
			_ = turn(ctx, func() error { panic("bad") })
		}()
		if err := turn(ctx, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongWorkIsInNoShortOnesWay(t *testing.T) {
	ctx := wire.NewProcessors(1).For(t.Context(), "a")
	err := wire.InLongTurn(ctx, func() error {
		return wire.InTurn(ctx, func() error { return nil }) // else it waits for ever
	})
	if err != nil {
		t.Error(err)
	}
}
