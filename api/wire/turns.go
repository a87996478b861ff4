package wire

import (
	"context"
	"net"
	"slices"
	"sync"
)

// smallBytes is how long a message may be that waits for no turn: beats of nodes and most writes are shorter.
const smallBytes = 64 << 10

// Turns shares the processors among clients. No more pieces of work are done at once than there are turns; of those
// that wait, one of each client is taken in turn. A piece of work computes and waits for nothing.
// Without it a client with thousands of calls under way would have the processors for itself: the runtime knows no
// clients, and heartbeats and Raft wait behind whatever can run.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{}
	// order are the clients of which something waits, the next one first.
	order []string
}

// NewTurns makes n turns.
func NewTurns(n int) *Turns { return &Turns{free: max(n, 1), waiting: map[string][]chan struct{}{}} }

type turnsKey struct{}

// turner is who asks for turns, and where.
type turner struct {
	turns  *Turns
	client string
}

// For is the context of a request that a client, by its network address, has made.
func (t *Turns) For(ctx context.Context, address string) context.Context {
	if t == nil {
		return ctx
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return context.WithValue(ctx, turnsKey{}, turner{t, address})
}

// InTurn does a piece of work when it is its client's turn, at once where ctx is of no client's request. It fails
// without having done it when ctx ends first.
func InTurn(ctx context.Context, work func() error) error {
	who, ok := ctx.Value(turnsKey{}).(turner)
	if !ok {
		return work()
	}
	if err := who.turns.Take(ctx, who.client); err != nil {
		return err
	}
	defer who.turns.Give()
	return work()
}

// ClientOf is whose request ctx is of; empty when it is of none.
func ClientOf(ctx context.Context) string {
	who, _ := ctx.Value(turnsKey{}).(turner)
	return who.client
}

// Take waits for the client's turn, until [Turns.Give].
func (t *Turns) Take(ctx context.Context, client string) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	if len(t.waiting[client]) == 0 {
		t.order = append(t.order, client)
	}
	t.waiting[client] = append(t.waiting[client], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	if !t.withdraw(client, mine) {
		t.Give() // it has come meanwhile
	}
	return ctx.Err()
}

// withdraw reports whether what waited was taken out before its turn came.
func (t *Turns) withdraw(client string, mine chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting[client], mine)
	if i < 0 {
		return false
	}
	t.waiting[client] = slices.Delete(t.waiting[client], i, i+1)
	if len(t.waiting[client]) == 0 {
		delete(t.waiting, client)
		t.order = slices.DeleteFunc(t.order, func(c string) bool { return c == client })
	}
	return true
}

// Give hands the turn to the next client.
func (t *Turns) Give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	client := t.order[0]
	t.order = t.order[1:]
	close(t.waiting[client][0])
	if t.waiting[client] = t.waiting[client][1:]; len(t.waiting[client]) > 0 {
		t.order = append(t.order, client)
	} else {
		delete(t.waiting, client)
	}
}
