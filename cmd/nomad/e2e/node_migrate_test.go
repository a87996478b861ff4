package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestDataMigratesDuringADrain moves a job with data to another node, and one whose data exceeds its disk.
func TestDataMigratesDuringADrain(t *testing.T) {
	t.Parallel()
	server, nodes := nodesLab(t)
	right := nodes[1].NodeID(server)
	if out, code := server.Run("node", "eligibility", "-disable", right); code != 0 {
		t.Fatal(out)
	}
	// Each allocation appends a line, so the count of lines is that of the allocations.
	script := func(kb int) string {
		return fmt.Sprintf(`echo run >> $NOMAD_ALLOC_DIR/data/runs; echo run >> local/runs; [ -e local/large ] || head -c %dK /dev/zero | tr '\0' x > local/large; touch local/ready; %s`, kb, quiet)
	}
	fits, large := kit.ShellJob("fits", script(9000)), kit.ShellJob("large", script(11000))
	for _, j := range []*api.Job{fits, large} {
		j.TaskGroups[0].EphemeralDisk.Sticky, j.TaskGroups[0].EphemeralDisk.Migrate = new(true), new(true)
		server.Register(j)
	}
	read := func(job, path string) (text string) {
		server.Until(30*time.Second, path+" of "+job, func() error {
			all := server.Allocs(job, "running")
			if len(all) != 1 {
				return fmt.Errorf("%d allocations run", len(all))
			}
			if out, code := server.Run("alloc", "fs", all[0].ID, "main/local/ready"); code != 0 {
				return fmt.Errorf("%s", out)
			}
			out, code := server.Run("alloc", "fs", all[0].ID, path)
			if text = out; code != 0 {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
		return text
	}
	for _, job := range []string{"fits", "large"} {
		server.Running(job, 1)
		if got := read(job, "alloc/data/runs"); got != "run\n" {
			t.Fatalf("%s at first: %q", job, got)
		}
	}
	if out, code := nodes[1].Run("node", "eligibility", "-enable", "-self"); code != 0 {
		t.Fatal(out)
	}
	if out, code := server.Run("node", "drain", "-enable", "-yes", "-detach", nodes[0].NodeID(server)); code != 0 {
		t.Fatal(out)
	}
	moved := func(job string) string {
		id := ""
		server.Until(60*time.Second, job+" on the other node", func() error {
			for _, a := range server.Allocs(job, "running") {
				if a.NodeID == right {
					id = a.ID
					return nil
				}
			}
			return fmt.Errorf("it does not run there")
		})
		return id
	}
	id := moved("fits")
	for _, path := range []string{"alloc/data/runs", "main/local/runs"} {
		if got := read("fits", path); got != "run\nrun\n" {
			t.Errorf("%s after the move: %q", path, got)
		}
	}
	if out, code := server.Run("alloc", "fs", "-stat", id, "main/local/large"); code != 0 || !strings.Contains(out, "8.8 MiB") && !strings.Contains(out, "9216000") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, _ := server.Run("alloc", "status", id); !strings.Contains(out, "is copied from its node") {
		t.Error(out)
	}
	id = moved("large")
	if got := read("large", "alloc/data/runs"); got != "run\n" {
		t.Errorf("data that exceeds the disk: %q", got)
	}
	if out, _ := server.Run("alloc", "status", id); !strings.Contains(out, "exceeds the 10 MB of the ephemeral disk") {
		t.Error(out)
	}
}
