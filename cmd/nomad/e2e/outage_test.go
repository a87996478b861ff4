package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// leased is a small single-writer volume with the lease of these tests.
func leased(t *testing.T, a *kit.Agent, plugin, id string) {
	t.Helper()
	file := filepath.Join(a.Dir, id+".hcl")
	spec := fmt.Sprintf(`
id = %q
name = %q
type = "csi"
plugin_id = %q
lease = "%s"
write_back = "500ms"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
`, id, id, plugin, leaseTerm)
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.Run("volume", "create", file); code != 0 {
		t.Fatalf("create volume: %s", out)
	}
}

// stamper writes its process and the time into a file, on a volume or in its own directory.
func stamper(id, file string) *api.Job {
	return kit.ShellJob(id, fmt.Sprintf(`trap '' TERM INT; while :; do echo "$NOMAD_ALLOC_ID.$$ $(date +%%s%%N)" >>%s; sleep 0.05; done`, file))
}

// found waits for a file below a directory.
func found(a *kit.Agent, dir, name string) (path string) {
	a.Until(15*time.Second, name, func() error {
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == name {
				path = p
			}
			return nil
		})
		if path == "" {
			return fmt.Errorf("none below %s", dir)
		}
		return nil
	})
	return path
}

// writes waits until the file was written to at a time.
func writes(a *kit.Agent, t *testing.T, file string, at time.Time) {
	t.Helper()
	a.Until(60*time.Second, "a write into "+filepath.Base(file), func() error {
		ids, _, last := turns(t, file)
		if len(ids) == 0 || last[ids[len(ids)-1]].Before(at) {
			return fmt.Errorf("writers %v; the last write is too old", ids)
		}
		return nil
	})
}

// TestTasksOutliveTheOnlyServerInTheSameAgent: nobody else could place the task anew.
func TestTasksOutliveTheOnlyServerInTheSameAgent(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("host")
	leased(t, a, "host", "v1")
	a.Register(kit.WithVolume(stamper("writer", "data/stamps"), "v1"))
	alloc := a.Running("writer", 1)
	file := found(a, a.Dir+"/host", "stamps")
	a.Kill()
	down := time.Now()
	writes(a, t, file, down.Add(3*leaseTerm))
	a.Launch()
	writes(a, t, file, time.Now().Add(2*leaseTerm))
	if ids, _, _ := turns(t, file); len(ids) != 1 {
		t.Errorf("the task was started %d times: %v", len(ids), ids)
	}
	if now := a.Running("writer", 1); now.ID != alloc.ID {
		t.Errorf("allocation %s was replaced by %s", alloc.ID, now.ID)
	}
	kit.Measured(t, fmt.Sprintf("cluster | agent with the only server down for %v (lease %v) and back | task never stopped | no task stopped that need not be", 3*leaseTerm, leaseTerm))
}

// TestTasksOutliveAllServersDown kills all servers for longer than the lease. What has no lease goes on;
// what has one stops, as nobody answers the node any more, and runs again when the servers are back.
func TestTasksOutliveAllServersDown(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers-%d", count), func(t *testing.T) {
			t.Parallel()
			lab, servers, holder, _, journal := fenceLab(t, count, "lease", "fence", "") // no node is lost before it has found the servers again
			server := servers[0]
			plugin := server.PluginJob("hp")
			plugin.TaskGroups[0].Tasks[0].Config["args"] = []string{"csi-hostpath", "-state-dir", lab.Path("attached"), "-node-id", "${node.unique.name}", "-attach"}
			server.Register(plugin)
			server.PluginOn("hp", 2)
			leased(t, server.Agent, "hp", "disk")
			server.Register(kit.WithVolume(stamper("attached", "data/attached-stamps"), "disk"))
			server.Register(stamper("plain", "local/plain-stamps"))
			before := map[string]string{}
			for _, id := range []string{"attached", "plain", "writer"} {
				before[id] = server.Running(id, 1).ID
			}
			files := []string{found(server.Agent, lab.Path("attached"), "attached-stamps"), found(server.Agent, lab.Dir, "plain-stamps")}
			for _, s := range servers {
				s.Kill9()
			}
			down := time.Now()
			for _, f := range files {
				writes(server.Agent, t, f, down.Add(3*leaseTerm))
			}
			for _, m := range holder.VolumeMounts() {
				if strings.Contains(m, "/monolith/host/") {
					t.Errorf("the volume with a lease is mounted: %s", m)
				}
			}
			if _, _, last := turns(t, journal); last[before["writer"]].Sub(down) > leaseTerm+time.Second {
				t.Errorf("the task with a lease wrote until %v after the servers were gone", last[before["writer"]].Sub(down))
			}
			for _, s := range servers {
				s.Restart()
			}
			up := time.Now()
			for _, f := range append(files, journal) {
				writes(server.Agent, t, f, up.Add(2*leaseTerm))
			}
			back := map[string]string{}
			for _, id := range []string{"attached", "plain"} {
				if back[id] = server.Running(id, 1).ID; back[id] != before[id] {
					t.Errorf("%s: allocation %s was replaced by %s", id, before[id], back[id])
				}
			}
			for _, f := range files {
				if ids, _, _ := turns(t, f); len(ids) != 1 {
					t.Errorf("%s was started %d times: %v", filepath.Base(f), len(ids), ids)
				}
			}
			ids, first, _ := turns(t, journal)
			kit.Measured(t, fmt.Sprintf("cluster | %d servers down for %v (lease %v) and back | tasks without a lease never stopped; the one with a lease writes again after %v | no task stopped that need not be",
				count, 3*leaseTerm, leaseTerm, first[ids[len(ids)-1]].Sub(up).Round(10*time.Millisecond)))
		})
	}
}
