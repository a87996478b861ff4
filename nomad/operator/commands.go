package operator

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

//go:generate go run -modfile=../../tools/go.mod ../../cmd/nomad/codec.go . commands.go

//msgp:limit arrays:1000000 maps:1000000

// SetSchedulerConfig writes the scheduling configuration; with CAS only if the stored one still has
// the ModifyIndex of Config. Apply returns whether it wrote.
type SetSchedulerConfig struct {
	Config *api.SchedulerConfiguration `msg:",omitempty"`
	CAS    bool                        `msg:",omitempty"`
}

// SetAutopilotConfig writes the autopilot's configuration, with CAS as above.
type SetAutopilotConfig struct {
	Config *api.AutopilotConfiguration `msg:",omitempty"`
	CAS    bool                        `msg:",omitempty"`
}

// Commands registers the commands of this service.
func Commands(r *fsm.Registry) {
	r.Register(func() fsm.Command { return &SetSchedulerConfig{} })
	r.Register(func() fsm.Command { return &SetAutopilotConfig{} })
}

// Kind implements [fsm.Command].
func (*SetSchedulerConfig) Kind() fsm.Kind { return fsm.KindSchedulerConfig }

// Kind implements [fsm.Command].
func (*SetAutopilotConfig) Kind() fsm.Kind { return fsm.KindAutopilotConfig }

// Apply compares and stores.
func (c *SetAutopilotConfig) Apply(tx *state.Txn) (any, error) {
	if c.CAS && tx.AutopilotConfig().ModifyIndex != c.Config.ModifyIndex {
		return false, nil
	}
	tx.PutAutopilotConfig(c.Config)
	return true, nil
}

// Apply compares and stores.
func (c *SetSchedulerConfig) Apply(tx *state.Txn) (any, error) {
	if c.CAS && tx.SchedulerConfig().ModifyIndex != c.Config.ModifyIndex {
		return false, nil
	}
	tx.PutSchedulerConfig(c.Config)
	return true, nil
}
