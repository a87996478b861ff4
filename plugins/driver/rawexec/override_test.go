package rawexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

const overriding = "nomad-test-override"

// override makes the cgroup and returns the value of the key that names it.
func override(t *testing.T, key string) any {
	t.Helper()
	if key == "cgroup_v2_override" {
		makeCgroup(t, filepath.Join(unified(t), overriding))
		return overriding
	}
	makeCgroup(t, "/sys/fs/cgroup/pids/"+overriding)
	return []any{map[string]any{"pids": overriding}}
}

var overrides = []string{"cgroup_v1_override", "cgroup_v2_override"}

// A task in a cgroup that its job names has the limits of that one, and none of the client. Its supervising process stays
// outside: it could be frozen, or ended for want of memory, with the task that it must end.
func TestOverrideReplacesTheLimitsOfTheClient(t *testing.T) {
	for _, key := range overrides {
		t.Run(key, func(t *testing.T) {
			d := newDriver(t, t.TempDir())
			free := allowed(t, d, "free", "")
			if free == "0" {
				t.Skip("needs two cores")
			}
			task := suite.NewTask(t, sh("grep Cpus_allowed_list /proc/self/status; exec sleep 1000"))
			task.Resources.Cores = "0"
			task.Config[key] = override(t, key)
			_, supervisor := begin(t, d, task)
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			line := ":/" + overriding + "\n"
			if in := cgroupsOf(t, pidOf(t, d, task.ID, "pid")); !strings.Contains(in, line) {
				t.Errorf("the task is in\n%s", in)
			}
			if in := cgroupsOf(t, supervisor); strings.Contains(in, line) {
				t.Errorf("the supervising process is in\n%s", in)
			}
			suite.Eventually(t, "the task shows its cores", func() bool { return strings.HasSuffix(suite.LogText(task, "stdout"), "\n") })
			if _, got, _ := strings.Cut(suite.LogText(task, "stdout"), ":"); strings.TrimSpace(got) != free {
				t.Errorf("the task runs on %q, want %q", got, free)
			}
		})
	}
}

func cgroupsOf(t *testing.T, pid int) string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, thread := range threads {
		b, err := os.ReadFile(dir + thread.Name() + "/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// The leases of volumes rely on the cgroup that the node makes.
func TestOverrideWithVolumesIsRefused(t *testing.T) {
	d := newDriver(t, t.TempDir())
	for _, key := range overrides {
		value := override(t, key)
		for name, use := range map[string]func(*driver.Task){
			"a volume": func(task *driver.Task) { task.Mounts = []driver.Mount{{Source: t.TempDir(), Destination: "v"}} },
			"a lease":  func(task *driver.Task) { task.Lease = &driver.Lease{} },
		} {
			task := suite.NewTask(t, sh("exit 0"))
			task.Config[key] = value
			use(task)
			if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "volumes") {
				t.Errorf("%s with %s: %v", key, name, err)
				_ = d.Destroy(bounded(t), task.ID)
			}
		}
	}
}

// Where the host has version 2 as well, a task with cgroups of version 1 keeps the cgroup by which its processes are found.
func TestProcessesInNamedCgroupsEndAfterTheirSupervisor(t *testing.T) {
	unified(t)
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("setsid env -i sh -c 'echo $$ >other; exec sleep 1000' & exec sleep 1000"))
	task.Config["cgroup_v1_override"] = override(t, "cgroup_v1_override")
	_, supervisor := begin(t, d, task)
	scopeOf(t, pidOf(t, d, task.ID, "pid"))
	other := otherOf(t, task)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	if !hasEnded(other) {
		_ = syscall.Kill(other, syscall.SIGKILL)
		t.Error("a process outlives its task")
	}
}

func TestUnusableCgroupsAreNamed(t *testing.T) {
	unified(t)
	frozen := "/sys/fs/cgroup/freezer/" + overriding
	makeCgroup(t, frozen)
	if err := os.WriteFile(frozen+"/freezer.state", []byte("FROZEN"), 0); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir())
	for _, c := range []struct {
		key   string
		value any
	}{
		{"cgroup_v2_override", "no/such"},
		{"cgroup_v1_override", []any{map[string]any{"pids": "no/such"}}},
		{"cgroup_v1_override", []any{map[string]any{"such": ""}}},
		{"cgroup_v1_override", []any{map[string]any{"unified": ""}}},
		{"cgroup_v1_override", []any{map[string]any{"freezer": frozen}}},
	} {
		task := suite.NewTask(t, sh("exit 0"))
		task.Config[c.key] = c.value
		if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"`+c.key+`"`) {
			t.Errorf("%s = %v: %v", c.key, c.value, err)
			_ = d.Destroy(bounded(t), task.ID)
		}
	}
}
