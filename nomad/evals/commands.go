package evals

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go
//msgp:limit arrays:1000000 maps:1000000

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &Update{} })
	r.Register(func() fsm.Command { return &Reap{} })
}

// Update writes evaluations. Those that are terminal already stay as they are.
type Update struct {
	Evals []*api.Evaluation `msg:",omitempty"`
}

// Kind implements [fsm.Command].
func (*Update) Kind() fsm.Kind { return fsm.KindEvalUpdate }

// Apply implements [fsm.Command].
func (u *Update) Apply(tx *state.Txn) (any, error) {
	for _, e := range u.Evals {
		if old := tx.Eval(e.ID); old != nil && old.Terminal() {
			continue
		}
		next := *e
		if next.CreateTime == 0 {
			next.CreateTime = tx.Now().UnixNano()
		}
		next.ModifyTime = tx.Now().UnixNano()
		tx.PutEval(&next)
	}
	return nil, nil
}

// Reap deletes evaluations and their terminal allocations at a user's request.
type Reap struct {
	Evals []string `msg:",omitempty"`
}

// Kind implements [fsm.Command].
func (*Reap) Kind() fsm.Kind { return fsm.KindEvalReap }
