package exec_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// needLimits skips a test on hosts without controllers.
func needLimits(t testing.TB) {
	t.Helper()
	if err := limits.Find("").Ready(); err != nil {
		t.Skip(err)
	}
}

// cgroupsOf lists the cgroups that there are of a task, by the name of its files.
func cgroupsOf(t *testing.T, stateDir string) (out []string) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(stateDir, "*", "*.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	name := strings.TrimSuffix(filepath.Base(locks[0]), ".lock") + limits.Scope
	for _, parent := range limits.Find("").Parents() {
		if dir := filepath.Join(parent, name); exists(dir) {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		t.Fatal("the task has no cgroups")
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func removedAll(paths []string) bool {
	for _, p := range paths {
		if exists(p) {
			return false
		}
	}
	return true
}

// valueOf is the content of the first of the files that one of the cgroups has.
func valueOf(t *testing.T, dirs []string, files ...string) string {
	t.Helper()
	for _, dir := range dirs {
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(dir, f)); err == nil {
				return strings.TrimSpace(string(b))
			}
		}
	}
	return "no file"
}

// A task has the limits of its resources, also when it was started by an earlier agent, and so have commands in it.
func TestTaskHasItsLimits(t *testing.T) {
	t.Parallel()
	needLimits(t)
	dir := t.TempDir()
	d := newDriver(t, dir, map[string]any{"pids_limit": 77})
	task := suite.NewTask(t, sh(`exec sleep 1000`))
	task.Resources = driver.Resources{CPUShares: 500, MemoryMB: 40, MemoryMaxMB: 64}
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	dirs := cgroupsOf(t, dir)
	for want, files := range map[string][]string{
		"67108864": {"memory.limit_in_bytes", "memory.max"}, "41943040": {"memory.soft_limit_in_bytes", "memory.low"}, "77": {"pids.max"},
	} {
		if got := valueOf(t, dirs, files...); got != want {
			t.Errorf("%s is %s, want %s", files[0], got, want)
		}
	}
	if got := valueOf(t, dirs, "cpu.shares", "cpu.weight"); got != "500" && got != "19" {
		t.Errorf("the share of processor time is %s", got)
	}
	st, err := d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/" + st.Attributes["pid"] + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if code, err := d.Exec(suite.Context(t), task.ID, &driver.Command{Args: command(`cat /proc/self/cgroup`), Stdout: &got}); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	if got.String() != string(own) {
		t.Errorf("a command is in %s, the task in %s", &got, own)
	}
	supervisor, _ := os.ReadFile("/proc/" + st.Attributes["supervisor_pid"] + "/cgroup")
	if strings.Contains(string(supervisor), limits.Scope) {
		t.Errorf("the supervising process is in a cgroup of the task: %s", supervisor)
	}
	_ = d.Close()
	again := newDriver(t, dir, nil)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if u, err := again.Stats(suite.Context(t), task.ID); err != nil || u.ResourceUsage.MemoryStats.MaxUsage == 0 || u.ResourceUsage.MemoryStats.MaxUsage > 64<<20 {
		t.Errorf("it uses %+v, %v", u.ResourceUsage.MemoryStats, err)
	}
	if got := valueOf(t, dirs, "memory.limit_in_bytes", "memory.max"); got != "67108864" {
		t.Errorf("after a restart of the agent the limit is %s", got)
	}
	if err := again.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the cgroups are removed", func() bool { return removedAll(dirs) })
}

// Without a memory_max that is a number the task has no limit.
func TestMemoryWithoutALimit(t *testing.T) {
	t.Parallel()
	needLimits(t)
	dir := t.TempDir()
	d := newDriver(t, dir, nil)
	task := suite.NewTask(t, sh(`exec sleep 1000`))
	task.Resources = driver.Resources{MemoryMB: 40, MemoryMaxMB: -1}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(suite.Context(t), task.ID) })
	dirs := cgroupsOf(t, dir)
	if got := valueOf(t, dirs, "memory.limit_in_bytes", "memory.max"); got != "max" && len(got) < 18 {
		t.Errorf("the limit is %s", got)
	}
	if got := valueOf(t, dirs, "memory.soft_limit_in_bytes", "memory.low"); got != "41943040" {
		t.Errorf("it keeps %s", got)
	}
}

// A task that uses more memory than it may is ended, also when that is done by its child, and another task is not.
func TestTaskOverItsMemoryLimit(t *testing.T) {
	t.Parallel()
	needLimits(t)
	for name, script := range map[string]string{"itself": "exec tail /dev/zero", "its child": "tail /dev/zero; exit $?"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, other := t.TempDir(), suite.NewTask(t, sh(`exec sleep 1000`))
			d, calm := newDriver(t, dir, nil), newDriver(t, t.TempDir(), nil)
			other.ID += "/other"
			other.Resources = driver.Resources{CPUShares: 100, MemoryMB: 20}
			if _, err := calm.Start(suite.Context(t), other); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = calm.Destroy(suite.Context(t), other.ID) })
			task := suite.NewTask(t, sh("sleep 0.3; "+script))
			task.Resources = driver.Resources{CPUShares: 100, MemoryMB: 20}
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			dirs := cgroupsOf(t, dir)
			x, err := d.Wait(suite.Context(t), task.ID)
			if err != nil || !x.OOMKilled || x.Code != 137 || x.Err != "the task used more than its memory limit of 20 MiB" {
				t.Errorf("exit %+v, %v", x, err)
			}
			if err := d.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
			suite.Eventually(t, "the cgroups are removed", func() bool { return removedAll(dirs) })
			if st, err := calm.Inspect(other.ID); err != nil || st.State != driver.StateRunning {
				t.Errorf("the other task: %+v, %v", st, err)
			}
		})
	}
}

// A task that is killed on order is no task out of memory.
func TestKilledTaskIsNotOutOfMemory(t *testing.T) {
	t.Parallel()
	needLimits(t)
	d := newDriver(t, t.TempDir(), nil)
	task := suite.NewTask(t, sh(`exec sleep 1000`))
	task.Resources = driver.Resources{MemoryMB: 20}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(suite.Context(t), task.ID) })
	if err := d.Stop(suite.Context(t), task.ID, "SIGURG", 0); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.OOMKilled || x.Code != 137 {
		t.Errorf("exit %+v, %v", x, err)
	}
}

// A task that starts processes without end has as many as it may, ends when it is stopped, and leaves nothing.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	needLimits(t)
	const most = 60
	dir := t.TempDir()
	d := newDriver(t, dir, map[string]any{"pids_limit": most})
	// The main process does not fork: a shell that cannot fork exits.
	task := suite.NewTask(t, sh(`f() { f | f & }; (while :; do f 2>/dev/null; done) & exec sleep 1000`))
	task.Env["TEST_TASK"] = task.ID
	task.Resources = driver.Resources{CPUShares: 100, MemoryMB: 100}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	dirs := cgroupsOf(t, dir)
	suite.Eventually(t, "it has as many processes as it may", func() bool {
		for _, f := range strings.Fields(valueOf(t, dirs, "pids.events")) {
			if n, err := strconv.Atoi(f); err == nil && n > 0 {
				return true
			}
		}
		return false
	})
	if n, err := strconv.Atoi(valueOf(t, dirs, "pids.current")); err != nil || n > most {
		t.Errorf("it has %d processes, %v", n, err)
	}
	if err := d.Stop(suite.Context(t), task.ID, "", 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "nothing is left", func() bool { return removedAll(dirs) && withMark(task.ID) == 0 })
}

// withMark counts the processes whose environment has the id of a test task.
func withMark(id string) (n int) {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), "TEST_TASK="+id) {
			n++
		}
	}
	return n
}

// What a killed supervising process leaves is ended by its cgroups, which are removed.
func TestLimitsOfAKilledSupervisingProcessAreRemoved(t *testing.T) {
	t.Parallel()
	needLimits(t)
	dir := t.TempDir()
	d := newDriver(t, dir, nil)
	task := suite.NewTask(t, sh(`setsid env -i sleep 1000 & exec sleep 1000`))
	task.Resources = driver.Resources{CPUShares: 100, MemoryMB: 20, Cores: "0"}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	dirs := cgroupsOf(t, dir)
	st, err := d.Inspect(task.ID)
	if err != nil {
		t.Fatal(err)
	}
	supervisor, _ := strconv.Atoi(st.Attributes["supervisor_pid"])
	_ = d.Close() // the agent has ended as well
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := newDriver(t, dir, nil)
	suite.Eventually(t, "nothing is left", func() bool {
		_, err := again.Prune(suite.Context(t), nil, true)
		return err == nil && removedAll(dirs)
	})
}

// A node that cannot limit tasks reports that, and starts none.
func TestHostWithoutControllers(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir(), nil, func(c *exec.Config) { c.CgroupParent = "nomad.slice/cgroup.procs/x" }) // below a file
	reports, err := d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-reports; f.Health != driver.Unhealthy || !strings.Contains(f.Description, "no limits are possible: controller cpu") {
		t.Errorf("health %+v", f)
	}
	task := suite.NewTask(t, sh("true"))
	task.Resources = driver.Resources{MemoryMB: 20}
	if _, err := d.Start(suite.Context(t), task); err == nil || !driver.Recoverable(err) || !strings.Contains(err.Error(), "no limits are possible") {
		t.Errorf("start: %v", err)
	}
}

// BenchmarkStart starts 100 isolated sleeps, 8 at a time, and reports how many start per second and the memory of each supervising process.
func BenchmarkStart(b *testing.B) {
	for name, without := range map[string]bool{"limits": false, "no-limits": true} {
		b.Run(name, func(b *testing.B) {
			c, err := exec.ParseConfig(nil)
			if err != nil {
				b.Fatal(err)
			}
			c.StateDir, c.Program, c.NoCgroups = b.TempDir(), program, without
			d := exec.New(c, hclog.NewNullLogger())
			for range b.N {
				benchStarts(b, d)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchStarts(b *testing.B, d *exec.Driver) {
	const tasks = 100
	root, ids, next := b.TempDir(), make([]string, tasks), make(chan int)
	var all sync.WaitGroup
	b.ResetTimer()
	for range 8 {
		all.Go(func() {
			for i := range next {
				dir := filepath.Join(root, strconv.Itoa(i))
				_ = os.Mkdir(dir, 0o755)
				ids[i] = fmt.Sprintf("bench/%s/%d", filepath.Base(root), i)
				if _, err := d.Start(b.Context(), &driver.Task{
					ID: ids[i], Name: "t", Dir: dir, Resources: driver.Resources{CPUShares: 100, MemoryMB: 20}, Config: sh("exec sleep 1000"),
				}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	all.Wait()
	b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
	for _, id := range ids {
		_ = d.Destroy(b.Context(), id)
	}
}
