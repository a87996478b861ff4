package docker_test

import (
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/enginetest"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// within runs do in a new goroutine whose thread is in a network namespace; at "" in a new one.
func within(t *testing.T, path string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- func() error {
			if path == "" {
				if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
					return err
				}
				return do()
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			return do()
		}()
	}()
	return <-done
}

// namespace makes a network namespace whose loopback interface is up.
func namespace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	err := within(t, "", func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		lo.SetUint16(unix.IFF_UP)
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	return path
}

func TestContainersShareTheNetworkOfTheirAllocation(t *testing.T) {
	t.Parallel()
	engine(t)
	path := namespace(t)
	state := t.TempDir() + "/s"
	d := newDriver(t, state, nil)
	joined := func(name string, keys map[string]any, args ...any) *driver.Task {
		c := map[string]any{"image": enginetest.Image, "args": args}
		maps.Copy(c, keys)
		task := newTask(t, c)
		task.ID, task.Name = task.AllocID+"/"+name+"/1", name
		task.NetworkMode, task.Network, task.Hostname = "bridge", path, "box"
		for file, text := range map[string]string{"hosts": "127.0.0.1 localhost\n192.0.2.5 box\n", "resolv.conf": "nameserver 192.0.2.7\n"} {
			source := filepath.Join(task.Dir, file)
			if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			task.Mounts = append(task.Mounts, driver.Mount{Source: source, Destination: "/etc/" + file, ReadOnly: true})
		}
		return task
	}
	server := joined("server", map[string]any{"ports": []any{"http"}}, "serve", "8080")
	server.Ports = []driver.Port{{Label: "http", HostIP: "127.0.0.1", Value: 1, To: 8080}}
	start(t, d, server)
	answers := func() bool {
		return within(t, path, func() error {
			c, err := net.DialTimeout("tcp", "127.0.0.1:8080", limitOfRequest)
			if err == nil {
				err = c.Close()
			}
			return err
		}) == nil
	}
	suite.Eventually(t, "the container listens in the namespace", answers)
	if u, err := d.Stats(suite.Context(t), server.ID); err != nil || u.ResourceUsage.MemoryStats.Usage == 0 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if _, text := run(t, d, joined("ids", nil, "ids")); !strings.Contains(text, " box\n") {
		t.Errorf("host name: %s", text)
	}
	if _, text := run(t, d, joined("hosts", map[string]any{"extra_hosts": []any{"db:10.1.2.3"}}, "cat", "/etc/hosts")); !strings.Contains(text, "192.0.2.5\tbox") || !strings.Contains(text, "10.1.2.3\tdb") {
		t.Errorf("hosts: %s", text)
	}
	if _, text := run(t, d, joined("resolvers", nil, "cat", "/etc/resolv.conf")); text != "nameserver 192.0.2.7\n" {
		t.Errorf("resolvers: %s", text)
	}
	if _, text := run(t, d, joined("own", map[string]any{"dns_servers": []any{"10.9.9.9"}}, "cat", "/etc/resolv.conf")); !strings.Contains(text, "nameserver 10.9.9.9\n") {
		t.Errorf("own resolvers: %s", text)
	}
	for key, value := range map[string]any{"network_mode": "host", "port_map": map[string]any{"http": 80}, "mac_address": "02:00:00:00:00:01"} {
		if _, err := d.Start(suite.Context(t), joined("refused", map[string]any{key: value}, "sleep")); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	gone := joined("gone", nil, "sleep")
	gone.Network = path + "-gone"
	if _, err := d.Start(suite.Context(t), gone); err == nil || len(containers(t, gone)) != 0 {
		t.Errorf("a namespace that does not exist: %v, containers %v", err, containers(t, gone))
	}
	gone.Network = ""
	if _, err := d.Start(suite.Context(t), gone); !errors.Is(err, fault.Invalid) {
		t.Errorf("a network that was not made: %v", err)
	}

	// The container that joins is killed: the task runs on, and is taken up by the next agent process.
	for _, id := range containers(t, server) {
		c, err := shared.Client.ContainerInspect(bounded(t), id, client.ContainerInspectOptions{})
		if err == nil && c.Container.Config.Labels["open-nomad.join"] != "" {
			_, err = shared.Client.ContainerKill(bounded(t), id, client.ContainerKillOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = d.Close()
	again := newDriver(t, state, nil)
	h, err := again.Find(suite.Context(t), server.ID)
	if err == nil {
		err = again.Recover(suite.Context(t), h)
	}
	if err != nil || !answers() {
		t.Errorf("take up: %v", err)
	}
	if err := again.Destroy(bounded(t), server.ID); err != nil || len(containers(t, server)) != 0 {
		t.Errorf("end: %v, containers %v", err, containers(t, server))
	}

	// An agent that was killed during a start has left a container.
	labels := map[string]string{"open-nomad.task": server.ID, "open-nomad.agent": state, "open-nomad.join": "true"}
	_, err = shared.Client.ContainerCreate(bounded(t), client.ContainerCreateOptions{Config: &container.Config{Image: enginetest.Image, Labels: labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Find(suite.Context(t), server.ID); !errors.Is(err, fault.NotFound) || len(containers(t, server)) != 0 {
		t.Errorf("leftover: %v, containers %v", err, containers(t, server))
	}
	if answers() {
		t.Error("the server has not ended")
	}
}
