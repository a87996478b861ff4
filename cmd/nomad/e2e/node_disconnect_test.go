package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const quiet = "while :; do sleep 1; done"

// nodesLab is a server and two nodes without storage.
func nodesLab(t *testing.T) (server *kit.Host, nodes []*kit.Host) {
	t.Helper()
	lab := kit.NewLab(t)
	server = lab.Host("s1")
	server.Serve([]*kit.Host{server}, kit.Quick)
	nodes = []*kit.Host{lab.Host("n1"), lab.Host("n2")}
	for _, n := range nodes {
		n.Work([]*kit.Host{server}, "")
	}
	server.Ready(2)
	return server, nodes
}

// holds splits the nodes into that of the allocation and the other.
func holds(server *kit.Host, nodes []*kit.Host, nodeID string) (holder, other *kit.Host) {
	if nodes[0].NodeID(server) == nodeID {
		return nodes[0], nodes[1]
	}
	return nodes[1], nodes[0]
}

func disconnect(lostAfter time.Duration, reconcile string) *api.DisconnectStrategy {
	replace := true
	return &api.DisconnectStrategy{LostAfter: &lostAfter, Replace: &replace, Reconcile: &reconcile}
}

func status(t *testing.T, server, node *kit.Host, want string) time.Duration {
	t.Helper()
	return server.Until(30*time.Second, node.Name+" to be "+want, func() error {
		if s := node.NodeStatus(server); s != want {
			return fmt.Errorf("it is %s", s)
		}
		return nil
	})
}

// only waits until exactly one allocation of the job runs and the servers want no other.
func only(t *testing.T, server *kit.Host, job string) (id string) {
	t.Helper()
	server.Until(30*time.Second, "one allocation of "+job, func() error {
		all, _, err := server.API.Jobs().Allocations(job, true, nil)
		if err != nil {
			return err
		}
		var live []string
		for _, a := range all {
			if a.ClientStatus != "complete" && a.ClientStatus != "lost" && a.ClientStatus != "failed" {
				live = append(live, a.ID+" "+a.ClientStatus+" "+a.DesiredStatus)
				id = a.ID
			}
		}
		if len(live) != 1 || live[0] != id+" running run" {
			return fmt.Errorf("live: %q", live)
		}
		return nil
	})
	return id
}

func TestDisconnectedAllocationsGoOnWhenTheirNodeIsBack(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"keep_original", "keep_replacement", "longest_running", "best_score"} {
		t.Run(strategy, func(t *testing.T) {
			server, nodes := nodesLab(t)
			job := kit.ShellJob("w", quiet)
			job.TaskGroups[0].Disconnect = disconnect(10*time.Minute, strategy)
			server.Register(job)
			system := kit.ShellJob("everywhere", quiet)
			kind := "system"
			system.Type, system.TaskGroups[0].Disconnect = &kind, disconnect(10*time.Minute, strategy)
			server.Register(system)
			original := server.Running("w", 1)
			server.Running("everywhere", 2)
			holder, other := holds(server, nodes, original.NodeID)
			before := holder.Shells()
			wide := server.Allocs("everywhere", "running")

			cut := time.Now()
			holder.Cut()
			status(t, server, holder, "disconnected")
			server.Until(20*time.Second, "the allocations to be unknown", func() error {
				if n, m := len(server.Allocs("w", "unknown")), len(server.Allocs("everywhere", "unknown")); n != 1 || m != 1 {
					return fmt.Errorf("%d of the service, %d of the system job", n, m)
				}
				return nil
			})
			replacement := server.Running("w", 1)
			t.Logf("replaced %v after the cut", time.Since(cut).Round(time.Millisecond))
			if replacement.ID == original.ID || replacement.NodeID != other.NodeID(server) {
				t.Fatalf("replacement %s on %s", replacement.ID, replacement.NodeID)
			}
			if now := holder.Shells(); !slices.Equal(now, before) {
				t.Errorf("the cut node had the tasks %v and has %v", before, now)
			}

			healed := time.Now()
			holder.Heal()
			status(t, server, holder, "ready")
			stays := only(t, server, "w")
			t.Logf("one of two is left %v after the cure", time.Since(healed).Round(time.Millisecond))
			keep := stays == original.ID
			switch strategy {
			case "keep_original", "longest_running":
				if !keep {
					t.Errorf("the replacement stays")
				}
			case "keep_replacement":
				if keep {
					t.Errorf("the original stays")
				}
			}
			server.Until(10*time.Second, "the tasks to be as they should", func() error {
				var lives int
				for _, pid := range before {
					if kit.Lives(pid) {
						lives++
					}
				}
				if want := len(before) - map[bool]int{true: 0, false: 1}[keep]; lives != want {
					return fmt.Errorf("%d of the first %d tasks live, want %d", lives, len(before), want)
				}
				return nil
			})
			server.Running("everywhere", 2)
			for _, a := range wide {
				if got, _, err := server.API.Allocations().Info(a.ID, nil); err != nil || got.ClientStatus != "running" {
					t.Errorf("system allocation %s: %v %v", a.ID, got.ClientStatus, err)
				}
			}
		})
	}
}

func TestCutNodeStopsWhatMustNotRunAlone(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Second
	server, nodes := nodesLab(t)
	job := kit.ShellJob("w", quiet)
	after, kill := limit, time.Second
	job.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: &after}
	job.TaskGroups[0].Tasks[0].KillTimeout = &kill
	server.Register(job)
	original := server.Running("w", 1)
	holder, other := holds(server, nodes, original.NodeID)
	holder.Cut()
	cut := time.Now()
	holder.Until(20*time.Second, "the task on the cut node to end", func() error {
		if n := len(holder.Shells()); n != 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	stopped := time.Now()
	replacement := server.Running("w", 1)
	t.Logf("stopped %v after the cut (limit %v), replaced after %v", stopped.Sub(cut).Round(time.Millisecond), limit, time.Since(cut).Round(time.Millisecond))
	if late := stopped.Sub(cut); late > limit+30*time.Second {
		t.Errorf("stopped after %v", late)
	}
	a, _, err := server.API.Allocations().Info(replacement.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if begun := a.TaskStates["main"].StartedAt; begun.Before(stopped) {
		t.Errorf("the replacement began %v before the end of the original", stopped.Sub(begun))
	}
	if replacement.NodeID != other.NodeID(server) {
		t.Errorf("replacement on %s", replacement.NodeID)
	}
	holder.Heal()
	status(t, server, holder, "ready")
	if stays := only(t, server, "w"); stays != replacement.ID {
		t.Errorf("%s stays", stays)
	}
}
