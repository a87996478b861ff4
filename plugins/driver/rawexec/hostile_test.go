package rawexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// flood prints more than a log file holds.
const flood = `
head -c 1500000 /dev/zero | tr '\0' '\n'; echo end`

// TestTasksCannotLeadTheirLogsElsewhere: what a task puts in the way of its next log file is neither opened nor
// followed, and the task does not notice.
func TestTasksCannotLeadTheirLogsElsewhere(t *testing.T) {
	for name, c := range map[string]struct{ script, last string }{
		"a pipe":               {`mkfifo $LOGS/web.stdout.1`, "alloc/logs/web.stdout.1"},
		"a pipe with a reader": {`mkfifo $LOGS/web.stdout.1; sleep 1000 <>$LOGS/web.stdout.1 &`, "alloc/logs/web.stdout.1"},
		"a link":               {`ln -s $OUTSIDE/file $LOGS/web.stdout.1`, "alloc/logs/web.stdout.1"},
		"a hard link":          {`ln $OUTSIDE/file $LOGS/web.stdout.1`, "alloc/logs/web.stdout.1"},
		"a directory":          {`mkdir -p $LOGS/web.stdout.1/x`, "alloc/logs/web.stdout.2"},
		"another directory":    {`mv $LOGS $LOGS.x; ln -s $OUTSIDE $LOGS`, "alloc/logs.x/web.stdout.1"},
		"another parent":       {`mv $ROOT/alloc $ROOT/x; mkdir $ROOT/alloc; ln -s $OUTSIDE $LOGS`, "x/logs/web.stdout.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			if err := os.WriteFile(outside+"/file", []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			d := newDriver(t, t.TempDir())
			task := suite.NewTask(t, sh(c.script+flood))
			root := filepath.Dir(task.AllocDir)
			task.Env["LOGS"], task.Env["OUTSIDE"], task.Env["ROOT"] = task.Logs.Dir, outside, root
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.Successful() {
				t.Fatalf("exit %+v %v", x, err)
			}
			if b, err := os.ReadFile(outside + "/file"); err != nil || string(b) != "mine" {
				t.Errorf("the file outside holds %d bytes, %v", len(b), err)
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
				t.Errorf("outside are %v, %v", entries, err)
			}
			if b, err := os.ReadFile(filepath.Join(root, c.last)); err != nil || !strings.HasSuffix(string(b), "\nend\n") {
				t.Errorf("%s ends with %.10q, %v", c.last, b[max(0, len(b)-10):], err)
			}
		})
	}
}

func TestLogsThatAreALinkAreNotWritten(t *testing.T) {
	outside := t.TempDir()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("echo x"))
	if err := os.Remove(task.Logs.Dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, task.Logs.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(suite.Context(t), task); err == nil {
		_ = d.Destroy(bounded(t), task.ID)
		t.Error("a task with logs elsewhere was started")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}

// TestTasksEndWhateverIsInTheWay: a task that ignores signals ends soon after its timeout.
func TestTasksEndWhateverIsInTheWay(t *testing.T) {
	const deaf = `trap "" TERM INT HUP; (trap "" TERM INT HUP; setsid sleep 1000) & echo up; while :; do sleep 1000; done`
	for name, c := range map[string]struct {
		signal    string
		noCgroups bool
		before    func(supervisor int) error
	}{
		"nothing":                                     {signal: "SIGTERM"},
		"a signal that is none":                       {signal: "SIGKILL,SIGTERM"},
		"a stopped supervising process":               {signal: "SIGTERM", before: func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }},
		"a stopped supervising process and no cgroup": {signal: "SIGTERM", noCgroups: true, before: func(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir(), func(conf *rawexec.Config) { conf.NoCgroups = c.noCgroups })
			task := suite.NewTask(t, sh(deaf))
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			suite.Eventually(t, "the task is up", func() bool { return suite.LogText(task, "stdout") == "up\n" })
			main, supervisor := pidOf(t, d, task.ID, "pid"), pidOf(t, d, task.ID, "supervisor_pid")
			if c.before != nil {
				if err := c.before(supervisor); err != nil {
					t.Fatal(err)
				}
			}
			const timeout = 500 * time.Millisecond
			began := time.Now()
			if err := d.Stop(suite.Context(t), task.ID, c.signal, timeout); err != nil {
				t.Errorf("stop: %v", err)
			}
			if took := time.Since(began); took > timeout+5*time.Second {
				t.Errorf("the end took %s", took)
			}
			if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.Signal != int(syscall.SIGKILL) {
				t.Errorf("exit %+v %v", x, err)
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("left: %v\nmain: %s\nsupervising: %s", d.Remains(task.ID), threadsOf(main), threadsOf(supervisor))
				}
			})
			suite.Eventually(t, "all processes have ended", func() bool { return hasEnded(main) && hasEnded(supervisor) && len(d.Remains(task.ID)) == 0 })
		})
	}
}

// TestTasksGetNoDescriptorsOfTheAgent: neither a task nor its supervising process holds what the agent was started with.
func TestTasksGetNoDescriptorsOfTheAgent(t *testing.T) {
	fd, err := syscall.Open(t.TempDir(), syscall.O_RDONLY, 0) // as a shell hands it on
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("echo up; exec sleep 1000"))
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	suite.Eventually(t, "the task is up", func() bool { return suite.LogText(task, "stdout") == "up\n" })
	for _, which := range []string{"pid", "supervisor_pid"} {
		dir := filepath.Join("/proc", strconv.Itoa(pidOf(t, d, task.ID, which)), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) == 0 {
			t.Fatalf("%v %v", entries, err)
		}
		for _, e := range entries {
			if to, _ := os.Readlink(filepath.Join(dir, e.Name())); to == name {
				t.Errorf("%s has descriptor %s, which is %s", which, e.Name(), to)
			}
		}
	}
}

// TestNamesOfCgroupsSpareNoTask: jobs name cgroups and tasks; only what the agent itself moved out of a task outlives it.
func TestNamesOfCgroupsSpareNoTask(t *testing.T) {
	root := unified(t)
	for name, c := range map[string]struct{ task, v1, v2 string }{
		"of a task":                {task: "x.fuse.scope"},
		"of a cgroup of version 2": {task: "web", v2: "nomad-test.fuse.scope"},
		"below one of a helper":    {task: "web", v2: "nomad-test-below.fuse.scope/x"},
		"of a cgroup of version 1": {task: "web", v1: "nomad-test.fuse.scope"},
	} {
		t.Run(name, func(t *testing.T) {
			config := sh(`setsid sleep 1000 & echo $!; wait`)
			if c.v1 != "" {
				makeCgroup(t, "/sys/fs/cgroup/pids/"+c.v1)
				config["cgroup_v1_override"] = []any{map[string]any{"pids": c.v1}}
			}
			if c.v2 != "" {
				makeCgroup(t, filepath.Join(root, c.v2))
				config["cgroup_v2_override"] = c.v2
			}
			d := newDriver(t, t.TempDir())
			task := suite.NewTask(t, config)
			task.Name, task.ID = c.task, "a/"+c.task+"/1"
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			child := 0
			suite.Eventually(t, "the pid of the child", func() bool {
				b, _ := os.ReadFile(filepath.Join(task.Logs.Dir, task.Name+".stdout.0"))
				child, _ = strconv.Atoi(strings.TrimSpace(string(b)))
				return child > 1
			})
			if err := d.Stop(suite.Context(t), task.ID, "SIGTERM", 200*time.Millisecond); err != nil {
				t.Errorf("stop: %v", err)
			}
			if !hasEnded(child) {
				_ = syscall.Kill(child, syscall.SIGKILL)
				t.Errorf("process %d outlives its task, of which remains %v", child, d.Remains(task.ID))
			}
		})
	}
}

// unified is where the host has the tree of cgroup version 2.
func unified(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(root + "/cgroup.procs"); err == nil {
			return root
		}
	}
	t.Skip("no cgroup version 2")
	return ""
}

// makeCgroup makes a cgroup, and takes it away with its parent if that is not a root.
func makeCgroup(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skip("no such hierarchy: ", err)
	}
	t.Cleanup(func() {
		suite.Eventually(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil })
		_ = os.Remove(filepath.Dir(dir))
	})
}

// TestCgroupsOfTheNodeAreNotForJobs: an override leads to no other task, to no helper, and out of no hierarchy.
func TestCgroupsOfTheNodeAreNotForJobs(t *testing.T) {
	root := unified(t)
	d := newDriver(t, t.TempDir())
	victim := suite.NewTask(t, sh("sleep 1000"))
	victim.ID = "victim"
	if _, err := d.Start(suite.Context(t), victim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), victim.ID) })
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pidOf(t, d, victim.ID, "pid")) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, theirs, _ := strings.Cut(string(raw), "0::/")
	theirs = strings.TrimSpace(theirs)
	if !strings.HasSuffix(theirs, ".scope") {
		t.Skip("tasks have no cgroups here")
	}
	helper := frame.HelperName(strconv.Itoa(os.Getpid()), "abcdefgh")
	makeCgroup(t, filepath.Join(root, helper))
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/cgroup.procs", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 10)
	for name, c := range map[string]map[string]any{
		"another task":                  {"cgroup_v2_override": theirs},
		"another task, by its path":     {"cgroup_v2_override": filepath.Join(root, theirs)},
		"another task, by a detour":     {"cgroup_v2_override": root + "/x/../" + theirs},
		"another task, as a controller": {"cgroup_v1_override": []any{map[string]any{"unified": theirs}}},
		"below another task":            {"cgroup_v2_override": theirs + "/x"},
		"a helper":                      {"cgroup_v2_override": helper},
		"a helper, as a controller":     {"cgroup_v1_override": []any{map[string]any{"unified": helper}}},
		"outside":                       {"cgroup_v1_override": []any{map[string]any{"pids": up + outside}}},
		"outside, as a controller":      {"cgroup_v1_override": []any{map[string]any{up + outside: ""}}},
		"outside, by version 2":         {"cgroup_v2_override": up + outside},
		"the directory above":           {"cgroup_v1_override": []any{map[string]any{"..": "x"}}},
	} {
		task := suite.NewTask(t, sh("sleep 1000"))
		task.ID = "hostile"
		for k, v := range c {
			task.Config[k] = v
		}
		if _, err := d.Start(suite.Context(t), task); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want invalid", name, err)
			_ = d.Destroy(bounded(t), task.ID)
		}
	}
	if b, _ := os.ReadFile(outside + "/cgroup.procs"); string(b) != "mine" {
		t.Errorf("the file outside holds %q", b)
	}
}
