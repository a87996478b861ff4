package fsm

import (
	"context"
	"fmt"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/nomad/state"
)

// Command is one entry of the raft log. Apply uses only the command and the transaction, so that all
// servers compute the same; whether a move is legal is checked there. An error aborts the
// transaction and is answered to the proposer.
type Command interface {
	Kind() Kind
	Apply(tx *state.Txn) (any, error)
	msgp.Marshaler
	msgp.Unmarshaler
}

// Result is what a committed command answered.
type Result struct {
	// Index is the raft index of the command.
	Index uint64
	Value any
}

// Proposer brings commands into the log and waits until they are applied here.
type Proposer interface {
	Propose(ctx context.Context, cmd Command) (Result, error)
}

// Leader is the log of a server whose replies others rely on: it reports whether the server still leads. One that was
// stopped for a while may not have noticed that it was replaced.
type Leader interface {
	Proposer
	// VerifyLeader asks a majority of the servers, and fails unless this one leads.
	VerifyLeader(ctx context.Context) error
}

// Registry knows how to make an empty command of each kind.
type Registry struct {
	makers map[Kind]func() Command
}

// NewRegistry returns a registry with the commands of this package and those that add registers.
func NewRegistry(add ...func(*Registry)) *Registry {
	r := &Registry{makers: map[Kind]func() Command{}}
	r.Register(func() Command { return &RestoreMark{} })
	for _, a := range add {
		a(r)
	}
	return r
}

// Register adds a command. Registering a kind twice is a mistake in the program.
func (r *Registry) Register(make func() Command) {
	k := make().Kind()
	if _, twice := r.makers[k]; twice {
		panic(fmt.Sprintf("fsm: command kind %d is registered twice", k))
	}
	r.makers[k] = make
}

// New makes an empty command of the kind, or nil when it is unknown.
func (r *Registry) New(k Kind) Command {
	if make := r.makers[k]; make != nil {
		return make()
	}
	return nil
}

// Kinds lists the registered kinds in no order.
func (r *Registry) Kinds() []Kind {
	kinds := make([]Kind, 0, len(r.makers))
	for k := range r.makers {
		kinds = append(kinds, k)
	}
	return kinds
}
