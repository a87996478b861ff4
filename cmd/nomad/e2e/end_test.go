package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// TestExitCodeTellsWhetherTheAgentLeft stops agents that leave and that do not.
func TestExitCodeTellsWhetherTheAgentLeft(t *testing.T) {
	t.Parallel()
	lab := kit.NewLab(t)
	server, stays, leaves := lab.Host("s1"), lab.Host("n1"), lab.Host("n2")
	server.Serve([]*kit.Host{server}, kit.Quick)
	stays.Work([]*kit.Host{server}, "")
	leaves.Start(fmt.Sprintf("leave_on_terminate = true\nclient {\n enabled = true\n servers = [\"%s:4647\"]\n}", server.IP))
	server.Ready(2)
	for _, c := range []struct {
		host *kit.Host
		want int
	}{{stays, 1}, {leaves, 0}, {server, 1}} {
		if code := c.host.Terminate(20 * time.Second); code != c.want {
			t.Errorf("%s ended with %d, want %d", c.host.Name, code, c.want)
		}
		if log := c.host.LogTail(30); strings.Contains(log, "[ERROR]") {
			t.Errorf("%s complained at its end:\n%s", c.host.Name, log)
		}
	}
}

// TestDevelopmentAgentLeavesNothing ends agents whose jobs would be replaced, as in the tutorial.
func TestDevelopmentAgentLeavesNothing(t *testing.T) {
	t.Parallel()
	for range soaktest.Rounds(1, 5) {
		a := kit.StartDev(t)
		a.Plugin("hostpath")
		a.CreateVolume("hostpath", "data")
		a.Register(kit.WithVolume(kit.ShellJob("writer", "while true; do date >> $NOMAD_ALLOC_DIR/../t/data/log; sleep 0.02; done"), "data"))
		a.Running("writer", 1)
		a.Terminate(60 * time.Second)
		if left := a.Mounts(); len(left) > 0 {
			t.Errorf("mounts are left: %q", left)
		}
		if left := a.Processes(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if left, err := os.ReadDir(a.Tmp()); err != nil || len(left) > 0 {
			t.Errorf("directories are left: %v %v", left, err)
		}
	}
}
