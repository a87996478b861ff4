package docker_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
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

func isMounted(t *testing.T, path string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(table, []byte(" "+path+" "))
}

func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// leased starts a container that appends to a file of a volume which it has under a lease.
func leased(t *testing.T, d *docker.Driver, term api.LeaseTerm) (task *driver.Task, h *driver.Handle, target, file string) {
	t.Helper()
	source, target := t.TempDir(), t.TempDir()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	task = newTask(t, taskConfig(nil, "append", "/data/file"))
	task.Mounts = []driver.Mount{{Source: target, Destination: "/data"}}
	task.Lease = &driver.Lease{Term: term, From: bootTime(t), Unmount: []string{target}}
	h = start(t, d, task)
	file = filepath.Join(source, "file")
	suite.Eventually(t, "it writes", func() bool {
		task.Lease.From = bootTime(t)
		if err := d.Renew(task.ID, task.Lease.From); err != nil {
			t.Fatal(err)
		}
		return fileSize(file) > 0
	})
	return task, h, target, file
}

// The agent is dead and the servers are out of reach: the container ends with its lease, and the next agent reads why.
func TestContainerEndsWithItsLeaseWithoutAnAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	task, h, target, file := leased(t, d, api.LeaseTerm{Term: 16 * time.Second, WriteBack: 6 * time.Second})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the volume is unmounted", func() bool { return !isMounted(t, target) })
	now := bootTime(t)
	if now < task.Lease.From+int64(task.Lease.Term.Stop()) || now > task.Lease.From+int64(task.Lease.Term.Term) {
		t.Errorf("it was unmounted %v after the last renewal", time.Duration(now-task.Lease.From))
	}
	before := fileSize(file)
	time.Sleep(100 * time.Millisecond)
	if fileSize(file) != before {
		t.Error("the container writes after its lease")
	}
	d = newDriver(t, dir, nil)
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || !x.LeaseEnded || x.OOMKilled {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

// An agent that is restarted renews the lease again, and what keeps it after the container ends with the volume.
func TestLeaseOfAContainerGoesOnWithTheNextAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/s"
	d := newDriver(t, dir, nil)
	term := api.LeaseTerm{Term: 12 * time.Second, WriteBack: 4 * time.Second}
	task, h, target, file := leased(t, d, term)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = newDriver(t, dir, nil)
	if err := d.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if err := d.Recall(suite.Context(t)); err != nil {
		t.Error(err)
	}
	if ended, err := d.Prune(suite.Context(t), nil, true); err != nil || len(ended) > 0 {
		t.Errorf("pruned %v %v", ended, err)
	}
	first := task.Lease.From
	suite.Eventually(t, "the first lease is over", func() bool {
		if err := d.Renew(task.ID, bootTime(t)); err != nil {
			t.Fatal(err)
		}
		return bootTime(t) > first+int64(term.Term)
	})
	before := fileSize(file)
	suite.Eventually(t, "it writes", func() bool { return fileSize(file) > before && d.Renew(task.ID, bootTime(t)) == nil })
	if err := d.Stop(suite.Context(t), task.ID, "", 0); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.LeaseEnded || x.Code != 137 {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(suite.Context(t), task.ID); err != nil {
		t.Fatal(err)
	}
	if !isMounted(t, target) {
		t.Error("the volume was taken away within its lease")
	}
	if err := d.Renew(task.ID, 0); !errors.Is(err, fault.NotFound) {
		t.Errorf("renew: %v", err)
	}
	d.Keep(0, func(string) bool { return false })
	suite.Eventually(t, "nothing keeps the lease", func() bool {
		left, err := filepath.Glob(dir + "/leases/*/*")
		return err == nil && len(left) == 0
	})
}

// A start that takes longer than the lease, for the pull of an image say, does not end with it while the servers respond.
func TestLeaseIsRenewedWhileItsContainerStarts(t *testing.T) {
	t.Parallel()
	e, mode := behindProxy(t)
	d := driverOf(t, e, t.TempDir()+"/s", nil)
	task := newTask(t, taskConfig(nil, "append", "/data/file"))
	source := t.TempDir()
	task.Mounts = []driver.Mount{{Source: source, Destination: "/data"}}
	task.Lease = &driver.Lease{Term: api.LeaseTerm{Term: 8 * time.Second, WriteBack: 4 * time.Second}, From: bootTime(t)}
	renew := func() {
		d.Keep(bootTime(t), func(string) bool { return true })
		_ = d.Renew(task.ID, bootTime(t)) // refused before the task runs
	}
	mode.Store(hangs)
	ended := make(chan error, 1)
	go func() {
		_, err := d.Start(suite.Context(t), task)
		ended <- err
	}()
	began := bootTime(t)
	suite.Eventually(t, "the first lease is over", func() bool {
		renew()
		return bootTime(t) > began+int64(task.Lease.Term.Term)
	})
	mode.Store(works)
	suite.Eventually(t, "it writes", func() bool {
		renew()
		return fileSize(filepath.Join(source, "file")) > 0
	})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	renew()
	if err := d.Stop(suite.Context(t), task.ID, "SIGKILL", 0); err != nil {
		t.Fatal(err)
	}
	if x, err := d.Wait(suite.Context(t), task.ID); err != nil || x.LeaseEnded {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := d.Destroy(bounded(t), task.ID); err != nil {
		t.Error(err)
	}
}
