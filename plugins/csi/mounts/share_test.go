package mounts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A stranger makes private what was shared, as `mount --make-rprivate /` does, or unmounts it with all that is in it.
func TestShareIsTakenUpAfterAStrangerEndedIt(t *testing.T) {
	for name, end := range map[string]func(dir string) error{
		"made private": func(dir string) error { return unix.Mount("", dir, "", unix.MS_PRIVATE, "") },
		"unmounted":    func(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) },
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := pair(t)
			for range 2 {
				if err := mounts.Share(dir); err != nil {
					t.Fatal(err)
				}
				if e, err := mounts.Of(filepath.Join(dir, "x")); err != nil || !e.Shared {
					t.Errorf("entry %+v: %v", e, err)
				}
				if err := end(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What is mounted inside already stays where everybody sees it, and can unmount it.
func TestShareHidesNoMounts(t *testing.T) {
	source, dir := pair(t)
	inside := filepath.Join(dir, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	within, err := mounts.Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	if within.Shared {
		t.Skip("the directories of tests are shared here")
	}
	if err := mounts.Bind(source, inside, mounts.Flags{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(inside, unix.MNT_DETACH) })
	if err := mounts.Share(dir); err == nil || !strings.Contains(err.Error(), "mount --make-shared "+within.Point) {
		t.Errorf("it was mounted over what is mounted inside, or nobody is told how to go on: %v", err)
	}
	if err := mounts.Unmount(inside); err != nil {
		t.Fatal(err)
	}
	if left, err := mounts.Below(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := mounts.Share(dir); err != nil {
		t.Error(err)
	}
}
