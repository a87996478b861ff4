package services

import (
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// Delete deletes one instance of a service. The next change of its allocation makes it again.
type Delete struct {
	Namespace   string `msg:",omitempty"`
	ServiceName string `msg:",omitempty"`
	ID          string `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) { r.Register(func() fsm.Command { return &Delete{} }) }

// Kind implements [fsm.Command].
func (*Delete) Kind() fsm.Kind { return fsm.KindServiceDelete }

// Apply deletes the instance.
func (c *Delete) Apply(tx *state.Txn) (any, error) {
	row := tx.ServiceInstance(c.ID)
	if row == nil || row.Namespace != c.Namespace || row.ServiceName != c.ServiceName {
		return nil, fault.New(fault.NotFound, "service %.140q has no instance %.300q", c.ServiceName, c.ID)
	}
	tx.DeleteServiceInstance(c.ID)
	return nil, nil
}
