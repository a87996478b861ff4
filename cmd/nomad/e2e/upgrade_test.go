package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func stale() *api.QueryOptions { return &api.QueryOptions{AllowStale: true} }

// nextVersion builds the program of a version that does not exist: each of its raft commands has a field
// that today's program does not know, and it has one command more.
func nextVersion(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "nomad")
	cmd := exec.Command("go", "build", "-tags", "nextversion", "-ldflags", "-s -w", "-o", program, "./cmd/nomad")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v: %s", err, out)
	}
	return program
}

// pool tells whether the pool exists that the next version's command makes.
func (c *cluster) pool(h *kit.Host) bool {
	_, _, err := h.API.NodePools().Info("next", nil)
	return err == nil
}

func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	program := nextVersion(t)
	c := newCluster(t)
	now := c.servers[0].Binary
	c.servers[0].Register(kit.ShellJob("before", "exec sleep 1000"))
	alloc := c.servers[0].Running("before", 1).ID
	for i, s := range c.servers {
		s.Kill9()
		s.Binary = program
		s.Restart()
		c.leader(nil)
		c.voters(3)
		// The leader of the next version writes with more fields than the others know.
		job := fmt.Sprintf("during-%d", i)
		if i < 2 {
			c.lead(s)
		}
		s.Register(kit.ShellJob(job, "exec sleep 1000"))
		for _, reader := range c.servers {
			reader.Until(10*time.Second, job+" at "+reader.Name, func() error {
				_, _, err := reader.API.Jobs().Info(job, stale())
				return err
			})
		}
		s.Running(job, 1)
		if i < 2 && c.pool(s) {
			t.Errorf("%d of 3 servers are upgraded and a command of the next version was written", i+1)
		}
	}
	c.servers[0].Until(30*time.Second, "a command of the next version", func() error {
		if !c.pool(c.servers[0]) {
			return fmt.Errorf("not written")
		}
		return nil
	})
	if id := c.servers[0].Running("before", 1).ID; id != alloc {
		t.Errorf("the upgrade replaced allocation %s by %s", alloc, id)
	}
	old := c.servers[2]
	old.Kill9()
	old.Binary = now
	old.Restart()
	old.Until(20*time.Second, "the old program to refuse", func() error {
		if log := old.LogTail(200); strings.Contains(log, "start a newer program") {
			return nil
		}
		return fmt.Errorf("it says\n%s", old.LogTail(5))
	})
	c.servers[0].Register(kit.ShellJob("after", "exec sleep 1000"))
	c.servers[0].Running("after", 1)
}

// lead kills other leaders until the server leads.
func (c *cluster) lead(s *kit.Host) {
	c.t.Helper()
	for range 20 {
		now := c.leader(nil)
		if now == s {
			return
		}
		now.Kill9()
		c.leader(now)
		now.Restart()
		c.voters(3)
	}
	c.t.Fatalf("%s never leads", s.Name)
}
