package dirquota_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirquota"
	"github.com/open-nomad/open-nomad/internal/disktest"
)

const mb = 1 << 20

// write writes so many MB to a file and returns how many bytes it has then. It lacks the capability to exceed the limits of ext4.
func write(t *testing.T, path string, n int) (int64, error) {
	t.Helper()
	runtime.LockOSThread() // capabilities are those of a thread
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	err := unix.Capget(&header, &caps[0])
	caps[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	if err := errors.Join(err, unix.Capset(&header, &caps[0])); err != nil {
		t.Fatal(err)
	}
	defer func() {
		caps[0].Effective = caps[0].Permitted
		if err := unix.Capset(&header, &caps[0]); err != nil {
			t.Fatal(err)
		}
		runtime.UnlockOSThread()
	}()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for range n {
		if _, err = f.Write(make([]byte, mb)); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	st, err2 := f.Stat()
	if err2 != nil {
		t.Fatal(err2)
	}
	return st.Size(), err
}

func exceeded(err error) bool { return errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) }

// fileSystems are directories of file systems that count: those that QUOTA_DIRS names, otherwise a btrfs of the test.
func fileSystems(t *testing.T) map[string]string {
	if list := os.Getenv("QUOTA_DIRS"); list != "" {
		dirs := map[string]string{}
		for dir := range strings.SplitSeq(list, ":") {
			dirs[filepath.Base(dir)] = dir
		}
		return dirs
	}
	return map[string]string{"btrfs": disktest.Btrfs(t)}
}

func TestDirectoriesAreLimited(t *testing.T) {
	for name, root := range fileSystems(t) {
		t.Run(name, func(t *testing.T) {
			kind, err := dirquota.Detect(root)
			if err != nil {
				t.Fatal(err)
			}
			one, other, plain := filepath.Join(root, "one"), filepath.Join(root, "other"), filepath.Join(root, "plain")
			for _, dir := range []string{one, other} {
				for range 2 { // what exists is kept
					if err := kind.Make(dir, 0o751); err != nil {
						t.Fatal(err)
					}
				}
				if err := dirquota.Set(dir, 20*mb); err != nil {
					t.Fatal(err)
				}
			}
			if st, err := os.Stat(one); err != nil || st.Mode().Perm() != 0o751 {
				t.Errorf("%v %v", st.Mode(), err)
			}
			if is, err := dirquota.Of(one); is != kind || err != nil {
				t.Errorf("%q %v", is, err)
			}
			if err := os.MkdirAll(filepath.Join(one, "a", "b"), 0o700); err != nil {
				t.Fatal(err)
			}
			n, err := write(t, filepath.Join(one, "a", "b", "f"), 30)
			if !exceeded(err) || n < 19*mb || n > 20*mb {
				t.Errorf("%d bytes fit: %v", n, err)
			}
			if u, err := dirquota.Read(one); err != nil || !u.Full() || u.Limit != 20*mb {
				t.Errorf("%+v %v", u, err)
			}
			if _, err := write(t, filepath.Join(other, "f"), 10); err != nil {
				t.Errorf("the other directory: %v", err)
			}
			if err := dirquota.Set(one, 40*mb); err != nil {
				t.Fatal(err)
			}
			if n, err := write(t, filepath.Join(one, "a", "b", "f"), 10); err != nil || n < 29*mb {
				t.Errorf("with a larger limit: %d %v", n, err)
			}
			if err := os.Mkdir(plain, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := dirquota.Set(plain, mb); !errors.Is(err, dirquota.ErrPlain) {
				t.Errorf("a plain directory: %v", err)
			}
			for _, dir := range []string{one, other} {
				removed, err := dirquota.Lift(dir)
				if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
					t.Fatal(err)
				}
				removed()
			}
			if _, err := dirquota.Lift(one); err != nil {
				t.Errorf("a directory that is removed: %v", err)
			}
		})
	}
}

// TestMovedDirectoryCounts: what is renamed into another project counts there; elsewhere the caller has to copy.
func TestMovedDirectoryCounts(t *testing.T) {
	for name, root := range fileSystems(t) {
		t.Run(name, func(t *testing.T) {
			kind, err := dirquota.Detect(root)
			if err != nil {
				t.Fatal(err)
			}
			from, to := filepath.Join(root, "from"), filepath.Join(root, "to")
			if err := errors.Join(kind.Make(from, 0o700), kind.Make(to, 0o700), os.MkdirAll(filepath.Join(from, "data", "sub"), 0o700),
				os.Symlink("/etc", filepath.Join(from, "data", "link"))); err != nil {
				t.Fatal(err)
			}
			if _, err := write(t, filepath.Join(from, "data", "sub", "f"), 10); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(from, "data"), filepath.Join(to, "data")); !errors.Is(err, unix.EXDEV) {
				t.Fatalf("rename: %v", err)
			}
			fd, err := unix.Open(from, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			err = dirquota.Adopt(fd, "data", to)
			if kind == dirquota.Btrfs {
				if !errors.Is(err, fault.Unimplemented) {
					t.Errorf("adopt: %v", err)
				}
				return
			}
			if err := errors.Join(err, os.Rename(filepath.Join(from, "data"), filepath.Join(to, "data"))); err != nil {
				t.Fatal(err)
			}
			before, err := dirquota.Read(from)
			after, err2 := dirquota.Read(to)
			if err := errors.Join(err, err2); err != nil || before.Used > mb || after.Used < 10*mb {
				t.Errorf("%+v %+v %v", before, after, err)
			}
		})
	}
}

// TestReasonsWithoutQuotas: the reason says what to do.
func TestReasonsWithoutQuotas(t *testing.T) {
	if kind, err := dirquota.Detect("/proc"); kind != dirquota.None || !errors.Is(err, fault.Unimplemented) {
		t.Errorf("%q %v", kind, err)
	}
	if _, err := dirquota.Detect("/nonexistent"); err == nil {
		t.Error("a directory that does not exist has quotas")
	}
}
