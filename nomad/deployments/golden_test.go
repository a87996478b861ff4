package deployments_test

import (
	"flag"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/deployments"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

var rewrite = flag.Bool("rewrite", false, "write missing golden entries")

func TestCommandsStayReadable(t *testing.T) {
	t.Parallel()
	r := fsm.NewRegistry()
	deployments.Commands(r)
	if err := fsm.Golden(r, "../fsm/testdata/commands", *rewrite); err != nil {
		t.Fatal(err)
	}
}
