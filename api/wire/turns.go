package wire

import (
	"context"
	"net"
	"slices"
	"sync"
)

// smallBytes is how long a message may be that waits for no turn: beats of nodes and most writes are shorter.
const smallBytes = 64 << 10

// Processors are the turns of all clients of a process: of short pieces of work, such as reads, and of long ones, such as
// plans, which have half as many and are in no short one's way.
type Processors struct{ short, long *Turns }

// NewProcessors makes the turns for n processors.
func NewProcessors(n int) *Processors { return &Processors{NewTurns(n), NewTurns(n / 2)} }

// Turns shares a resource among clients. No more pieces of work are done at once than there are turns; of those
// that wait, one of each client is taken in turn.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{}
	// order are the clients of which something waits, the next one first.
	order []string
}

// NewTurns makes n turns, one at least.
func NewTurns(n int) *Turns { return &Turns{free: max(n, 1), waiting: map[string][]chan struct{}{}} }

type clientKey struct{}

// client is who asks for turns, and where.
type client struct {
	*Processors
	address string
}

// For is the context of a request that a client, by its network address, has made.
func (p *Processors) For(ctx context.Context, address string) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, client{p, host(address)})
}

// host is a network address without its port.
func host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// InTurn does a short piece of work when it is its client's turn, at once where ctx is of no client's request. It fails
// without having done it when ctx ends first. The work computes and waits for nothing.
func InTurn(ctx context.Context, work func() error) error {
	if who, ok := ctx.Value(clientKey{}).(client); ok {
		return who.short.do(ctx, who.address, work)
	}
	return work()
}

// InLongTurn is [InTurn] for what may take a second.
func InLongTurn(ctx context.Context, work func() error) error {
	if who, ok := ctx.Value(clientKey{}).(client); ok {
		return who.long.do(ctx, who.address, work)
	}
	return work()
}

// ClientOf is the address of whose request ctx is of; empty when it is of none.
func ClientOf(ctx context.Context) string {
	who, _ := ctx.Value(clientKey{}).(client)
	return who.address
}

func (t *Turns) do(ctx context.Context, client string, work func() error) error {
	if err := t.Take(ctx, client); err != nil {
		return err
	}
	defer t.Give()
	return work()
}

// Try takes a turn that is free, until [Turns.Give].
func (t *Turns) Try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.try()
}

func (t *Turns) try() bool {
	if t.free == 0 {
		return false
	}
	t.free--
	return true
}

// Take waits for the client's turn, until [Turns.Give].
func (t *Turns) Take(ctx context.Context, client string) error {
	t.mu.Lock()
	if t.try() {
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
