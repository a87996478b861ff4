package consensus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// nextCommand is a command that the next version adds.
type nextCommand struct{ mark }

func (*nextCommand) Kind() fsm.Kind { return fsm.KindNext }

// A server that does not have the command stops when it is in the log: it is not proposed before all servers have it.
func TestCommandOfALaterVersionIsNotProposed(t *testing.T) {
	t.Parallel()
	c, s := config(t, t.TempDir())
	c.Registry.Register(func() fsm.Command { return &nextCommand{} })
	r := run(t, c)
	if need, agreed := fsm.Since(fsm.KindNext), r.Agreed(); need != agreed+1 {
		t.Fatalf("the command needs version %d, and the servers agree on version %d", need, agreed)
	}
	before := s.Read().Index()
	_, err := r.Propose(t.Context(), &nextCommand{mark{"later"}})
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "upgrade all servers") {
		t.Errorf("a command of the next version: %v", err)
	}
	if tx := s.Read(); tx.Index() != before || tx.Namespace("later") != nil {
		t.Error("the command is in the log")
	}
}
