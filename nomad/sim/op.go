package sim

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// op is an entry of the played log: the number of a function of the world.
type op struct {
	world *World
	ID    uint64
}

// Kind implements [fsm.Command].
func (*op) Kind() fsm.Kind { return fsm.KindSkippable }

// Apply runs the function.
func (o *op) Apply(tx *state.Txn) (any, error) { return nil, o.world.ops[o.ID-1](tx) }

// MarshalMsg implements [fsm.Command].
func (o *op) MarshalMsg(b []byte) ([]byte, error) { return msgp.AppendUint64(b, o.ID), nil }

// UnmarshalMsg implements [fsm.Command].
func (o *op) UnmarshalMsg(b []byte) (rest []byte, err error) {
	o.ID, rest, err = msgp.ReadUint64Bytes(b)
	return rest, err
}
