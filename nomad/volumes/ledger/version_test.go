package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// The numbers stand in packages that must not import the log: another one here has servers apply entries differently.
func TestVersionsOfTheLogAgree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]uint64{
		"ledger.Ends":      {ledger.Ends, fsm.Ends},
		"ledger.Keyring":   {ledger.Keyring, fsm.Keyring},
		"feasible.Keyring": {feasible.Keyring, fsm.Keyring},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %d, and %d in the log", name, c[0], c[1])
		}
	}
}
