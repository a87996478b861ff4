package rawexec_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
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
			suite.Eventually(t, "all processes are gone", func() bool { return gone(main) && gone(supervisor) && len(d.Remains(task.ID)) == 0 })
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
