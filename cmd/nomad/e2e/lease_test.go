package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const leaseTerm = 6 * time.Second

// leaseLab is a server and two nodes that share storage which cuts nobody off, with a job that writes
// its host and the time to the volume "shared" without pause, on the node that is returned first.
func leaseLab(t *testing.T, policy string) (server, holder, other *kit.Host, journal string) {
	t.Helper()
	_, servers, holder, other, journal := leaseLabOf(t, 1, policy)
	return servers[0], holder, other, journal
}

// leaseLabOf is the same with several servers.
func leaseLabOf(t *testing.T, count int, policy string) (lab *kit.Lab, servers []*kit.Host, holder, other *kit.Host, journal string) {
	t.Helper()
	return fenceLab(t, count, "lease", policy, kit.Quick)
}

// fenceLab is the same with another fence of the volume: the driver attaches unless it is "lease". Its detach is
// bookkeeping, during which others can write. The server blocks have the lines times.
func fenceLab(t *testing.T, count int, fence, policy, times string) (lab *kit.Lab, servers []*kit.Host, holder, other *kit.Host, journal string) {
	t.Helper()
	lab = kit.NewLab(t)
	for i := range count {
		servers = append(servers, lab.Host(fmt.Sprintf("s%d", i+1)))
	}
	for _, s := range servers {
		s.Serve(servers, times)
	}
	server := servers[0]
	server.Until(30*time.Second, "a leader", func() error {
		address, err := server.API.Status().Leader()
		if err == nil && address == "" {
			err = fmt.Errorf("none")
		}
		return err
	})
	nodes := []*kit.Host{lab.Host("n1"), lab.Host("n2")}
	for _, n := range nodes {
		n.Work(servers, "")
	}
	server.Ready(2)
	job := server.PluginJob("host")
	job.TaskGroups[0].Tasks[0].Config["args"] = []string{"csi-hostpath", "-state-dir", lab.Path("storage"), "-node-id", "${node.unique.name}"}
	if fence != "lease" {
		job.TaskGroups[0].Tasks[0].Config["args"] = append(job.TaskGroups[0].Tasks[0].Config["args"].([]string), "-attach")
	}
	server.Register(job)
	server.PluginOn("host", 2)
	file := filepath.Join(lab.Dir, "shared.hcl")
	spec := fmt.Sprintf(`
id = "shared"
name = "shared"
type = "csi"
plugin_id = "host"
fence = "%s"
fence_after = "1s"
lease = "%s"
write_back = "500ms"
on_node_loss = "%s"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`, fence, leaseTerm, policy)
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := server.Run("volume", "create", file); code != 0 {
		t.Fatalf("create volume: %s", out)
	}
	server.Register(kit.WithVolume(kit.ShellJob("writer",
		`trap '' TERM INT; while ! [ -e "data/end-$NOMAD_ALLOC_ID" ]; do echo "$NOMAD_ALLOC_ID $(date +%s%N)" >>data/journal; sleep 0.02; done`), "shared"))
	a := server.Running("writer", 1)
	holder, other = nodes[0], nodes[1]
	if holder.NodeID(server) != a.NodeID {
		holder, other = other, holder
	}
	server.Until(10*time.Second, "the journal", func() error {
		_ = filepath.WalkDir(lab.Path("storage"), func(path string, _ os.DirEntry, err error) error {
			if err == nil && filepath.Base(path) == "journal" {
				journal = path
			}
			return nil
		})
		if journal == "" {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	return lab, servers, holder, other, journal
}

// turns reads who wrote from when to when; it fails when two wrote at once.
func turns(t *testing.T, journal string) (ids []string, first, last map[string]time.Time) {
	t.Helper()
	body, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	first, last = map[string]time.Time{}, map[string]time.Time{}
	for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		id, at, ok := strings.Cut(line, " ")
		ns, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil {
			continue
		}
		if len(ids) == 0 || ids[len(ids)-1] != id {
			if _, before := first[id]; before {
				t.Errorf("%s wrote again after another had written", id)
			}
			ids = append(ids, id)
			first[id] = time.Unix(0, ns)
		}
		last[id] = time.Unix(0, ns)
	}
	return ids, first, last
}

// moved waits until a second allocation writes, and returns when that was.
func moved(t *testing.T, server *kit.Host, journal string) (old, next string) {
	t.Helper()
	server.Until(60*time.Second, "another allocation to write", func() error {
		if ids, _, _ := turns(t, journal); len(ids) >= 2 {
			old, next = ids[0], ids[1]
			return nil
		}
		status, _ := server.Run("volume", "status", "-verbose", "shared")
		return fmt.Errorf("one writes\n%s", status)
	})
	return old, next
}

func TestPartitionedTaskStopsBeforeItsVolumeMoves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dead, ended bool }{
		"agent-alive":          {},
		"agent-dead":           {dead: true},
		"agent-dead-task-over": {dead: true, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			server, holder, _, journal := leaseLab(t, "fence")
			if c.dead {
				holder.Kill9()
			}
			if c.ended { // by itself
				ids, _, _ := turns(t, journal)
				if err := os.WriteFile(filepath.Join(filepath.Dir(journal), "end-"+ids[0]), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cut := time.Now()
			holder.Cut()
			old, next := moved(t, server, journal)
			_, first, last := turns(t, journal)
			t.Logf("old task silent %v after the cut, new one writes after %v (lease %v)", last[old].Sub(cut).Round(time.Millisecond),
				first[next].Sub(cut).Round(time.Millisecond), leaseTerm)
			if gap := first[next].Sub(last[old]); gap <= 0 {
				t.Errorf("two writers for %v", -gap)
			}
			if took := first[next].Sub(cut); took > leaseTerm+30*time.Second {
				t.Errorf("the volume moved after %v", took)
			}
			if m := holder.VolumeMounts(); len(m) != 0 {
				t.Errorf("the cut node still has mounts: %v", m)
			}
			out, _ := server.Run("volume", "status", "-verbose", "shared")
			if !strings.Contains(out, "fenced") || !strings.Contains(out, "lease") {
				t.Errorf("the proof is not shown:\n%s", out)
			}
			holder.Heal()
			if c.dead {
				holder.Restart()
			}
			server.Until(30*time.Second, "the node to come back", func() error {
				if s := holder.NodeStatus(server); s != "ready" {
					return fmt.Errorf("it is %s", s)
				}
				return nil
			})
			server.Running("writer", 1)
			if ids, _, _ := turns(t, journal); len(ids) != 2 {
				t.Errorf("writers %v", ids)
			}
		})
	}
}

// TestPartitionedTaskStopsBeforeItsStorageMoves: the driver detaches a node and the task there could write on, as with
// drivers whose detach is bookkeeping. With both fences the task ends first.
func TestPartitionedTaskStopsBeforeItsStorageMoves(t *testing.T) {
	t.Parallel()
	_, servers, holder, _, journal := fenceLab(t, 1, "both", "fence", kit.Quick)
	server := servers[0]
	cut := time.Now()
	holder.Cut()
	old, next := moved(t, server, journal)
	_, first, last := turns(t, journal)
	t.Logf("old task silent %v after the cut, new one writes after %v (lease %v)", last[old].Sub(cut).Round(time.Millisecond),
		first[next].Sub(cut).Round(time.Millisecond), leaseTerm)
	if gap := first[next].Sub(last[old]); gap <= 0 {
		t.Errorf("two writers for %v", -gap)
	}
	if late := last[old].Sub(cut); late > leaseTerm {
		t.Errorf("the old task wrote until %v after the cut", late)
	}
	out, _ := server.Run("volume", "status", "-verbose", "shared")
	if !strings.Contains(out, "fenced") || !strings.Contains(out, "both") {
		t.Errorf("neither the fence nor its proof is shown:\n%s", out)
	}
	holder.Heal()
	server.Until(30*time.Second, "the node to come back", func() error {
		if s := holder.NodeStatus(server); s != "ready" {
			return fmt.Errorf("it is %s", s)
		}
		return nil
	})
	if ids, _, _ := turns(t, journal); len(ids) != 2 {
		t.Errorf("writers %v", ids)
	}
}

func TestRestartedServerDoesNotMoveVolumesOfNodesThatAnswer(t *testing.T) {
	t.Parallel()
	server, _, _, journal := leaseLab(t, "fence")
	before := server.Running("writer", 1).ID
	server.Kill9()
	server.Restart()
	server.Until(30*time.Second, "the leader", func() error {
		_, err := server.API.Status().Leader()
		return err
	})
	written := func() time.Time {
		_, _, last := turns(t, journal)
		return last[before]
	}
	at := written()
	server.Until(30*time.Second, "the task to write after its first lease", func() error {
		if now := written(); now.Sub(at) < 2*leaseTerm {
			return fmt.Errorf("until %v after the restart", now.Sub(at))
		}
		return nil
	})
	if now := server.Running("writer", 1).ID; now != before {
		t.Errorf("allocation %s was replaced by %s", before, now)
	}
}

func TestTasksOutliveServersThatFindNoLeader(t *testing.T) {
	t.Parallel()
	lab, servers, holder, _, journal := leaseLabOf(t, 3, "fence")
	alloc := servers[0].Running("writer", 1).ID
	shells := holder.Shells()
	apart := func(do func(a, b *kit.Host)) {
		do(servers[0], servers[1])
		do(servers[1], servers[2])
		do(servers[0], servers[2])
	}
	apart(lab.Partition)
	at := time.Now()
	holder.Until(60*time.Second, "the task to write for longer than its lease", func() error {
		_, _, last := turns(t, journal)
		if since := last[alloc].Sub(at); since < 3*leaseTerm {
			return fmt.Errorf("it wrote until %v after the partition", since)
		}
		return nil
	})
	apart(lab.Join)
	servers[0].Until(60*time.Second, "a write", func() error {
		_, _, err := servers[0].API.Jobs().Register(kit.ShellJob("after", "exec sleep 1000"), nil)
		return err
	})
	healed := time.Now()
	holder.Until(60*time.Second, "the task to write for a lease of the next leader", func() error {
		_, _, last := turns(t, journal)
		if since := last[alloc].Sub(healed); since < 2*leaseTerm {
			return fmt.Errorf("it wrote until %v after the election", since)
		}
		return nil
	})
	if now := servers[0].Running("writer", 1).ID; now != alloc {
		t.Errorf("allocation %s was replaced by %s", alloc, now)
	}
	if now := holder.Shells(); fmt.Sprint(now) != fmt.Sprint(shells) {
		t.Errorf("tasks were %v and are %v", shells, now)
	}
}
