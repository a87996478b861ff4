package rawexec_test

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
	"github.com/open-nomad/open-nomad/plugins/driver/suite"
)

// logsThatHang mounts a file system of which files can be made, and that never answers to writes. written is closed when
// somebody has written.
func logsThatHang(t *testing.T) (at string, written chan struct{}, end func()) {
	t.Helper()
	const (
		lookup, forget, write, release, open, readdir, interrupt, create = 1, 2, 16, 18, 27, 28, 36, 35

		entryBytes, openBytes, attributesAt = 128, 16, 40
	)
	attributes := func(out []byte, ino uint64, mode uint32) {
		binary.LittleEndian.PutUint64(out, ino)
		binary.LittleEndian.PutUint32(out[60:], mode)
		binary.LittleEndian.PutUint32(out[64:], 1)
	}
	written = make(chan struct{})
	notified := false
	at, end = fuseServed(t, func(op uint32, node uint64) (out []byte, answer bool, no unix.Errno) {
		switch op {
		case forget, interrupt:
			return nil, false, 0
		case write:
			if !notified {
				notified = true
				close(written)
			}
			return nil, false, 0
		case lookup:
			return nil, true, unix.ENOENT
		case fuseAttributes:
			out = make([]byte, 16+88)
			if node == 1 {
				attributes(out[16:], 1, unix.S_IFDIR|0o755)
			} else {
				attributes(out[16:], node, unix.S_IFREG|0o644)
			}
			return out, true, 0
		case open:
			return make([]byte, openBytes), true, 0
		case create:
			out = make([]byte, entryBytes+openBytes)
			binary.LittleEndian.PutUint64(out, 2)
			attributes(out[attributesAt:], 2, unix.S_IFREG|0o644)
			return out, true, 0
		case readdir, release:
			return nil, true, 0
		}
		return nil, true, unix.ENOSYS
	})
	return at, written, end
}

// fuseServed mounts a file system that is answered so.
func fuseServed(t *testing.T, serve func(op uint32, node uint64) (out []byte, answer bool, no unix.Errno)) (at string, end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	at = t.TempDir()
	if err := unix.Mount("served", at, "fuse.served", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		unix.Close(fd)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		buf := make([]byte, 1<<17)
		for {
			n, err := unix.Read(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT):
				continue
			case err != nil:
				return
			}
			out, answer, no := []byte(nil), true, unix.Errno(0)
			if op := binary.LittleEndian.Uint32(buf[4:n]); op == fuseInit {
				out = make([]byte, 64)
				binary.LittleEndian.PutUint32(out, 7)
				binary.LittleEndian.PutUint32(out[4:], 31)
			} else {
				out, answer, no = serve(op, binary.LittleEndian.Uint64(buf[16:n]))
			}
			if answer {
				head := make([]byte, 16, 16+len(out))
				binary.LittleEndian.PutUint32(head, uint32(16+len(out)))
				binary.LittleEndian.PutUint32(head[4:], uint32(-int32(no)))
				copy(head[8:], buf[8:16])
				_, _ = unix.Write(fd, append(head, out...))
			}
		}
	}()
	end = endsOnce(t, at, fd, served)
	return at, end
}

// chatting is a task that has written to its logs, which hang, and goes on.
func chatting(t *testing.T, d *rawexec.Driver, script string, lease *driver.Lease) (task *driver.Task, h *driver.Handle, supervisor int) {
	t.Helper()
	at, written, _ := logsThatHang(t)
	task = suite.NewTask(t, sh(script))
	task.Logs.Dir, task.Lease = at, lease
	h, supervisor = begin(t, d, task)
	select {
	case <-written:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was written")
	}
	return task, h, supervisor
}

// A disk that hangs below the logs holds up neither a stop nor a kill, nor the report of an end.
func TestHungLogsDoNotHoldUpTheEndOfATask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		end    func(t *testing.T, d *rawexec.Driver, id string)
		code   int
	}{
		"it ends by itself": {"echo begun; exit 7", func(*testing.T, *rawexec.Driver, string) {}, 7},
		"it is stopped": {"trap 'exit 7' TERM; echo begun; sleep 1000 & wait", func(t *testing.T, d *rawexec.Driver, id string) {
			if err := d.Stop(bounded(t), id, "SIGTERM", time.Minute); err != nil {
				t.Errorf("stop: %v", err)
			}
		}, 7},
		"it is killed": {"trap '' TERM; echo begun; while :; do sleep 1; done", func(t *testing.T, d *rawexec.Driver, id string) {
			if err := d.Stop(bounded(t), id, "SIGTERM", time.Millisecond); err != nil {
				t.Errorf("stop: %v", err)
			}
		}, 137},
		"it writes on and is killed": {"yes", func(t *testing.T, d *rawexec.Driver, id string) {
			if err := d.Stop(bounded(t), id, "SIGKILL", 0); err != nil {
				t.Errorf("stop: %v", err)
			}
		}, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := newDriver(t, dir)
			task, h, _ := chatting(t, d, c.script, nil)
			c.end(t, d, task.ID)
			x, err := d.Wait(bounded(t), task.ID)
			if err != nil || x.Code != c.code || x.Err != "" {
				t.Errorf("exit %+v %v, want code %d", x, err, c.code)
			}
			_ = d.Close()
			again := newDriver(t, dir)
			if err := again.Recover(bounded(t), h); err != nil {
				t.Fatalf("its exit is on no record: %v", err)
			}
			if x, err := again.Wait(bounded(t), task.ID); err != nil || x.Code != c.code {
				t.Errorf("exit on record %+v %v", x, err)
			}
		})
	}
}

// Nor the renewals of a lease, nor its end.
func TestHungLogsDoNotHoldUpTheLease(t *testing.T) {
	t.Parallel()
	d := newDriver(t, t.TempDir())
	_, target := published(t)
	lease := &driver.Lease{Term: api.LeaseTerm{Term: 14 * time.Second, WriteBack: 4 * time.Second}, From: bootTime(t), Unmount: []string{target}}
	task, _, _ := chatting(t, d, "while :; do echo more; sleep 0.1; done", lease)
	main := pidOf(t, d, task.ID, "pid")
	first := *lease
	for bootTime(t) < first.From+int64(first.Term.Stop()) {
		lease.From = bootTime(t)
		if err := d.Renew(task.ID, lease.From); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if hasEnded(main) {
		t.Fatal("it ended though its lease was renewed")
	}
	if err := d.Close(); err != nil { // the agent has ended
		t.Fatal(err)
	}
	suite.Eventually(t, "the task has ended and its volume is unmounted", func() bool { return hasEnded(main) && !isMounted(t, target) })
	if now := bootTime(t); now > lease.From+int64(lease.Term.Term) {
		t.Errorf("after the lease, by %s", time.Duration(now-lease.From-int64(lease.Term.Term)))
	}
}

// A disk that hangs below the files of supervising processes does not hold up the report of an end, either.
func TestHungStateDoesNotHoldUpTheEndOfATask(t *testing.T) {
	t.Parallel()
	dir, freeze, thaw := freezing(t)
	d := newDriver(t, dir)
	_, target := published(t)
	task := leasedTask(t, target, "sleep 1000", api.LeaseTerm{Term: 14 * time.Second, WriteBack: 4 * time.Second})
	h, _ := begin(t, d, task)
	freeze()
	if err := d.Stop(bounded(t), task.ID, "SIGTERM", time.Minute); err != nil {
		t.Errorf("stop: %v", err)
	}
	if x, err := d.Wait(bounded(t), task.ID); err != nil || x.Signal != int(unix.SIGTERM) || x.Err != "" {
		t.Errorf("exit %+v %v", x, err)
	}
	_ = d.Close() // the agent has ended
	suite.Eventually(t, "the volume is unmounted", func() bool { return !isMounted(t, target) })
	thaw()
	again := newDriver(t, dir)
	if err := again.Recover(bounded(t), h); err != nil {
		t.Fatal(err)
	}
	if x, err := again.Wait(bounded(t), task.ID); err != nil || x.Signal != int(unix.SIGTERM) || x.Err != "" {
		t.Errorf("exit on record %+v %v", x, err)
	}
}

// freezing is a directory on a file system of its own, on which freeze lets all that writes wait until thaw.
func freezing(t *testing.T) (dir string, freeze, thaw func()) {
	t.Helper()
	const fiFreeze, fiThaw = 0xC0045877, 0xC0045878
	dir = t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	for _, c := range [][]string{{"truncate", "-s", "32M", image}, {"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no ext4 here: %v %s", err, out)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	thaw = func() { _ = unix.IoctlSetInt(fd, fiThaw, 0) }
	t.Cleanup(func() {
		thaw()
		_ = unix.Close(fd)
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return dir, func() {
		if err := unix.IoctlSetInt(fd, fiFreeze, 0); err != nil {
			t.Skipf("it cannot be frozen: %v", err)
		}
	}, thaw
}
