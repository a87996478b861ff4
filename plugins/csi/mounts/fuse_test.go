package mounts_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Requests of FUSE that the server below answers.
const (
	fuseGetattr = 3
	fuseStatfs  = 17
	fuseInit    = 26
)

// serveFuse mounts an empty file system of FUSE at the path and serves it until it is unmounted.
func serveFuse(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no fuse here: %v", err)
	}
	if err := unix.Mount("served", path, "fuse", 0, "fd="+strconv.Itoa(fd)+",rootmode=40000,user_id=0,group_id=0"); err != nil {
		unix.Close(fd)
		t.Skipf("cannot mount fuse here: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(fd)
		b := make([]byte, 1<<17)
		for {
			n, err := unix.Read(fd, b)
			if err == unix.EINTR || err == unix.ENOENT {
				continue
			}
			if err != nil || n < 40 {
				return
			}
			reply := make([]byte, 16, 128)
			switch binary.LittleEndian.Uint32(b[4:]) {
			case fuseInit:
				reply = append(reply, make([]byte, 64)...)
				binary.LittleEndian.PutUint32(reply[16:], 7)
				binary.LittleEndian.PutUint32(reply[20:], 31)
				binary.LittleEndian.PutUint32(reply[36:], 1<<16) // the largest write
			case fuseStatfs:
				reply = append(reply, make([]byte, 80)...)
			case fuseGetattr:
				reply = append(reply, make([]byte, 104)...)
				binary.LittleEndian.PutUint64(reply[32:], 1)                        // inode
				binary.LittleEndian.PutUint32(reply[16+16+60:], unix.S_IFDIR|0o755) // mode
			default:
				nosys := int32(unix.ENOSYS)
				binary.LittleEndian.PutUint32(reply[4:], uint32(-nosys))
			}
			binary.LittleEndian.PutUint32(reply, uint32(len(reply)))
			copy(reply[8:16], b[8:16])
			_, _ = unix.Write(fd, reply)
		}
	}()
	t.Cleanup(func() {
		_ = unix.Unmount(path, unix.MNT_DETACH)
		<-ended
	})
}

// A file system may be mounted for others too: one of its mounts is detached, the others answer.
func TestDetachLeavesOtherMountsOfTheFileSystemAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	a, b := t.TempDir(), t.TempDir()
	serveFuse(t, a)
	if err := (mounts.System{}).Statfs(a); err != nil {
		t.Fatal(err)
	}
	if err := mounts.Bind(a, b, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	seen, err := mounts.At(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := mounts.Detach(seen); err != nil {
		t.Error(err)
	}
	if on, err := mounts.IsPoint(b); on || err != nil {
		t.Errorf("it is still mounted: %v", err)
	}
	if err := (mounts.System{}).Statfs(a); err != nil {
		t.Errorf("the other mount answers %v", err)
	}
}

// What waits for a file system fails when it is aborted. The mount is there still, though it refuses everything, until it
// is taken away.
func TestAbortedFileSystemIsStillKnown(t *testing.T) {
	for name, take := range map[string]func(*mounts.Entry) error{"removed": mounts.Remove, "detached": mounts.Detach} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("mounting needs root")
			}
			path := t.TempDir()
			serveFuse(t, path)
			seen, err := mounts.At(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := mounts.Abort(seen); err != nil {
				t.Error(err)
			}
			if err := (mounts.System{}).Statfs(path); !errors.Is(err, unix.ENOTCONN) {
				t.Errorf("it answers %v", err)
			}
			if now, err := mounts.At(path); err != nil || now == nil || now.ID != seen.ID {
				t.Errorf("at the path is %+v: %v", now, err)
			}
			if err := take(seen); err != nil {
				t.Error(err)
			}
			if on, err := mounts.IsPoint(path); on || err != nil {
				t.Errorf("it is mounted: %v", err)
			}
		})
	}
}
