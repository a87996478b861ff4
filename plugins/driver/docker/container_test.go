package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

const limitOfRequest = 2 * time.Second

// newTask is a task in an allocation of its own.
func newTask(t *testing.T, config map[string]any) *driver.Task {
	t.Helper()
	task := suite.NewTask(t, config)
	task.AllocID = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	task.ID = task.AllocID + "/web/1"
	task.SecretsDir = filepath.Join(task.Dir, "secrets")
	if err := os.MkdirAll(task.SecretsDir, 0o777); err != nil {
		t.Fatal(err)
	}
	return task
}

func start(t *testing.T, d *docker.Driver, task *driver.Task) *driver.Handle {
	t.Helper()
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	return h
}

// run runs a task to its end.
func run(t *testing.T, d *docker.Driver, task *driver.Task) (*driver.Exit, string) {
	t.Helper()
	start(t, d, task)
	x, err := d.Wait(suite.Context(t), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	return x, suite.LogText(task, "stdout") + suite.LogText(task, "stderr")
}

// containers lists the containers of a task.
func containers(t *testing.T, task *driver.Task) (ids []string) {
	t.Helper()
	filter := client.Filters{}.Add("label", "open-nomad.task="+task.ID)
	list, err := shared.Client.ContainerList(bounded(t), client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestTaskSeesWhatItsConfigSays(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", map[string]any{"extra_labels": []any{"job_*", "node_name"}})
	task := newTask(t, taskConfig(map[string]any{
		"work_dir": "/tmp", "hostname": "box", "group_add": []any{"1000"}, "labels": []any{map[string]any{"tier": "one"}}, "init": false,
		"mount": []any{map[string]any{"type": "tmpfs", "target": "/scratch", "tmpfs_options": []any{map[string]any{"size": 65536}}}}, "readonly_rootfs": true,
		"ulimit": []any{map[string]any{"nofile": "500:600"}}, "pids_limit": 50, "sysctl": []any{map[string]any{"net.core.somaxconn": "300"}}, "shm_size": 1 << 20,
		"cap_drop": []any{"all"}, "cap_add": []any{"chown"}, "security_opt": []any{"no-new-privileges"}, "cpu_hard_limit": true,
	}, "ids"))
	task.JobName, task.NodeName, task.User = "shop", "n1", "web"
	task.Resources = driver.Resources{CPUShares: 500, NodeCPUShares: 4000, MemoryMB: 64, MemoryMaxMB: 128}
	x, out := run(t, d, task)
	if !x.Successful() || out != "1000 1000 [1000] /tmp box\n" {
		t.Errorf("exit %+v, output %q", x, out)
	}
	got, err := shared.Client.ContainerInspect(bounded(t), "web-"+task.AllocID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labels, h := got.Container.Config.Labels, got.Container.HostConfig
	if labels["com.hashicorp.nomad.alloc_id"] != task.AllocID || labels["com.hashicorp.nomad.job_name"] != "shop" ||
		labels["com.hashicorp.nomad.node_name"] != "n1" || labels["com.hashicorp.nomad.namespace"] != "" || labels["tier"] != "one" {
		t.Errorf("labels are %v", labels)
	}
	if h.Memory != 128<<20 || h.MemoryReservation != 64<<20 || h.MemorySwap != h.Memory || h.CPUShares != 500 || h.CPUQuota == 0 || *h.PidsLimit != 50 {
		t.Errorf("resources are %+v", h.Resources)
	}
	if h.LogConfig.Type != "json-file" || h.LogConfig.Config["max-size"] != "2m" {
		t.Errorf("logging is %+v", h.LogConfig)
	}
}

func TestCapabilitiesAndEnvironment(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(map[string]any{"cap_drop": []any{"all"}, "cap_add": []any{"chown"}}, "status"))
	if _, out := run(t, d, task); !strings.Contains(out, "CapEff:\t0000000000000001\n") {
		t.Errorf("status is %s", out)
	}
	task = newTask(t, taskConfig(nil, "env"))
	task.ID, task.AllocID, task.Env = "env/web/1", "env", map[string]string{"NOMAD_TASK_DIR": "/local"}
	if _, out := run(t, d, task); !strings.Contains(out, "FROM_IMAGE=yes\n") || !strings.Contains(out, "NOMAD_TASK_DIR=/local\n") || strings.Contains(out, "HOME=/root") {
		t.Errorf("environment is %q", out)
	}
}

func TestDirectoriesAndVolumesAreBound(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(map[string]any{
		"volumes": []any{"local/made:/made", "../alloc/data:/shared:ro"},
		"mount":   []any{map[string]any{"type": "bind", "source": "local", "target": "/bound", "bind_options": []any{map[string]any{"propagation": "private"}}}},
	}, "mounts"))
	if err := os.MkdirAll(filepath.Join(task.AllocDir, "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	volume := t.TempDir()
	if err := os.MkdirAll(volume+"/sub/dir", 0o777); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{Source: volume, Destination: "/vol", ReadOnly: true}, {Source: volume, Destination: "deep", SubPath: "sub/dir", Propagation: "private"}}
	x, out := run(t, d, task)
	if !x.Successful() {
		t.Fatalf("exit %+v: %s", x, out)
	}
	points := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		points[f[4]] = f[3] + " " + f[5] + " " + strings.Join(f[6:8], " ")
	}
	for point, want := range map[string][]string{
		"/alloc": {"/alloc "}, "/local": {"/web/local "}, "/secrets": {"/web/secrets "}, "/made": {"/web/local/made ", "rw"}, "/shared": {"/alloc/data ", "ro"},
		"/bound": {"/web/local "}, "/vol": {"ro"}, "/deep": {"/sub/dir "},
	} {
		for _, part := range want {
			if !strings.Contains(points[point], part) {
				t.Errorf("%s is %q, want %q in it", point, points[point], part)
			}
		}
	}
	if info, err := os.Stat(filepath.Join(task.Dir, "local", "made")); err != nil || !info.IsDir() {
		t.Errorf("the source of a volume was not made: %v", err)
	}
}

func TestMountsDoNotLeaveTheAllocation(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	outside := t.TempDir()
	for name, c := range map[string]struct {
		volume string
		text   string
	}{
		"dots": {"../../x:/x", "leaves"}, "absolute": {outside + ":/x", "volumes { enabled = true }"}, "link": {"local/link:/x", "by a link"},
		"link-in-path": {"local/link/sub:/x", "by a link"}, "proc": {"local/magic:/x", "volumes"},
	} {
		task := newTask(t, taskConfig(map[string]any{"volumes": []any{c.volume}}, "sleep"))
		task.AllocID, task.ID = "leave-"+name, "leave-"+name+"/web/1"
		local := filepath.Join(task.Dir, "local")
		if err := errors.Join(os.MkdirAll(local, 0o777), os.Symlink(outside, local+"/link"), os.Symlink("/proc/self/root", local+"/magic")); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
		if left := containers(t, task); len(left) > 0 {
			t.Errorf("%s: containers %v are left", name, left)
		}
	}
	task := newTask(t, taskConfig(nil, "sleep"))
	volume := t.TempDir()
	if err := os.Symlink(outside, volume+"/sub"); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{Source: volume, Destination: "/v", SubPath: "sub"}}
	if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "sub path") {
		t.Errorf("sub path that is a link: %v", err)
	}
	open := newDriver(t, t.TempDir()+"/s", map[string]any{"volumes": map[string]any{"enabled": true}})
	task = newTask(t, taskConfig(map[string]any{"volumes": []any{outside + ":/x"}}, "write", "/x/file", "text"))
	if x, out := run(t, open, task); !x.Successful() {
		t.Errorf("absolute volume: exit %+v: %s", x, out)
	}
	if text, _ := os.ReadFile(outside + "/file"); string(text) != "text" {
		t.Errorf("on the host there is %q", text)
	}
}

func TestOutOfMemoryIsReported(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(nil, "eat"))
	task.Resources.MemoryMB = 24
	x, _ := run(t, d, task)
	if !x.OOMKilled || x.Code != 137 || x.Err != "OOM Killed" {
		t.Errorf("exit %+v", x)
	}
}

func TestStartsThatFailSayWhyAndLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	network := newNetwork(t)
	for name, c := range map[string]struct {
		keys  map[string]any
		user  string
		text  string
		again bool
	}{
		"user":    {keys: map[string]any{}, user: "nobodyknows", text: "unable to find user nobodyknows"},
		"program": {keys: map[string]any{"entrypoint": []any{"/none"}}, text: "/none"},
		"port":    {keys: map[string]any{"network_mode": network, "ports": []any{"http"}}, text: "address already in use", again: true},
		"label":   {keys: map[string]any{"ports": []any{"https"}}, text: `"https"`},
		"network": {keys: map[string]any{"network_mode": "no-such-network"}, text: "no-such-network"},
		"cap":     {keys: map[string]any{"cap_add": []any{"sys_admin"}}, text: "sys_admin"},
		"runtime": {keys: map[string]any{"runtime": "nvidia"}, text: "nvidia"},
		"bind":    {keys: map[string]any{"mount": []any{map[string]any{"type": "bind", "source": "local/none", "target": "/x"}}}, text: "local/none"},
		"sysctl":  {keys: map[string]any{"sysctl": map[string]any{"kernel.nothing": "1"}}, text: "kernel.nothing"},
		"image":   {keys: map[string]any{"image": "localhost:1/none:v1"}, text: "localhost:1/none:v1", again: true},
	} {
		task := newTask(t, taskConfig(c.keys, "sleep"))
		task.AllocID, task.ID, task.User = "fail-"+name, "fail-"+name+"/web/1", c.user
		task.Ports = []driver.Port{{Label: "http", HostIP: "127.0.0.1", Value: port, To: 80}}
		_, err := d.Start(suite.Context(t), task)
		if err == nil || !strings.Contains(err.Error(), c.text) || driver.Recoverable(err) != c.again {
			t.Errorf("%s: %v (recoverable %v), want %q, recoverable %v", name, err, driver.Recoverable(err), c.text, c.again)
		}
		nothingLeft(t, dir, nil, task)
	}
}

// newNetwork makes a network of the engine.
func newNetwork(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("n%d", len(t.Name()))
	made, err := engine(t).Client.NetworkCreate(bounded(t), name, client.NetworkCreateOptions{Driver: "bridge"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = shared.Client.NetworkRemove(bounded(t), made.ID, client.NetworkRemoveOptions{})
	})
	return name
}

func TestPortsArePublishedOnTheAddressOfTheNetwork(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir()+"/s", nil)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	keys := map[string]any{"network_mode": newNetwork(t), "ports": []any{"http"}, "network_aliases": []any{"shop"}, "extra_hosts": []any{"db:10.1.2.3"}, "dns_servers": []any{"10.9.9.9"}}
	task := newTask(t, taskConfig(keys, "serve", "80"))
	task.Ports = []driver.Port{{Label: "http", HostIP: "127.0.0.1", Value: port, To: 80}}
	start(t, d, task)
	suite.Eventually(t, "the server answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), limitOfRequest)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			return false
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		return string(text) == "hello"
	})
}

func TestPrivilegedAndHostModesNeedPermission(t *testing.T) {
	t.Parallel()
	strict := newDriver(t, t.TempDir()+"/s", nil)
	open := newDriver(t, t.TempDir()+"/s", map[string]any{"allowed_modes": map[string]any{"uts": []any{"host"}, "ipc": []any{"host"}}})
	for key, value := range map[string]any{"privileged": true, "uts_mode": "host", "ipc_mode": "host"} {
		task := newTask(t, taskConfig(map[string]any{key: value}, "exit", "0"))
		task.AllocID, task.ID = "mode-"+strings.ReplaceAll(key, "_", "-"), "mode-"+key+"/web/1"
		if _, err := strict.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
		if key == "privileged" { // the tests may have too few capabilities themselves
			continue
		}
		if x, out := run(t, open, task); !x.Successful() {
			t.Errorf("%s: exit %+v: %s", key, x, out)
		}
	}
}
