package rawexec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// scopeOf is the directory of a process's cgroup of version 2.
func scopeOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut("\n"+string(b), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(root, path)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil && strings.HasSuffix(dir, ".scope") {
			return dir
		}
	}
	t.Skip("tasks have no cgroups of version 2 here")
	return ""
}

// cpusetOf is the directory of a process's cgroup of the controller of cores, where that is one of version 1.
func cpusetOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, path, ok := strings.Cut(string(b), ":cpuset:")
	path, _, _ = strings.Cut(path, "\n")
	if !ok || !strings.HasSuffix(path, ".scope") {
		return ""
	}
	return "/sys/fs/cgroup/cpuset" + path
}

// scopesOf lists the cgroups of the tasks whose files are in a state directory.
func scopesOf(dir string) (out []string) {
	names, _ := filepath.Glob(filepath.Join(dir, "*", "*.lock"))
	for _, n := range names {
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset"} {
			scope := filepath.Join(root, "nomad.slice", strings.TrimSuffix(filepath.Base(n), ".lock")+".scope")
			if !missing(scope) {
				out = append(out, scope)
			}
		}
	}
	return out
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// A task of root may make cgroups below its own; they are no reason to leave that behind.
func TestCgroupsThatATaskMakesGoWithIt(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"it is stopped": false, "its supervising process is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir())
			task := suite.NewTask(t, sh("exec sleep 1000"))
			_, supervisor := begin(t, d, task)
			main := pidOf(t, d, task.ID, "pid")
			scope := scopeOf(t, main)
			if err := os.MkdirAll(filepath.Join(scope, "a", "b"), 0o755); err != nil {
				t.Fatal(err)
			}
			if killed {
				if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			} else if err := d.Signal(suite.Context(t), task.ID, "SIGKILL"); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Wait(suite.Context(t), task.ID); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the cgroups are removed", func() bool { return missing(scope) })
		})
	}
}

// An attempt without a record whose supervising process has ended leaves nothing either.
func TestScopeOfAnAttemptThatNobodyKnowsIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	task := suite.NewTask(t, sh("setsid sleep 1000 & echo $! >other; exec sleep 1000"))
	_, supervisor := begin(t, d, task)
	main := pidOf(t, d, task.ID, "pid")
	scope := scopeOf(t, main)
	other := otherOf(t, task)
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "it has ended", func() bool { return hasEnded(supervisor) && hasEnded(main) })
	if hasEnded(other) {
		t.Fatal("nothing is left of it")
	}
	again := newDriver(t, dir)
	if _, err := again.Prune(suite.Context(t), nil, true); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "nothing is left of it", func() bool { return hasEnded(other) && missing(scope) })
}

// A task that reserves cores has a cgroup more on hosts with version 1, which no process removes when its supervising process
// is killed.
func TestCpusetOfAKilledSupervisingProcessIsRemoved(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/sys/fs/cgroup/cpuset/cpuset.cpus"); err != nil {
		t.Skip("no cgroup v1 controller of cores")
	}
	for name, known := range map[string]bool{"the agent knows the task": true, "the agent does not know it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			// What left the session and the cgroup of version 2 is not known by its environment either.
			task := suite.NewTask(t, sh(`setsid env -i /bin/sh -c '
				for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs; do echo $$ >$f; done 2>/dev/null
				echo $$ >other.new; mv other.new other; exec sleep 1000' & exec sleep 1000`))
			task.Resources.Cores = "0"
			_, supervisor := begin(t, d, task)
			main := pidOf(t, d, task.ID, "pid")
			cpuset := cpusetOf(t, main)
			other := otherOf(t, task)
			if err := os.Mkdir(filepath.Join(cpuset, "inner"), 0o755); err != nil {
				t.Fatal(err)
			}
			if !known {
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "it has ended", func() bool { return hasEnded(main) })
			if !known {
				again := newDriver(t, dir)
				if _, err := again.Prune(suite.Context(t), nil, true); err != nil {
					t.Fatal(err)
				}
			}
			suite.Eventually(t, "nothing is left of it", func() bool { return hasEnded(other) && missing(cpuset) })
		})
	}
}

// An agent ended before the kernel had ended what was in the cgroup of a task, and the task was forgotten.
func TestUnusedCgroupsOfForgottenTasksAreRemoved(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("exec sleep 1000"))
	task.Resources.Cores = "0"
	begin(t, d, task)
	main := pidOf(t, d, task.ID, "pid")
	used := []string{scopeOf(t, main)}
	if c := cpusetOf(t, main); c != "" {
		used = append(used, c)
	}
	var unused, others []string
	old := time.Now().Add(-time.Hour)
	name := "x-" + strings.TrimSuffix(filepath.Base(used[0])[len(filepath.Base(used[0]))-22:], ".scope")
	for _, u := range used {
		inner := filepath.Join(u, "inner") // for later
		left := filepath.Join(filepath.Dir(u), name+".scope")
		recent := filepath.Join(filepath.Dir(u), "y-"+name[2:]+".scope")
		others = append(others, filepath.Join(filepath.Dir(u), name+"z.scope"), recent, u, inner)
		unused = append(unused, left)
		for _, dir := range []string{inner, filepath.Join(left, "a", "b"), others[len(others)-4], recent} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{u, left, others[len(others)-4]} {
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, dir := range others {
			_ = os.Remove(dir)
		}
	})
	another := newDriver(t, t.TempDir())
	if _, err := another.Prune(suite.Context(t), nil, true); err != nil {
		t.Fatal(err)
	}
	for _, dir := range unused {
		if !missing(dir) {
			t.Errorf("%s is left", dir)
		}
	}
	for _, dir := range others {
		if missing(dir) {
			t.Errorf("%s is removed", dir)
		}
	}
}

// A start that was ended left the cgroup of its attempt behind: the kernel may kill at once what begins in one whose
// processes were killed. One in which a process of it is stuck is left to that.
func TestCgroupOfAnEndedStartIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, stuck := range map[string]bool{"nothing is in it": false, "a process is in it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir())
			task := suite.NewTask(t, sh("sleep 1000"))
			begin(t, d, task)
			scope := scopeOf(t, pidOf(t, d, task.ID, "pid"))
			if err := d.Destroy(suite.Context(t), task.ID); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(scope, "inner"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(scope, "cgroup.kill"), []byte("1"), 0); err != nil {
				t.Skipf("no cgroup.kill: %v", err)
			}
			if stuck {
				other := exec.CommandContext(t.Context(), "sleep", "1000")
				if err := other.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = other.Process.Kill()
					_ = other.Wait()
					_ = os.Remove(filepath.Join(scope, "inner"))
					_ = os.Remove(scope)
				})
				if err := os.WriteFile(filepath.Join(scope, "inner", "cgroup.procs"), []byte(strconv.Itoa(other.Process.Pid)), 0); err != nil {
					t.Fatal(err)
				}
			}
			task.Config = sh("echo runs; exec sleep 1000")
			begin(t, d, task)
			suite.Eventually(t, "the task runs", func() bool { return suite.LogText(task, "stdout") == "runs\n" })
			b, err := os.ReadFile("/proc/" + strconv.Itoa(pidOf(t, d, task.ID, "pid")) + "/cgroup")
			if own := strings.Contains(string(b), filepath.Base(scope)); err != nil || own == stuck {
				t.Errorf("its cgroups: %s, %v", b, err)
			}
		})
	}
}

// otherOf waits for the process of a task that has written its pid to the file "other".
func otherOf(t *testing.T, task *driver.Task) (pid int) {
	t.Helper()
	suite.Eventually(t, "the other process runs", func() bool {
		b, _ := os.ReadFile(filepath.Join(task.Dir, "other"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	return pid
}
