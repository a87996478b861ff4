package rawexec_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

func bootTime(t *testing.T) int64 {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

// published binds a directory over another one, as a CSI plugin does.
func published(t *testing.T) (source, target string) {
	t.Helper()
	source, target = t.TempDir(), t.TempDir()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	return source, target
}

func isMounted(t *testing.T, path string) bool {
	t.Helper()
	for range 3 { // the file is read in parts, and may lack a line when other mounts change in between
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), " "+path+" ") {
			return true
		}
	}
	return false
}

// writing writes to the volume without pause and ignores polite signals, together with a child in a
// session of its own.
const writing = `trap '' TERM INT; setsid sh -c 'while :; do echo child >>v/journal; sleep 0.01; done' & while :; do date +%N >>v/journal; sleep 0.01; done`

func TestEndOfTheLeaseStopsTheTaskWithoutAnAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	source, target := published(t)
	task := suite.NewTask(t, sh(writing))
	task.Mounts = []driver.Mount{{Source: target, Destination: "v"}}
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}, From: bootTime(t), Unmount: []string{target}}
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	main, supervisor := pidOf(t, d, task.ID, "pid"), pidOf(t, d, task.ID, "supervisor_pid")
	suite.Eventually(t, "the task writes", func() bool {
		task.Lease.From = bootTime(t)
		if err := d.Renew(task.ID, task.Lease.From); err != nil {
			t.Fatal(err)
		}
		return size(filepath.Join(source, "journal")) > 0
	})
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) && hasEnded(supervisor) })
	if now := bootTime(t); now < task.Lease.From+int64(task.Lease.Term.Stop()) {
		t.Error("it ended too early")
	} else if now > task.Lease.From+int64(task.Lease.Term.Term) {
		t.Error("it ended after its lease")
	}
	if isMounted(t, target) {
		t.Error("the volume is still mounted")
	}
	before := size(filepath.Join(source, "journal"))
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Destroy(bounded(t), task.ID) })
	x, err := again.Wait(suite.Context(t), task.ID)
	if err != nil || !x.LeaseEnded || x.Successful() || x.Signal != int(syscall.SIGKILL) {
		t.Errorf("exit %+v %v, want the end of the lease", x, err)
	}
	if after := size(filepath.Join(source, "journal")); after != before {
		t.Errorf("%d bytes were written after the end", after-before)
	}
}

func TestRenewedLeaseLetsTheTaskRun(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	task := suite.NewTask(t, sh("sleep 1000"))
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 500 * time.Millisecond}, From: bootTime(t), Unmount: []string{target}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	if err := d.Renew(task.ID, bootTime(t)+int64(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := d.Renew(task.ID, 1); err != nil { // late and old: does not shorten the lease
		t.Fatal(err)
	}
	suite.Eventually(t, "the first lease has ended", func() bool { return bootTime(t) > task.Lease.From+2*int64(task.Lease.Term.Term) })
	if hasEnded(pidOf(t, d, task.ID, "pid")) || !isMounted(t, target) {
		t.Error("the task was ended within its lease")
	}
}

func TestTaskIsNotStartedOnceItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	task := suite.NewTask(t, sh("echo ran >ran"))
	term := api.LeaseTerm{Term: time.Minute}
	task.Lease = &driver.Lease{Term: term, From: bootTime(t) - int64(term.Stop()), Unmount: []string{target}}
	if _, err := d.Start(suite.Context(t), task); !driver.Recoverable(err) {
		t.Errorf("start: %v", err)
	}
	if size(filepath.Join(task.Dir, "ran")) > 0 {
		t.Error("it ran")
	}
}

func size(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}
