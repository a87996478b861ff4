package fsm

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// Local is the log of one server in memory: it encodes, decodes and applies every command at the next
// index, in the caller's goroutine. Tests use it.
type Local struct {
	// Now gives commands their time; nil means the clock.
	Now func() time.Time

	mu      sync.Mutex
	state   *state.Store
	machine *Machine
}

// NewLocal makes a twin over a store.
func NewLocal(s *state.Store, r *Registry) *Local {
	return &Local{state: s, machine: NewMachine(s, r, hclog.NewNullLogger())}
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
	b, err := l.Entry(cmd, now)
	if err != nil {
		return Result{}, err
	}
	return l.apply(b)
}

// VerifyLeader implements [Leader]: there is no other server.
func (l *Local) VerifyLeader(ctx context.Context) error { return ctx.Err() }

// Entry makes the entry of a command, as the server does that proposes it.
func (l *Local) Entry(cmd Command, now time.Time) ([]byte, error) {
	b, err := EncodeEntry(cmd, now, "local")
	if err != nil {
		return nil, err
	}
	forget, err := l.machine.Vet(b)
	if err != nil {
		return nil, err
	}
	forget() // as on a server that did not propose it
	return b, nil
}

// Apply applies an entry at the next index.
func (l *Local) Apply(entry []byte) (Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.apply(entry)
}

// Restore puts a snapshot in the place of the state, as on a follower that is too far behind.
func (l *Local) Restore(r io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.machine.Restore(io.NopCloser(r))
}

func (l *Local) apply(entry []byte) (Result, error) {
	index := l.state.Read().Index() + 1
	done := l.machine.apply(index, entry)
	if done.Err != nil {
		return Result{}, done.Err
	}
	return Result{Index: index, Value: done.Value}, nil
}
