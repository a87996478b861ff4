package mounts_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/disktest"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// rootOf asks the directory that is mounted at a path.
func rootOf(t *testing.T, path string) error {
	t.Helper()
	at, err := mounts.System{}.At(path)
	if err != nil || at == nil {
		t.Fatalf("at %s is %+v, %v", path, at, err)
	}
	return mounts.System{}.Root(at)
}

// A file system that was shut down is there as long as somebody has files of it: whoever mounts its device gets it again.
// Statfs answers as ever.
func TestRootTellsOfAFileSystemThatWasShutDown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "at")
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			dev := disktest.Loop(t, kind)
			mount := func() {
				t.Helper()
				if err := unix.Mount(dev, path, kind, 0, ""); err != nil {
					t.Skipf("mount %s: %v", kind, err)
				}
				t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
			}
			mount()
			if err := rootOf(t, path); err != nil {
				t.Errorf("one that lives: %v", err)
			}
			file, err := os.Create(filepath.Join(path, "file"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			at, err := mounts.System{}.At(path)
			if err == nil {
				err = mounts.System{}.ShutDown(at)
			}
			if err == nil {
				err = mounts.System{}.Detach(at)
			}
			if err != nil {
				t.Fatal(err)
			}
			mount()
			if err := (mounts.System{}).Statfs(path); err != nil {
				t.Logf("statfs: %v", err)
			}
			if err := rootOf(t, path); !errors.Is(err, unix.EIO) {
				t.Errorf("one that was shut down: %v", err)
			}
			_ = file.Close()
			if err := (mounts.System{}).Unmount(path); err != nil {
				t.Fatal(err)
			}
			mount()
			if err := rootOf(t, path); err != nil {
				t.Errorf("one that was mounted anew: %v", err)
			}
		})
	}
}

// Not every root can be asked, which is no failure of the mount.
func TestRootOfOtherMountsIsNoFailure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	file, readOnly := filepath.Join(dir, "file"), filepath.Join(dir, "dir")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(readOnly, 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, flags := range map[string]mounts.Flags{file: {}, readOnly: {ReadOnly: true}} {
		if err := mounts.Bind(path, path, flags); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		if err := rootOf(t, path); errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
