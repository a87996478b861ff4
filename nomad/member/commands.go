package member

import (
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// NameCluster names the cluster permanently; a second name is ignored.
type NameCluster struct {
	ID string `msg:",omitempty"`
}

// AgreeVersion records which version of the log's language all servers understand. It never goes back.
type AgreeVersion struct {
	Version uint64 `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &NameCluster{} })
	r.Register(func() fsm.Command { return &AgreeVersion{} })
}

// Kind implements [fsm.Command].
func (*NameCluster) Kind() fsm.Kind { return fsm.KindClusterID }

// Kind implements [fsm.Command].
func (*AgreeVersion) Kind() fsm.Kind { return fsm.KindAgreeVersion }

// Apply raises the version.
func (c *AgreeVersion) Apply(tx *state.Txn) (any, error) {
	if c.Version > tx.AgreedVersion() {
		tx.PutAgreedVersion(c.Version)
	}
	return tx.AgreedVersion(), nil
}

// Apply stores the name unless there is one, and returns the name in force.
func (c *NameCluster) Apply(tx *state.Txn) (any, error) {
	if tx.ClusterID() == "" {
		tx.PutClusterID(c.ID)
	}
	return tx.ClusterID(), nil
}
