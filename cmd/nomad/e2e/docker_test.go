package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
)

// withEngine is an agent that runs containers on an engine of its own.
func withEngine(t *testing.T) *kit.Agent {
	t.Helper()
	a := kit.Prepare(t)
	e, err := enginetest.Start(a.Dir + "/engine")
	if errors.Is(err, enginetest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := os.OpenFile(a.Dir+"/agent.hcl", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	_, err = fmt.Fprintf(config, `
plugin "docker" {
  config {
    endpoint   = %q
    allow_caps = ["all"]
    volumes {
      enabled = true
    }
  }
}
`, e.Host)
	if err != nil {
		t.Fatal(err)
	}
	a.Launch()
	return a
}

// containerJob runs the program of the engine's image as a service.
func containerJob(id string, args ...string) *api.Job {
	j := kit.ShellJob(id, "")
	task := j.TaskGroups[0].Tasks[0]
	task.Driver, task.Resources.MemoryMB = "docker", ptr(64)
	task.Config = map[string]any{"image": enginetest.Image, "network_mode": "none", "args": args}
	return j
}

func readBack(t *testing.T, a *kit.Agent, volume, want string) {
	t.Helper()
	a.Register(kit.WithVolume(kit.ShellJob("reader", "cat data/file; exec sleep 1000"), volume))
	alloc := a.Running("reader", 1)
	a.Until(10*time.Second, "the reader's log", func() error {
		out, _ := a.Run("alloc", "logs", alloc.ID)
		if !strings.Contains(out, want) {
			return fmt.Errorf("log is %q", out)
		}
		return nil
	})
}

func TestContainerWritesAVolumeAndAnotherDriverReadsIt(t *testing.T) {
	a := withEngine(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(containerJob("writer", "write", "/data/file", "from a container\n", "stay"), "v1"))
	a.Running("writer", 1)
	a.Until(10*time.Second, "the file on the volume", func() error {
		found, _ := filepath.Glob(a.Dir + "/hp/data/*/file")
		if len(found) != 1 {
			return fmt.Errorf("files are %q", found)
		}
		return nil
	})
	a.Kill() // the container runs on, and is taken up
	a.Launch()
	a.Running("writer", 1)
	a.Stop("writer", false)
	t.Logf("claim free after %v", a.Free("v1"))
	readBack(t, a, "v1", "from a container")
}

func TestPluginInAContainerServesVolumes(t *testing.T) {
	a := withEngine(t)
	job := a.PluginJob("hp")
	task := job.TaskGroups[0].Tasks[0]
	state := a.Dir + "/hp"
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	task.Driver, task.Resources.MemoryMB = "docker", ptr(128)
	task.Config = map[string]any{
		"image": enginetest.Image, "network_mode": "none", "cap_add": []string{"sys_admin"}, "security_opt": []string{"apparmor=unconfined", "seccomp=unconfined"},
		"entrypoint": []string{"/nomad"}, "args": []string{"csi-hostpath", "-state-dir", "/state", "-node-id", "node-1"},
		"mount": []map[string]any{
			{"type": "bind", "source": a.Binary, "target": "/nomad", "readonly": true}, {"type": "bind", "source": state, "target": "/state"},
		},
	}
	task.CSIPluginConfig.MountDir = "/csi"
	a.Register(job)
	a.PluginHealthy("hp")
	a.CreateVolume("hp", "v1")
	a.Register(kit.WithVolume(containerJob("writer", "write", "/data/file", "through a container\n", "stay"), "v1"))
	a.Running("writer", 1)
	a.Until(10*time.Second, "the file on the volume", func() error {
		if found, _ := filepath.Glob(state + "/data/*/file"); len(found) != 1 {
			return fmt.Errorf("files are %q", found)
		}
		return nil
	})
	a.Stop("writer", false)
	t.Logf("claim free after %v", a.Free("v1"))
	readBack(t, a, "v1", "through a container")
}
