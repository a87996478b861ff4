package commands_test

import (
	"flag"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

var rewrite = flag.Bool("rewrite", false, "write golden entries of commands that have none")

// TestCommandsOfThePastStayReadable keeps old logs readable.
func TestCommandsOfThePastStayReadable(t *testing.T) {
	registry := fsm.NewRegistry()
	commands.All(registry)
	if err := fsm.Golden(registry, "../../fsm/testdata/commands", *rewrite); err != nil {
		t.Fatal(err)
	}
}
