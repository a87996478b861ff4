package fsm_test

import (
	"flag"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

var rewriteGolden = flag.Bool("rewrite", false, "write golden entries of commands that have none")

// TestGoldenCommands keeps logs of the past readable.
func TestGoldenCommands(t *testing.T) {
	if err := fsm.Golden(nomad.Commands(), "testdata/commands", *rewriteGolden); err != nil {
		t.Fatal(err)
	}
}
