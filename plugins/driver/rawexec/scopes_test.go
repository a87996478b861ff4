package rawexec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

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

// Of an attempt whose supervising process is gone, and that is on no record, nothing is left either.
func TestScopeOfAnAttemptThatNobodyKnowsIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	task := suite.NewTask(t, sh("setsid sleep 1000 & echo $! >other; exec sleep 1000"))
	_, supervisor := begin(t, d, task)
	main := pidOf(t, d, task.ID, "pid")
	scope := scopeOf(t, main)
	other := 0
	suite.Eventually(t, "the other process runs", func() bool {
		b, _ := os.ReadFile(filepath.Join(task.Dir, "other"))
		other, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return other > 0
	})
	if err := d.Close(); err != nil { // the agent is gone
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "it has ended", func() bool { return gone(supervisor) && gone(main) })
	if gone(other) {
		t.Fatal("nothing is left of it")
	}
	again := newDriver(t, dir)
	if _, err := again.Prune(suite.Context(t), nil, true); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "nothing is left of it", func() bool { return gone(other) && missing(scope) })
}
