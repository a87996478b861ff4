package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// withDevices gives an agent the example device plugin, whose devices are the files of the directory that it returns.
func withDevices(t *testing.T, a *kit.Agent, names ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(a.Dir, "devices")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		addDevice(t, dir, name)
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(a.Dir, "data/plugins/nomad-device-file"), "./plugins/device/example")
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	config, err := os.OpenFile(a.Dir+"/agent.hcl", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	if _, err := fmt.Fprintf(config, "\nplugin \"nomad-device-file\" {\n  config {\n    dir = %q\n    every = \"100ms\"\n  }\n}\n", dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func addDevice(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// needing lets the job's task use one device, and starts it again elsewhere after a failure.
func needing(j *api.Job, device string) *api.Job {
	g := j.TaskGroups[0]
	g.Tasks[0].Resources.Devices = []*api.RequestedDevice{{Name: device, Count: ptr(uint64(1))}}
	g.ReschedulePolicy = &api.ReschedulePolicy{Delay: ptr(5 * time.Second), DelayFunction: ptr("constant"), Unlimited: ptr(true)}
	return j
}

const usesDevice = `echo "has $DEMO_DEVICES"; head -c 4 /dev/demo | wc -c; ls /demo-devices; exec sleep 1000`

// devicePlugin waits for the process of the plugin, another one than before.
func devicePlugin(a *kit.Agent, before int) (pid int) {
	a.Until(30*time.Second, "the plugin runs", func() error {
		found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range found {
			cmdline, err := os.ReadFile(path)
			if pid, _ = strconv.Atoi(strings.Split(path, "/")[2]); err == nil && pid != before &&
				strings.HasPrefix(string(cmdline), filepath.Join(a.Dir, "data/plugins/nomad-device-file")) {
				return nil
			}
		}
		return errors.New("there is no process")
	})
	return pid
}

// losesDevice checks that an allocation with the device continues after the agent and the plugin were killed, and fails with the
// reason when the device is lost.
func losesDevice(t *testing.T, a *kit.Agent, dir, job string) {
	t.Helper()
	id := a.Running(job, 1).ID
	a.Kill()
	a.Launch()
	a.Ready(1)
	if now := a.Running(job, 1); now.ID != id {
		t.Fatalf("allocation %s was replaced by %s", id, now.ID)
	}
	old := devicePlugin(a, 0)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	devicePlugin(a, old)
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	took := a.Until(60*time.Second, "the allocation fails", func() error {
		if failed := a.Allocs(job, "failed"); len(failed) != 1 || failed[0].ID != id {
			return fmt.Errorf("%d failed", len(failed))
		}
		return nil
	})
	t.Logf("failed %v after the loss", took)
	alloc, _, err := a.API.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "device example/demo/demo[a] is lost: " // by a plugin that has seen it, or has started again since
	found := false
	for _, e := range alloc.TaskStates["main"].Events {
		found = found || e.Type == "Device Lost" && strings.HasPrefix(e.DisplayMessage, want)
	}
	if restarts := alloc.TaskStates["main"].Restarts; !found || restarts != 0 {
		t.Errorf("%d restarts, no event %q", restarts, want)
	}
	// The job waits for a device, and runs when the node has one.
	time.Sleep(time.Second)
	if len(a.Allocs(job, "running")) != 0 {
		t.Errorf("%s runs without a device", job)
	}
	addDevice(t, dir, "b")
	a.Until(60*time.Second, "the job runs with another device", func() error {
		running := a.Allocs(job, "running")
		if len(running) != 1 {
			return fmt.Errorf("%d run", len(running))
		}
		out, _ := a.Run("alloc", "status", running[0].ID)
		if !strings.Contains(out, "example/demo/demo") {
			return errors.New(out)
		}
		return nil
	})
}

// TestDevicesOfTasks: a task gets its device, keeps it while agent and plugin are away, and fails when it is lost; the next
// allocation waits for another one.
func TestDevicesOfTasks(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"exec", "raw_exec"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			a := kit.Prepare(t)
			dir := withDevices(t, a, "a")
			a.Launch()
			j := needing(kit.ShellJob("uses", usesDevice), "example/demo")
			j.TaskGroups[0].Tasks[0].Driver = driver
			a.Register(j)
			alloc := a.Running("uses", 1)
			a.Until(10*time.Second, "the task's output", func() error {
				if out, _ := a.Run("alloc", "logs", alloc.ID); out != "has a\n4\na\n" {
					return fmt.Errorf("output is %q", out)
				}
				return nil
			})
			a.Register(needing(kit.ShellJob("second", usesDevice), "example/demo"))
			time.Sleep(2 * time.Second)
			if got := a.Allocs("second", "running"); len(got) != 0 {
				t.Error("one device is given to two tasks")
			}
			a.Stop("second", true)
			losesDevice(t, a, dir, "uses")
		})
	}
}

func TestContainerGetsItsDevice(t *testing.T) {
	a := kit.Prepare(t)
	dir := withDevices(t, a, "a")
	e := engineOf(t, a)
	a.Register(needing(containerJob("uses", "write", "/dev/demo", "text", "stay"), "example/demo"))
	alloc := a.Running("uses", 1)
	c, err := client.New(client.WithHost(e.Host))
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.ContainerList(context.Background(), client.ContainerListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	got, err := c.ContainerInspect(context.Background(), list.Items[0].ID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Container.HostConfig.Devices; len(d) != 1 || d[0].PathOnHost != "/dev/zero" || d[0].PathInContainer != "/dev/demo" || d[0].CgroupPermissions != "rw" {
		t.Errorf("devices of allocation %s: %+v", alloc.ID, d)
	}
	env := strings.Join(got.Container.Config.Env, "\n")
	if !strings.Contains(env, "DEMO_DEVICES=a") || !strings.Contains(fmt.Sprintf("%+v", got.Container.Mounts), "/demo-devices") {
		t.Errorf("environment %s, mounts %+v", env, got.Container.Mounts)
	}
	losesDevice(t, a, dir, "uses")
}
