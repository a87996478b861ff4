package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
)

// taskDriver runs the tasks that use volumes: "raw_exec" (default), "exec" or "docker".
var taskDriver = os.Getenv("E2E_DRIVER")

var (
	// engine is the engine of all tests of this process.
	engine = sync.OnceValues(func() (*enginetest.Engine, error) {
		engineWanted.Store(true)
		return enginetest.Start(filepath.Join(filepath.Dir(driverBinary), "e"))
	})
	engineWanted atomic.Bool
)

func stopEngine() {
	if !engineWanted.Load() {
		return
	}
	if e, err := engine(); err == nil {
		if err := e.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the engine:", err)
		}
	}
}

// withDriver is what a node needs in its configuration for the driver of the tests.
func (b *bed) withDriver() string {
	b.t.Helper()
	if b.driver != "docker" {
		return ""
	}
	e, err := engine()
	if errors.Is(err, enginetest.ErrMissing) {
		b.t.Skip(err)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n volumes {\n enabled = true\n }\n }\n }", e.Host)
}

// containers are the names of the containers of all nodes.
func (b *bed) containers() (names []string) {
	b.t.Helper()
	if b.driver != "docker" {
		return nil
	}
	e, err := engine()
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := e.Client.ContainerList(b.t.Context(), client.ContainerListOptions{All: true})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range list.Items {
		if strings.HasPrefix(c.Labels["open-nomad.agent"], b.lab.Dir+"/") {
			names = append(names, strings.Join(c.Names, " ")+" "+string(c.State))
		}
	}
	return names
}

// clientLines lets the shells of an isolating driver write as root, as they do without one.
func (b *bed) clientLines() string {
	if b.driver != "exec" {
		return ""
	}
	return "options = {\n \"user.denylist\" = \"\"\n }"
}

// Register submits a job whose shells run in the driver of the tests.
func (b *bed) Register(j *api.Job) {
	b.t.Helper()
	b.Host.Register(b.driven(j))
}

// driven gives the shells of a job to the driver of the tests. Their environment names the host, since their files do not.
func (b *bed) driven(j *api.Job) *api.Job {
	for _, g := range j.TaskGroups {
		for _, task := range g.Tasks {
			if b.driver == "" || b.driver == "raw_exec" || task.Config["command"] != "/bin/sh" {
				continue
			}
			if task.Env == nil {
				task.Env = map[string]string{}
			}
			task.Driver, task.User = b.driver, "root"
			task.Env["E2E_HOST"] = b.lab.Dir + "/${node.unique.name}/"
			for _, m := range task.VolumeMounts {
				if !filepath.IsAbs(*m.Destination) {
					m.Destination = ptr("/" + *m.Destination)
				}
			}
			if b.driver == "docker" {
				task.Config = inImage(task.Config["args"])
				task.Resources.MemoryMB = ptr(max(*task.Resources.MemoryMB, 64))
			}
		}
	}
	return j
}

// inImage runs a shell with the programs of the host.
func inImage(args any) map[string]any {
	var binds []map[string]any
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		if _, err := os.Stat(dir); err == nil {
			binds = append(binds, map[string]any{"type": "bind", "source": dir, "target": dir, "readonly": true})
		}
	}
	return map[string]any{
		"image": enginetest.Image, "network_mode": "none", "entrypoint": []string{"/bin/sh"}, "args": args, "work_dir": "/", "mount": binds,
	}
}

// One scenario with tasks of each isolating driver belongs to every run; make driven runs more of them.
func TestFault01IsolatedTasksGiveTheirVolumeToTheWaiting(t *testing.T) {
	for _, driver := range []string{"exec", "docker"} {
		t.Run(driver, func(t *testing.T) {
			b := layout{nodes: 2, attach: true, driver: driver}.bed(t)
			b.volume("v1", nil)
			b.Register(on(writer("first", "v1"), b.nodes[0]))
			holder := b.Running("first", 1)
			b.beats("v1", holder.ID)
			b.Register(on(writer("next", "v1"), b.nodes[1]))
			b.blocked("next")
			b.Stop("first", false)
			b.beats("v1", b.Running("next", 1).ID)
			if at := strings.Index(b.journal("v1"), "stop "+holder.ID); at < 0 || strings.Contains(b.journal("v1")[at:], "beat "+holder.ID) {
				t.Errorf("the first task has not stopped, or wrote after its stop:\n%s", b.journal("v1"))
			}
			b.Stop("next", false)
			b.clean()
		})
	}
}
