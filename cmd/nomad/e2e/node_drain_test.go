package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// steadyFor is how long a replacement must run before the next allocation may go.
const steadyFor = 300 * time.Millisecond

// on counts the job's allocations of that status on the node.
func on(server *kit.Host, job, status, node string) (n int) {
	for _, a := range server.Allocs(job, status) {
		if a.NodeID == node {
			n++
		}
	}
	return n
}

// ofKind is a shell job of another kind.
func ofKind(id, kind string, count int) *api.Job {
	j := kit.ShellJob(id, quiet)
	j.Type, j.TaskGroups[0].Count = &kind, &count
	if kind == "batch" || kind == "sysbatch" {
		j.TaskGroups[0].RestartPolicy = nil
	}
	return j
}

func drained(t *testing.T, server *kit.Host, id string) *api.Node {
	t.Helper()
	var node *api.Node
	server.Until(30*time.Second, "the drain to end", func() (err error) {
		if node, _, err = server.API.Nodes().Info(id, nil); err == nil && node.DrainStrategy != nil {
			err = fmt.Errorf("strategy %+v", node.DrainStrategy)
		}
		return err
	})
	return node
}

func TestDrainMovesServicesThenSystemJobs(t *testing.T) {
	t.Parallel()
	server, nodes := nodesLab(t)
	left, right := nodes[0].NodeID(server), nodes[1].NodeID(server)
	service := ofKind("svc", "service", 3)
	parallel, steady, latest, check := 1, steadyFor, 5*time.Second, "task_states"
	service.TaskGroups[0].Migrate = &api.MigrateStrategy{MaxParallel: &parallel, MinHealthyTime: &steady, HealthyDeadline: &latest, HealthCheck: &check}
	if out, code := server.Run("node", "eligibility", "-disable", right); code != 0 {
		t.Fatal(out)
	}
	for _, j := range []*api.Job{service, ofKind("sys", "system", 1), ofKind("bat", "batch", 1)} {
		server.Register(j)
	}
	server.Running("svc", 3)
	server.Running("bat", 1)
	server.Running("sys", 1)
	if out, code := nodes[1].Run("node", "eligibility", "-enable", "-self"); code != 0 {
		t.Fatal(out)
	}
	server.Running("sys", 2)

	began := time.Now()
	out, code := server.Run("node", "drain", "-enable", "-yes", "-deadline", "4s", "-m", "new disks", "-meta", "ticket=7", left[:8])
	if code != 0 || !strings.Contains(out, "drain strategy set") || !strings.Contains(out, "the drain has ended") {
		t.Fatalf("exit %d: %s", code, out)
	}
	took := time.Since(began)
	t.Logf("drained in %v (the batch job stays until the deadline of 4 s)", took.Round(time.Millisecond))
	if took < 3*time.Second || took > 45*time.Second {
		t.Errorf("the drain took %v", took)
	}
	node := drained(t, server, left)
	if m := node.LastDrain.Meta; m["message"] != "new disks" || m["ticket"] != "7" || node.LastDrain.Status != "complete" {
		t.Errorf("last drain %+v", node.LastDrain)
	}
	server.Running("svc", 3)
	for job, want := range map[string]int{"svc": 3, "sys": 1, "bat": 1} {
		server.Until(10*time.Second, job+" on the other node", func() error {
			if n := on(server, job, "running", right); n != want || on(server, job, "running", left) != 0 {
				return fmt.Errorf("%d run there", n)
			}
			return nil
		})
	}
	oneByOne(t, server)
	if n := len(nodes[0].Shells()); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	if out, code := server.Run("node", "drain", "-disable", "-yes", left); code != 0 {
		t.Fatal(out)
	}
	server.Running("sys", 2)
}

// oneByOne checks that no service allocation was asked to end before the replacement of the one before ran.
func oneByOne(t *testing.T, server *kit.Host) {
	t.Helper()
	all, _, err := server.API.Jobs().Allocations("svc", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var killed, started []time.Time
	for _, a := range all {
		s := a.TaskStates["main"]
		if a.ClientStatus == "running" {
			started = append(started, s.StartedAt)
			continue
		}
		for _, e := range s.Events {
			if e.Type == "Killing" {
				killed = append(killed, time.Unix(0, e.Time))
			}
		}
	}
	slices.SortFunc(killed, time.Time.Compare)
	slices.SortFunc(started, time.Time.Compare)
	if len(killed) != 3 || len(started) != 3 {
		t.Fatalf("%d ended, %d run", len(killed), len(started))
	}
	for i := 1; i < 3; i++ {
		if waited := killed[i].Sub(started[i-1]); waited < steadyFor {
			t.Errorf("allocation %d was killed %v after the replacement of the last one began", i, waited)
		}
	}
}

func TestNodeDrainsItselfBeforeItsAgentEnds(t *testing.T) {
	t.Parallel()
	lab := kit.NewLab(t)
	server, node, other := lab.Host("s1"), lab.Host("n1"), lab.Host("n2")
	server.Serve([]*kit.Host{server}, kit.Quick)
	node.Start(fmt.Sprintf(`
leave_on_terminate = true
client {
  enabled = true
  server_join {
    retry_join = [%q]
  }
  drain_on_shutdown {
    deadline = "20s"
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}`, server.IP))
	server.Ready(1)
	server.Register(kit.ShellJob("w", quiet))
	server.Running("w", 1)
	other.Work([]*kit.Host{server}, "")
	server.Ready(2)
	id := node.NodeID(server)

	told := time.Now()
	_ = syscall.Kill(node.PID(), syscall.SIGTERM)
	node.Until(30*time.Second, "the agent to end", func() error {
		if node.Alive() {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	t.Logf("agent ended %v after SIGTERM", time.Since(told).Round(time.Millisecond))
	if n := len(node.Shells()); n != 0 {
		t.Errorf("%d tasks are left on the node", n)
	}
	if a := server.Running("w", 1); a.NodeID == id {
		t.Errorf("the job is still there")
	}
	if n := drained(t, server, id); n.SchedulingEligibility != "ineligible" || n.LastDrain.Status != "complete" {
		t.Errorf("%s, %+v", n.SchedulingEligibility, n.LastDrain)
	}
	node.Restart()
	server.Until(20*time.Second, "the node to be eligible again", func() error {
		n, _, err := server.API.Nodes().Info(id, nil)
		if err != nil || n.SchedulingEligibility != "eligible" || n.Status != "ready" {
			return fmt.Errorf("%s %s %w", n.Status, n.SchedulingEligibility, err)
		}
		return nil
	})
}
