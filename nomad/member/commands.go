package member

import (
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go tool -modfile=../../tools/go.mod msgp -o zz_msgp.go -tests=false -io=false -file commands.go

//msgp:limit arrays:1000000 maps:1000000

// NameCluster gives the cluster its name for ever; a second one is not taken.
type NameCluster struct {
	ID string `msg:",omitempty"`
}

// Commands registers this room's commands.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &NameCluster{} })
}

// Kind implements [fsm.Command].
func (*NameCluster) Kind() fsm.Kind { return fsm.KindClusterID }

// Apply stores the name unless there is one, and answers the one in force.
func (c *NameCluster) Apply(tx *state.Txn) (any, error) {
	if tx.ClusterID() == "" {
		tx.PutClusterID(c.ID)
	}
	return tx.ClusterID(), nil
}
