package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

func TestVersionsOfTheLogAgree(t *testing.T) {
	t.Parallel()
	if ledger.Ends != fsm.Ends {
		t.Errorf("%d is %d in the log", ledger.Ends, fsm.Ends)
	}
}
