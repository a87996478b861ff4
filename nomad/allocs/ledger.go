package allocs

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// allocChanged lets the claims of an allocation's volumes follow its client status.
func allocChanged(tx *state.Txn, a *api.Allocation) error { return nil }
