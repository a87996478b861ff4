package rawexec_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
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
			suite.Eventually(t, "the lease has ended", func() bool { return bootTime(t) > stop })
			now := bootTime(t)
			if err := d.Renew(task.ID, now); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) })
			if early := bootTime(t) < now+int64(task.Lease.Term.Stop()); early != late {
				t.Errorf("ended before its next end: %v", early)
			}
		})
	}
}

// stopped is a driver with a task whose supervising process is stopped until several ends of its lease have passed, and who
// ends the task. renew tells it renewals, of which the last one is answered; the task has to last that long.
func stopped(t *testing.T, term time.Duration, ends int64, renew func(d *rawexec.Driver, task *driver.Task, stop int64) int64) {
	t.Helper()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	task := suite.NewTask(t, sh("sleep 1000"))
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: term}, From: bootTime(t), Unmount: []string{target}}
	begin(t, d, task)
	main, supervisor := pidOf(t, d, task.ID, "pid"), pidOf(t, d, task.ID, "supervisor_pid")
	if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(supervisor, syscall.SIGCONT) })
	stop := int64(task.Lease.Term.Stop())
	suite.Eventually(t, "the lease is long over", func() bool { return bootTime(t) > task.Lease.From+ends*stop })
	last := renew(d, task, stop)
	if err := syscall.Kill(supervisor, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the task has ended", func() bool { return hasEnded(main) })
	if now := bootTime(t); now < last+stop {
		t.Errorf("it ended %s before its lease", time.Duration(last+stop-now))
	}
}

// The servers were heard all the time, and other users of the volume go on: a process that was stopped for longer than the
// lease hears all that it was told before it takes the volume away.
func TestRenewalsThatAStoppedProcessMissedCount(t *testing.T) {
	t.Parallel()
	stopped(t, 4*time.Second, 3, func(d *rawexec.Driver, task *driver.Task, stop int64) int64 {
		last := task.Lease.From
		for step := stop / 4; last+step < bootTime(t); {
			last += step
			if err := d.Renew(task.ID, last); err != nil {
				t.Fatal(err)
			}
		}
		return last
	})
}

// A socket holds some hundred renewals at first: those that come later count no less.
func TestManyRenewalsThatAStoppedProcessMissedCount(t *testing.T) {
	t.Parallel()
	stopped(t, 6*time.Second, 2, func(d *rawexec.Driver, task *driver.Task, _ int64) int64 {
		last := task.Lease.From
		for range 20_000 {
			if last < bootTime(t)-int64(5*time.Millisecond) {
				last += int64(5 * time.Millisecond)
			} else {
				last++
			}
			if err := d.Renew(task.ID, last); err != nil {
				t.Fatal(err)
			}
		}
		return last
	})
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
