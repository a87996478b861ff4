package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
)

// taskDriver runs the tasks that use volumes: "raw_exec" (default), "exec" or "docker".
var taskDriver = os.Getenv("E2E_DRIVER")

// engine is the engine of all tests of this process.
var engine = sync.OnceValues(func() (*enginetest.Engine, error) {
	return enginetest.Start(filepath.Join(filepath.Dir(driverBinary), "e"))
})

func stopEngine() {
	if taskDriver != "docker" {
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
	if taskDriver != "docker" {
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

// clientLines lets the shells of an isolating driver write as root, as they do without one.
func clientLines() string {
	if taskDriver != "exec" {
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
			if taskDriver == "" || taskDriver == "raw_exec" || task.Config["command"] != "/bin/sh" {
				continue
			}
			if task.Env == nil {
				task.Env = map[string]string{}
			}
			task.Driver, task.User = taskDriver, "root"
			task.Env["E2E_HOST"] = b.lab.Dir + "/${node.unique.name}/"
			for _, m := range task.VolumeMounts {
				if !filepath.IsAbs(*m.Destination) {
					m.Destination = ptr("/" + *m.Destination)
				}
			}
			if taskDriver == "docker" {
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
