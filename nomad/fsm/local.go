package fsm

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// Local is the in-memory twin of [Raft]: it encodes, decodes and applies every command at the next
// index, in the caller's goroutine. Tests use it.
type Local struct {
	// Now gives commands their time; nil means the clock.
	Now func() time.Time

	mu      sync.Mutex
	state   *state.Store
	machine *machine
}

// NewLocal makes a twin over a store.
func NewLocal(s *state.Store, r *Registry) *Local {
	return &Local{state: s, machine: newMachine(s, r, hclog.NewNullLogger())}
}

// Propose applies the command. It implements [Proposer].
func (l *Local) Propose(ctx context.Context, cmd Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.Now != nil {
		now = l.Now()
	}
	b, err := encodeEntry(cmd, now, "local")
	if err != nil {
		return Result{}, err
	}
	forget, err := l.machine.vet(b)
	if err != nil {
		return Result{}, err
	}
	forget() // as on a server that did not propose it
	index := l.state.Read().Index() + 1
	done := l.machine.apply(index, b)
	if done.err != nil {
		return Result{}, done.err
	}
	return Result{Index: index, Value: done.value}, nil
}
