package exec_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	execdriver "github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func TestRootDirectoryOfTask(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	task := suite.NewTask(t, sh(`pwd; ls /local; cat /alloc/shared; id -un; touch /tmp/x /alloc/of-task && rm /tmp/x; ls -d /root /home /var 2>/dev/null; ls /sys/kernel >/dev/null && ls /sys/fs/cgroup && touch /sys/kernel/x 2>/dev/null; set -- /proc/[0-9]*; echo $#`))
	if err := errors.Join(os.Mkdir(filepath.Join(task.Dir, "local"), 0o777), os.WriteFile(filepath.Join(task.Dir, "local", "f"), nil, 0o644),
		os.WriteFile(filepath.Join(task.AllocDir, "shared"), []byte("of all\n"), 0o644), os.Chmod(task.AllocDir, 0o777)); err != nil {
		t.Fatal(err)
	}
	// The processes are the first one and the shell.
	if got, want := run(t, d, task), "/\nf\nof all\nnobody\n2\n"; got != want {
		t.Errorf("the task printed %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(task.AllocDir, "of-task")); err != nil {
		t.Error(err)
	}
}

func TestChrootEnvReplacesTheParts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("by chroot_env\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir(), nil, func(c *execdriver.Config) {
		c.ChrootEnv = map[string]string{"/usr": "/usr", "/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", file: "/opt/demo/file", "/no/such": "/no/such", file + "/below": "/below", "/lib32": "/lib32"}
	})
	task := suite.NewTask(t, sh(`cat /opt/demo/file; ls /etc 2>/dev/null; ls -d /no /below 2>/dev/null; exit 0`))
	var events []string
	task.Event = func(text string) { events = append(events, text) }
	if got := run(t, d, task); got != "by chroot_env\n" {
		t.Errorf("the task printed %q", got)
	}
	want := []string{"chroot_env: the node does not have, and the task does not see: /no/such, " + file + "/below"}
	if !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, user string
		config     map[string]any
		want       string // effective and bounding set
	}{
		{"of nobody", "", nil, "0000000000000000 00000000a80405fb"},
		{"of root", "root", nil, "00000000a80405fb 00000000a80405fb"},
		{"added to nobody", "", map[string]any{"cap_add": []any{"CAP_NET_BIND_SERVICE"}}, "0000000000000400 00000000a80405fb"},
		{"added to root", "root", map[string]any{"cap_add": []any{"net_raw"}}, "00000000a80425fb 00000000a80425fb"},
		{"dropped", "root", map[string]any{"cap_drop": []any{"mknod", "Cap_Chown"}}, "00000000a00405fa 00000000a00405fa"},
		{"all dropped", "root", map[string]any{"cap_drop": []any{"all"}, "cap_add": []any{"kill"}}, "0000000000000020 0000000000000020"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir(), map[string]any{"allow_caps": []any{"all"}})
			config := sh(`grep -e CapEff -e CapBnd /proc/self/status | cut -f 2`)
			for k, v := range c.config {
				config[k] = v
			}
			task := suite.NewTask(t, config)
			task.User = c.user
			if got := strings.Join(strings.Fields(run(t, d, task)), " "); got != c.want {
				t.Errorf("capabilities %q, want %q", got, c.want)
			}
		})
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	own := map[string]string{}
	for _, ns := range []string{"pid", "ipc"} {
		own[ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	for _, mode := range []string{"private", "host"} {
		d := newDriver(t, t.TempDir(), map[string]any{"default_pid_mode": mode})
		config := sh(`readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc`)
		config["ipc_mode"] = mode
		got := strings.Fields(run(t, d, suite.NewTask(t, config)))
		if len(got) != 2 || (got[0] == own["pid"]) != (mode == "host") || (got[1] == own["ipc"]) != (mode == "host") {
			t.Errorf("mode %s: namespaces %q, those of the host are %q", mode, got, own)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		plugin map[string]any
		config map[string]any
		change func(*driver.Task)
		want   string
	}{
		{"capability that is not allowed", nil, map[string]any{"cap_add": []any{"sys_admin", "net_raw"}}, nil, `"cap_add" asks for net_raw, sys_admin`},
		{"denied user", map[string]any{"denied_host_uids": "65000-65534"}, nil, nil, `user 65534 is in "denied_host_uids" of driver exec`},
		{"denied group", map[string]any{"denied_host_gids": "65534"}, nil, nil, `group 65534 is in "denied_host_gids" of driver exec`},
		{"unknown user", nil, nil, func(t *driver.Task) { t.User = "no-such-user" }, `unknown user "no-such-user"`},
		{"work_dir", nil, map[string]any{"work_dir": "/no/such"}, nil, `"work_dir"`},
		{"mount over /proc", nil, nil, func(t *driver.Task) { t.Mounts = []driver.Mount{{Source: "/etc", Destination: "/proc/x"}} }, "/proc"},
		{"mount in a read-only part", nil, nil, func(t *driver.Task) { t.Mounts = []driver.Mount{{Source: "/etc", Destination: "/usr/no-such"}} }, "/usr/no-such"},
		{"bidirectional mount", nil, nil, func(t *driver.Task) {
			t.Mounts = []driver.Mount{{Source: "/etc", Destination: "/x", Propagation: "bidirectional"}}
		}, "driver exec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := sh("exit 0")
			for k, v := range c.config {
				config[k] = v
			}
			task := suite.NewTask(t, config)
			if c.change != nil {
				c.change(task)
			}
			d := newDriver(t, t.TempDir(), c.plugin)
			_, err := d.Start(suite.Context(t), task)
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, fault.Invalid) {
				t.Errorf("start: %v, want invalid naming %s", err, c.want)
			}
		})
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	device := filepath.Join(t.TempDir(), "device")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Fatal(err)
	}
	task := suite.NewTask(t, sh(`for d in /dev/other "$DEVICE"; do head -c 1 "$d" | wc -c; done`))
	task.Env["DEVICE"] = device
	task.Devices = []driver.Device{{HostPath: device}, {HostPath: device, TaskPath: "/dev/other"}}
	if got := run(t, d, task); got != "1\n1\n" {
		t.Errorf("the task printed %q", got)
	}
	readOnly := suite.NewTask(t, sh("true"))
	readOnly.Devices = []driver.Device{{HostPath: device, Permissions: "r"}}
	if _, err := d.Start(suite.Context(t), readOnly); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `permissions "r"`) {
		t.Errorf("a device for reading only: %v", err)
	}
}

func TestConfigOfTasks(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]any{
		"pid_mode": "shared", "ipc_mode": "", "cap_add": []any{"fly"}, "cap_drop": []any{""}, "work_dir": "relative", "no_such_key": "x", "command": "",
	} {
		if err := execdriver.ValidateConfig(map[string]any{"command": "x", key: value}); (err == nil) != (key == "ipc_mode") || err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
}

func TestConfigOfAgents(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]any{
		"no_pivot_root": true, "default_pid_mode": "x", "default_ipc_mode": "", "allow_caps": []any{"fly"}, "denied_host_uids": "x", "denied_host_gids": "5-1", "enabled": true,
	} {
		if _, err := execdriver.ParseConfig(map[string]any{key: value}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
	for from, to := range map[string]string{"relative": "/x", "/x": "relative", "/y": "/", "/z": "/proc/x", "/a": "/x/../dev"} {
		if err := execdriver.CheckChrootEnv(map[string]string{from: to}); err == nil {
			t.Errorf("chroot_env %s = %s is accepted", from, to)
		}
	}
}

// marked reports whether a process of the host has a variable in its environment.
func marked(value string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(value)) {
			return true
		}
	}
	return false
}

func TestAllThatATaskHasStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	for _, noCgroups := range []bool{false, true} {
		d := newDriver(t, t.TempDir(), nil, func(c *execdriver.Config) { c.NoCgroups = noCgroups })
		task := suite.NewTask(t, sh(`(setsid setsid sleep 1000 &) ; echo ready; exec sleep 1000`))
		mark := fmt.Sprintf("OF_TREE=%s-%d", t.Name(), time.Now().UnixNano())
		task.Env["OF_TREE"] = strings.TrimPrefix(mark, "OF_TREE=")
		ctx := suite.Context(t)
		if _, err := d.Start(ctx, task); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, "the task runs", func() bool { return suite.LogText(task, "stdout") == "ready\n" })
		if !marked(mark) {
			t.Fatal("no process of the task is found")
		}
		if err := d.Stop(ctx, task.ID, "SIGTERM", time.Minute); err != nil {
			t.Fatal(err)
		}
		if marked(mark) {
			t.Error("a process of the task has outlived it")
		}
		if err := d.Destroy(ctx, task.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestVolumesComeAndGoInARunningTask(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil)
	source := t.TempDir()
	if err := errors.Join(unix.Mount("tmpfs", source, "tmpfs", 0, ""), unix.Mount("", source, "", unix.MS_SHARED, ""), os.Mkdir(source+"/sub", 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(source, unix.MNT_DETACH) })
	task := suite.NewTask(t, sh(`echo ready; until [ -e /volume/sub/file ]; do sleep 0.01; done; echo seen; while [ -e /volume/sub/file ]; do sleep 0.01; done; echo gone`))
	task.Mounts = []driver.Mount{{Source: source, Destination: "/volume", Propagation: "host-to-task"}}
	ctx := suite.Context(t)
	if _, err := d.Start(ctx, task); err != nil {
		t.Fatal(err)
	}
	printed := func(line string) func() bool {
		return func() bool { return strings.HasSuffix(suite.LogText(task, "stdout"), line+"\n") }
	}
	suite.Eventually(t, "the task runs", printed("ready"))
	if err := errors.Join(unix.Mount("tmpfs", source+"/sub", "tmpfs", 0, ""), os.WriteFile(source+"/sub/file", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the later mount is seen", printed("seen"))
	if err := unix.Unmount(source+"/sub", 0); err != nil {
		t.Errorf("the task keeps the mount busy: %v", err)
	}
	suite.Eventually(t, "the mount is gone", printed("gone"))
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(table, []byte(task.Dir)) {
		t.Errorf("the host has mounts of the task: %v", err)
	}
	if err := d.Destroy(ctx, task.ID); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(source, 0); err != nil {
		t.Errorf("the volume is busy after the task: %v", err)
	}
	if err := os.RemoveAll(task.Dir); err != nil {
		t.Error(err)
	}
}
