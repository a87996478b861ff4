package rawexec_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// onOwnDisk is a driver with its state on a small file system.
func onOwnDisk(t *testing.T) (dir string, d *rawexec.Driver) {
	t.Helper()
	dir = t.TempDir()
	d = newDriver(t, dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, d
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if f.Close(); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// waits starts a task that ends with code 3 when the file that it returns is written.
func waits(t *testing.T, d *rawexec.Driver) (task *driver.Task, h *driver.Handle, end string) {
	t.Helper()
	end = filepath.Join(t.TempDir(), "end")
	task = suite.NewTask(t, sh(`while ! [ -e "$END" ]; do sleep 0.02; done; exit 3`))
	task.Env["END"] = end
	h, err := d.Start(suite.Context(t), task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Destroy(bounded(t), task.ID) })
	return task, h, end
}

// TestExitIsKnownThoughTheDiskWasFull: the task ended while no agent was there, and the disk took nothing more.
func TestExitIsKnownThoughTheDiskWasFull(t *testing.T) {
	t.Parallel()
	dir, d := onOwnDisk(t)
	task, h, end := waits(t, d)
	supervisor := pidOf(t, d, task.ID, "supervisor_pid")
	fill(t, dir+"/fill")
	_ = d.Close()
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := again.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 || x.Err != "" {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := again.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}

// TestExitThatCannotBeRecordedIsNotForgotten: it is sent to every agent that connects until it is on record, or until one
// has taken its traces away.
func TestExitThatCannotBeRecordedIsNotForgotten(t *testing.T) {
	t.Parallel()
	for name, writable := range map[string]bool{"writable again": true, "taken away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, d := onOwnDisk(t)
			task, h, end := waits(t, d)
			supervisor := pidOf(t, d, task.ID, "supervisor_pid")
			_ = d.Close()
			lock, err := filepath.Glob(dir + "/*/*.lock")
			if err != nil || len(lock) != 1 {
				t.Fatal(lock, err)
			}
			// A directory in the place of the record keeps it from getting there.
			record := lock[0][:len(lock[0])-len(".lock")] + ".exit"
			if err := os.MkdirAll(record+"/x", 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var again *rawexec.Driver
			for range 2 {
				again = newDriver(t, dir)
				if err := again.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
				if x, err := again.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 || x.Err != "" {
					t.Fatalf("exit %+v %v", x, err)
				}
			}
			if hasEnded(supervisor) {
				t.Fatal("the supervising process has ended without a record")
			}
			if err := os.RemoveAll(record); err != nil {
				t.Fatal(err)
			}
			if writable {
				suite.Eventually(t, "the exit is on record", func() bool { return hasEnded(supervisor) })
				again = newDriver(t, dir)
				if err := again.Recover(suite.Context(t), h); err != nil {
					t.Fatal(err)
				}
			}
			if err := again.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
			suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
			if left, _ := filepath.Glob(dir + "/*/*"); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

// TestStuckSupervisingProcessOfAnEarlierAgent: it is taken up though it does not answer, the task can be ended, and the
// exit counts when it answers again.
func TestStuckSupervisingProcessOfAnEarlierAgent(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"answers again": true, "never again": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			task, h, end := waits(t, d)
			supervisor := pidOf(t, d, task.ID, "supervisor_pid")
			_ = d.Close()
			if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(supervisor, syscall.SIGKILL) })
			again := newDriver(t, dir)
			if err := again.Recover(suite.Context(t), h); err != nil {
				t.Fatal(err)
			}
			want := driver.Exit{Code: 3}
			if answers {
				if err := errors.Join(os.WriteFile(end, nil, 0o600), syscall.Kill(supervisor, syscall.SIGCONT)); err != nil {
					t.Fatal(err)
				}
			} else {
				began := time.Now()
				if err := again.Stop(suite.Context(t), task.ID, "SIGURG", 200*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("the end took %s", took)
				}
				want.Code = 128 + int(syscall.SIGKILL)
			}
			if x, err := again.Wait(suite.Context(t), task.ID); err != nil || x.Code != want.Code {
				t.Errorf("exit %+v %v", x, err)
			}
			if err := again.Destroy(suite.Context(t), task.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// The supervising process was killed between the record of the exit and its name.
func TestExitWithoutANameIsKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDriver(t, dir)
	task, h, end := waits(t, d)
	supervisor := pidOf(t, d, task.ID, "supervisor_pid")
	_ = d.Close()
	lock, err := filepath.Glob(dir + "/*/*.lock")
	if err != nil || len(lock) != 1 {
		t.Fatal(lock, err)
	}
	record := lock[0][:len(lock[0])-len(".lock")] + ".exit"
	if err := os.MkdirAll(record+"/x", 0o700); err != nil { // in the way of the name
		t.Fatal(err)
	}
	empty := size(lock[0])
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the exit is written", func() bool { return size(lock[0]) < empty })
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the supervising process has ended", func() bool { return hasEnded(supervisor) })
	if err := os.RemoveAll(record); err != nil {
		t.Fatal(err)
	}
	again := newDriver(t, dir)
	if err := again.Recover(suite.Context(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := again.Wait(suite.Context(t), task.ID); err != nil || x.Code != 3 || x.Err != "" {
		t.Errorf("exit %+v %v", x, err)
	}
	if err := again.Destroy(suite.Context(t), task.ID); err != nil {
		t.Error(err)
	}
}
