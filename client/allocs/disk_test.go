package allocs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
)

// An allocation that came before the servers knew of the full disk waits for room, says so once, and can be stopped.
func TestAllocationWaitsForTheDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for name, stopped := range map[string]bool{"there is room again": false, "it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "nr_inodes=2"); err != nil {
				t.Skipf("no tmpfs here: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				b.conf.Dirs = dirs.New(disk)
				b.alloc.Job.TaskGroups[0].Tasks = []*api.Task{{Name: "t"}}
				a := b.make(t)
				wait := start(t.Context(), a)
				time.Sleep(time.Hour)
				status(t, a, api.AllocClientStatusPending)
				b.want(t, "event Waiting")
				if stopped {
					began := time.Now()
					a.Stop()
					if err := wait(); err != nil || time.Since(began) != 0 {
						t.Fatalf("%v after %s", err, time.Since(began))
					}
					status(t, a, api.AllocClientStatusComplete)
					b.want(t, "event Waiting", "abandon", "unmount")
					return
				}
				if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "nr_inodes=1000"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				status(t, a, api.AllocClientStatusRunning)
				a.Stop()
				if err := wait(); err != nil {
					t.Fatal(err)
				}
				b.want(t, "event Waiting", "mount", "run /vol/a1", "killed", "unmount")
			})
		})
	}
}

// A disk that does not answer holds up no stop, and is told of. The files are not removed while they may be made still.
func TestHungDiskHoldsUpNoStop(t *testing.T) {
	disk, goOn := hung(t)
	b := setup(t)
	b.conf.Dirs = dirs.New(disk)
	b.alloc.Job.TaskGroups[0].Tasks = []*api.Task{{Name: "t"}}
	a := b.make(t)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	defer func() {
		goOn()
		<-ended
		_ = a.Destroy(t.Context()) // it waits for what was begun
	}()
	for begun := time.Now(); !slices.Contains(b.all(), "event Waiting"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("nobody is told")
		}
	}
	a.Stop()
	select {
	case err := <-ended:
		ended <- err
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the disk")
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := a.Destroy(soon); !errors.Is(err, fault.Timeout) {
		t.Errorf("destroyed while its directories are made: %v", err)
	}
}

// hung mounts a FUSE file system whose server never answers; goOn lets what waits for it fail.
func hung(t *testing.T) (path string, goOn func()) {
	t.Helper()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	base, err := os.MkdirTemp("", "hung")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(base) })
	path = filepath.Join(base, "at")
	if err := os.Mkdir(path, 0o500); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev.Fd())
	if err := unix.Mount("hung", path, "fuse", 0, options); err != nil {
		_ = dev.Close()
		t.Skipf("cannot mount fuse here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH); _ = os.Remove(path) })
	return path, func() { _ = unix.Unmount(path, unix.MNT_FORCE); _ = dev.Close() }
}

// The collector and a user may remove an allocation at the same time.
func TestAllocationIsRemovedByTwo(t *testing.T) {
	t.Parallel()
	for range 20 {
		b := setup(t)
		b.conf.Dirs = dirs.New(t.TempDir()).InMemory()
		a := b.make(t)
		wait := start(t.Context(), a)
		a.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Dir().Build(), a.Dir().BuildTask("t"), a.Dir().MountSecrets("t", 0)); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if err := a.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
}
