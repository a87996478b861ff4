package rawexec_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// A host that slept, or a process that was stopped, may have missed the end of the lease: the servers have given the
// volume away, and a heartbeat that they answer after that revives nothing.
func TestRenewalAfterTheEndOfTheLeaseRevivesNothing(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"in time": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, t.TempDir())
			_, target := published(t)
			task := suite.NewTask(t, sh("sleep 1000"))
			task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 2 * time.Second}, From: bootTime(t), Unmount: []string{target}}
			if _, err := d.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
			main, supervisor := pidOf(t, d, task.ID, "pid"), pidOf(t, d, task.ID, "supervisor_pid")
			if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(supervisor, syscall.SIGCONT) })
			stop := task.Lease.From + int64(task.Lease.Term.Stop())
			if !late {
				if err := d.Renew(task.ID, stop-1); err != nil {
					t.Fatal(err)
				}
			}
			suite.Eventually(t, "the lease is over", func() bool { return bootTime(t) > stop })
			now := bootTime(t)
			if err := d.Renew(task.ID, now); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the task has ended", func() bool { return gone(main) })
			if early := bootTime(t) < now+int64(task.Lease.Term.Stop()); early != late {
				t.Errorf("ended before its next end: %v", early)
			}
		})
	}
}

// hung mounts a FUSE file system whose server never answers over a directory.
func hung(t *testing.T) (path string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	path = t.TempDir()
	if err := unix.Mount("hung", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		t.Skipf("cannot mount fuse here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_FORCE|unix.MNT_DETACH) })
	return path
}

// What hangs cannot be opened, and so not be shut down: it is forced and detached within the lease all the same.
func TestHungVolumeIsTakenAwayWithinTheLease(t *testing.T) {
	t.Parallel()
	target := hung(t)
	d := newDriver(t, t.TempDir())
	task := suite.NewTask(t, sh("sleep 1000"))
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 2 * time.Second, WriteBack: time.Second}, From: bootTime(t), Unmount: []string{target}}
	if _, err := d.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	suite.Eventually(t, "the end of the lease", func() bool { return bootTime(t) >= task.Lease.From+int64(task.Lease.Term.Term) })
	if isMounted(t, target) {
		t.Error("it is mounted after its lease")
	}
}
