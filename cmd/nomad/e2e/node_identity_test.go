package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestNewNodeWaitsForAnOperator registers a node with default_ineligible.
func TestNewNodeWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	lab := kit.NewLab(t)
	server, node := lab.Host("s1"), lab.Host("n1")
	server.Serve([]*kit.Host{server}, kit.Quick)
	node.Work([]*kit.Host{server}, "default_ineligible = true")
	server.Ready(1)
	id := node.NodeID(server)
	eligibility := func() string {
		t.Helper()
		n, _, err := server.API.Nodes().Info(id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return n.SchedulingEligibility
	}
	if got := eligibility(); got != "ineligible" {
		t.Errorf("the new node is %s", got)
	}
	server.Register(kit.ShellJob("w", "exec sleep 1000"))
	server.Until(10*time.Second, "the job to wait", func() error {
		evals, _, err := server.API.Jobs().Evaluations("w", nil)
		for _, e := range evals {
			if e.Status == "blocked" {
				return nil
			}
		}
		return fmt.Errorf("%d evaluations, none blocked: %v", len(evals), err)
	})
	if _, err := server.API.Nodes().ToggleEligibility(id, true, nil); err != nil {
		t.Fatal(err)
	}
	server.Running("w", 1)
	node.Restart()
	node.Until(20*time.Second, "the node to register again", func() error {
		health, err := node.API.Agent().Health()
		if err == nil && (health.Client == nil || !health.Client.Ok) {
			err = fmt.Errorf("%+v", health.Client)
		}
		return err
	})
	if got := eligibility(); got != "eligible" {
		t.Errorf("the node that an operator made eligible is %s after a restart", got)
	}
}
