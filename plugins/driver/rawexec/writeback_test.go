package rawexec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/disktest"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// disk is a file system of its own on a loop device, staged and published as a CSI plugin does.
type disk struct {
	dev, kind, staging, target string
	// before counts what was written to the loop device in its earlier lives.
	before int64
}

func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	dir := t.TempDir()
	d := &disk{dev: disktest.Loop(t, kind), kind: kind, staging: filepath.Join(dir, "staging"), target: filepath.Join(dir, "target")}
	t.Cleanup(func() {
		_ = unix.Unmount(d.target, unix.MNT_DETACH)
		_ = unix.Unmount(d.staging, unix.MNT_DETACH)
	})
	for _, p := range []string{d.staging, d.target} {
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.before = d.written(t)
	if err := unix.Mount(d.dev, d.staging, kind, 0, ""); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	if err := unix.Mount(d.staging, d.target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	return d
}

// task runs a script with the disk at v under a lease.
func (d *disk) task(t *testing.T, script string, term api.LeaseTerm) *driver.Task {
	task := suite.NewTask(t, sh(script))
	task.Mounts = []driver.Mount{{Source: d.target, Destination: "v"}}
	task.Lease = &driver.Lease{Term: term, From: bootTime(t), Unmount: []string{d.target, d.staging}}
	return task
}

// written is how many bytes have reached the device.
func (d *disk) written(t *testing.T) int64 {
	t.Helper()
	n, err := disktest.Written(d.dev)
	if err != nil {
		t.Fatal(err)
	}
	return n - d.before
}

// again mounts the disk as the next node does, and reads a file of it. On this node the device has the file system that was
// shut down as long as anything has it open or mounted, in other mount namespaces too.
func (d *disk) again(t *testing.T, name string) (string, error) {
	t.Helper()
	options := map[string]string{"xfs": "nouuid"}
	dev, at := disktest.Elsewhere(t, d.dev), t.TempDir()
	if err := unix.Mount(dev, at, d.kind, 0, options[d.kind]); err != nil {
		t.Fatalf("the next node cannot mount it: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	b, err := os.ReadFile(filepath.Join(at, name))
	return string(b), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// givenAway is for how long after the last renewal the servers give a volume to nobody else: its lease, with what a clock may
// be wrong, and what a busy host may be late.
func givenAway(l api.LeaseTerm) time.Duration { return l.Term + l.Term/40 + 2*time.Second }

// A node reaches its storage and no server. What its task wrote is more than can be written back in time.
func TestNothingReachesTheDeviceAfterTheLease(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind)
			r := newDriver(t, t.TempDir())
			term, size := api.LeaseTerm{Term: 6 * time.Second, WriteBack: 700 * time.Millisecond}, disktest.KeptDirty(t)
			task := d.task(t, fmt.Sprintf("echo old >v/old; sync -f v/old; dd if=/dev/zero of=v/big bs=1M count=%d 2>/dev/null; echo done >v/flag; sleep 1000", size), term)
			if _, err := r.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Destroy(bounded(t), task.ID) })
			var from int64
			suite.Eventually(t, "the page cache is dirty", func() bool { // until then the servers answer
				from = bootTime(t)
				if err := r.Renew(task.ID, from); err != nil {
					t.Fatal(err)
				}
				return exists(filepath.Join(d.target, "flag"))
			})
			at := func(after time.Duration) func() bool {
				return func() bool { return bootTime(t) >= from+int64(after) }
			}
			early := d.written(t)
			if early > size<<20/2 {
				t.Skipf("this host does not keep %d MiB dirty: %d MiB were written", size, early>>20)
			}
			suite.Eventually(t, "the end of the lease", at(term.Term))
			end := d.written(t)
			suite.Eventually(t, "the servers to give the volume away", at(givenAway(term)))
			if isMounted(t, d.target) || isMounted(t, d.staging) {
				t.Error("it is mounted when another node may have it")
			}
			given := d.written(t)
			suite.Eventually(t, "a while after", at(term.Term+term.Term/2))
			t.Logf("MiB that reached the device: %d before the end of the task, %d until the end of the lease, %d after it", early>>20, end>>20, (given-end)>>20)
			// What the device had been given before is on its way; nothing follows.
			if given-end > 200<<20 {
				t.Errorf("%d MiB reached the device after the lease", (given-end)>>20)
			}
			if later := d.written(t); later != given {
				t.Errorf("%d KiB reached the device after the servers had given it away", (later-given)>>10)
			}
			if text, err := d.again(t, "old"); err != nil || text != "old\n" {
				t.Errorf("what was written back long ago is %q, %v", text, err)
			}
		})
	}
}

func TestWhatCanBeWrittenBackInTimeIs(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			d := newDisk(t, kind)
			r := newDriver(t, t.TempDir())
			term := api.LeaseTerm{Term: 4 * time.Second, WriteBack: 2 * time.Second}
			task := d.task(t, "echo last >v/flag; while :; do date >>v/new; sleep 0.01; done", term)
			if _, err := r.Start(suite.Context(t), task); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Destroy(bounded(t), task.ID) })
			suite.Eventually(t, "it is unmounted", func() bool { return !isMounted(t, d.target) && !isMounted(t, d.staging) })
			if late := bootTime(t) - task.Lease.From - int64(givenAway(term)); late > 0 {
				t.Errorf("unmounted %s after it was given away", time.Duration(late))
			}
			if text, err := d.again(t, "flag"); err != nil || text != "last\n" {
				t.Errorf("the last write is %q, %v", text, err)
			}
		})
	}
}

// Who shares a directory of a file system with others must not shut it down.
func TestFileSystemOfOthersIsNotShutDown(t *testing.T) {
	d := newDisk(t, "ext4")
	other := t.TempDir()
	if err := unix.Mount(d.staging, other, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
	r := newDriver(t, t.TempDir())
	task := d.task(t, "dd if=/dev/zero of=v/big bs=1M count=1000 2>/dev/null; sleep 1000", api.LeaseTerm{Term: 2 * time.Second, WriteBack: time.Millisecond})
	if _, err := r.Start(suite.Context(t), task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Destroy(bounded(t), task.ID) })
	suite.Eventually(t, "it is unmounted", func() bool { return !isMounted(t, d.target) && !isMounted(t, d.staging) })
	if err := os.WriteFile(filepath.Join(other, "mine"), []byte("x"), 0o600); err != nil {
		t.Errorf("the others cannot write any more: %v", err)
	}
}
