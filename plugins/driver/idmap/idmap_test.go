package idmap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/fileowner"
	"github.com/open-nomad/open-nomad/plugins/driver/idmap"
)

// mounted mounts a directory so that root's files belong to another owner.
func mounted(t *testing.T, source string, to fileowner.Owner) (string, error) {
	t.Helper()
	ns, err := idmap.Swap(fileowner.Owner{}, to)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	dir, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	target := t.TempDir()
	err = idmap.Bind(int(dir.Fd()), target, fmt.Sprintf("/proc/self/fd/%d", ns.Fd()))
	if err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(target, 0); err != nil {
				t.Error(err)
			}
		})
	}
	return target, err
}

func ownerOf(t *testing.T, path string) fileowner.Owner {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fileowner.Owner{UID: st.Uid, GID: st.Gid}
}

func TestOwnersAreSwappedInTheMountOnly(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	source := t.TempDir()
	web, other := fileowner.Owner{UID: 1000, GID: 2000}, fileowner.Owner{UID: 5, GID: 6}
	for name, o := range map[string]fileowner.Owner{"root": {}, "web": web, "other": other} {
		path := filepath.Join(source, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, int(o.UID), int(o.GID)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := mounted(t, source, web)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fileowner.Owner{"root": web, "web": {}, "other": other} {
		if has := ownerOf(t, filepath.Join(at, name)); has != want {
			t.Errorf("%s belongs to %v in the mount, want %v", name, has, want)
		}
	}
	made := filepath.Join(at, "made")
	if err := os.WriteFile(made, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(made, int(web.UID), int(web.GID)); err != nil {
		t.Fatal(err)
	}
	if has := ownerOf(t, filepath.Join(source, "made")); has != (fileowner.Owner{}) {
		t.Errorf("what web made in the mount belongs to %v on the file system", has)
	}
}

func TestFileSystemWithoutMappingIsRefused(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := mounted(t, "/proc", fileowner.Owner{UID: 1000, GID: 1000}); err == nil || err.Error() != "its file system cannot be mounted with other owners: invalid argument" {
		t.Errorf("error %v", err)
	}
}
