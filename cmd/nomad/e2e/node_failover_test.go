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

func TestNodeFindsAnotherServer(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, lab: kit.NewLab(t)}
	for i := range 3 {
		c.servers = append(c.servers, c.lab.Host(fmt.Sprintf("s%d", i+1)))
	}
	c.node = c.lab.Host("n1")
	for _, s := range c.servers {
		// Slow enough that the node is not lost while it looks for another server.
		s.Serve(c.servers, "heartbeat_grace = \"5s\"\nmin_heartbeat_ttl = \"1s\"\nfailover_heartbeat_ttl = \"10s\"\nraft_multiplier = 3")
	}
	leader := c.leader(nil)
	c.voters(3)
	used := c.servers[0]
	if used == leader { // the change of leader is another test's matter
		used = c.servers[1]
	}
	c.node.Work([]*kit.Host{used}, "") // it is told of the others
	leader.Ready(1)
	list := filepath.Join(c.node.Dir, "data", "client", "servers")
	leader.Until(10*time.Second, "three servers in "+list, func() error {
		body, err := os.ReadFile(list)
		if err != nil || strings.Count(string(body), "\n") != 3 {
			return fmt.Errorf("%q: %w", body, err)
		}
		return nil
	})

	used.Cut()
	cut := time.Now()
	leader.Register(kit.ShellJob("a", quiet))
	leader.Running("a", 1)
	took := time.Since(cut)
	t.Logf("server cut off without a reset: a new job runs on the node after %v", took.Round(time.Millisecond))
	if !kit.Within(took, 3500*time.Millisecond, 1) {
		t.Errorf("fail-over took %v", took)
	}
	if s := c.node.NodeStatus(leader); s != "ready" {
		t.Errorf("the node is %s", s)
	}

	c.node.Restart()
	begun := time.Now()
	leader.Until(20*time.Second, "a report of the new agent", func() error {
		if n := strings.Count(c.node.LogTail(1<<20), "node is registered"); n != 2 {
			return fmt.Errorf("registered %d times", n)
		}
		return nil
	})
	t.Logf("agent restarted while its configured server is gone: registered after %v", time.Since(begun).Round(time.Millisecond))
	leader.Register(kit.ShellJob("b", quiet))
	leader.Running("b", 1)

	used.Heal()
	leader = c.leader(nil)
	other := c.servers[2]
	if other == leader {
		other = c.servers[0]
	}
	other.Kill9()
	killed := time.Now()
	leader.Register(kit.ShellJob("c", quiet))
	leader.Running("c", 1)
	t.Logf("another server killed: a new job runs after %v", time.Since(killed).Round(time.Millisecond))
}

func TestNewLeaderTakesNoNodeForLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	id := c.node.NodeID(c.servers[0])
	old := c.leader(nil)
	old.Kill9()
	killed := time.Now()
	leader := c.leader(old)
	const watched = 8 * time.Second // longer than a new leader waits for nodes here
	leader.Until(watched+10*time.Second, "the time of the new leader to pass", func() error {
		if s := c.node.NodeStatus(leader); s != "ready" {
			t.Fatalf("the node is %s %v after the old leader was killed", s, time.Since(killed))
		}
		if left := watched - time.Since(killed); left > 0 {
			return fmt.Errorf("%v left", left)
		}
		return nil
	})
	n, _, err := leader.API.Nodes().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range n.Events {
		if strings.Contains(e.Message, "missed") {
			t.Errorf("event %q", e.Message)
		}
	}
}
