package nomad_test

import (
	"flag"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

var rewrite = flag.Bool("rewrite", false, "write golden entries of commands that have none")

// TestGoldenCommands keeps logs of the past readable.
func TestGoldenCommands(t *testing.T) {
	if err := fsm.Golden(nomad.Commands(), "fsm/testdata/commands", *rewrite); err != nil {
		t.Fatal(err)
	}
}
