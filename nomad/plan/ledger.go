package plan

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Ledger is what a plan needs of the volume claims.
type Ledger struct {
	// Check reports whether Take would succeed.
	Check func(tx *state.Txn, a *api.Allocation, stopping map[string]bool) error
	// Take writes the claims of an allocation that is placed.
	Take func(tx *state.Txn, a *api.Allocation, stopping map[string]bool) error
	// AllocChanged lets claims follow an allocation that was stopped or given up.
	AllocChanged func(tx *state.Txn, a *api.Allocation) error
}

// NoVolumes is a ledger for clusters without volumes, for tests.
func NoVolumes() Ledger {
	return Ledger{
		Check:        func(*state.Txn, *api.Allocation, map[string]bool) error { return nil },
		Take:         func(*state.Txn, *api.Allocation, map[string]bool) error { return nil },
		AllocChanged: func(*state.Txn, *api.Allocation) error { return nil },
	}
}
