package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// lines counts the lines of the agent's log that hold the text.
func lines(t *testing.T, h *kit.Host, text string) (n int) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(h.Dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func TestSecondNodeWithTheSameIDIsRefused(t *testing.T) {
	lab := kit.NewLab(t)
	server, first, second := lab.Host("s1"), lab.Host("n1"), lab.Host("n2")
	server.Serve([]*kit.Host{server}, kit.Quick)
	first.Work([]*kit.Host{server}, "")
	server.Ready(1)
	server.Register(kit.ShellJob("w", quiet))
	a := server.Running("w", 1)
	id := filepath.Join("data", "client", "client-id")
	body, err := os.ReadFile(filepath.Join(first.Dir, id))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(second.Dir, "data", "client"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second.Dir, id), body, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Work([]*kit.Host{server}, "")
	for _, h := range []*kit.Host{server, second} {
		h.Until(20*time.Second, "a line in the log of "+h.Name, func() error {
			if lines(t, h, "is registered with another secret") == 0 {
				return fmt.Errorf("none")
			}
			return nil
		})
	}
	second.Until(30*time.Second, "more tries", func() error {
		if n := lines(t, second, "the node is still refused"); n < 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	for _, h := range []*kit.Host{server, second} {
		if n := lines(t, h, "is registered with another secret"); n > 2 {
			t.Errorf("%s says it %d times", h.Name, n)
		}
	}
	server.Ready(1)
	if s := first.NodeStatus(server); s != "ready" {
		t.Errorf("the first node is %s", s)
	}
	if again := server.Running("w", 1); again.ID != a.ID || len(first.Shells()) != 1 {
		t.Errorf("allocation %s, then %s", a.ID, again.ID)
	}
}

func TestPurgedNodeComesBack(t *testing.T) {
	server, nodes := nodesLab(t)
	id := nodes[0].NodeID(server)
	if _, _, err := server.API.Nodes().Purge(id, nil); err != nil {
		t.Fatal(err)
	}
	took := server.Ready(2)
	t.Logf("registered again after %v", took)
	if again := nodes[0].NodeID(server); again != id {
		t.Errorf("node %s came back as %s", id, again)
	}
	server.Register(kit.ShellJob("w", quiet))
	server.Running("w", 1)
}

// TestNewNodeWaitsForAnOperator registers a node with default_ineligible.
func TestNewNodeWaitsForAnOperator(t *testing.T) {
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
