package mounts_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

func TestBareTreeHasNothingThatIsMounted(t *testing.T) {
	root(t)
	dir, foreign := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "theirs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bind := func(name string) {
		at := filepath.Join(dir, name)
		if err := mounts.Bind(foreign, at, mounts.Flags{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	for _, name := range []string{"before", "after"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "covered"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bind("before")
	tree, err := mounts.OpenUnmountedTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	bind("after")
	for _, name := range []string{"before", "after"} {
		if _, err := tree.Stat(name + "/covered"); err != nil {
			t.Error(err)
		}
		if _, err := tree.Stat(name + "/theirs"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what is mounted is seen: %v", err)
		}
		if err := tree.RemoveAll(name); err == nil {
			t.Errorf("%s is removed although something is mounted at it", name)
		}
		if _, err := os.Stat(filepath.Join(foreign, "theirs")); err != nil {
			t.Fatal(err)
		}
		if _, err := mounts.OpenUnmountedTree(filepath.Join(dir, name)); !errors.Is(err, mounts.ErrMounted) {
			t.Errorf("opened what is mounted: %v", err)
		}
	}
}

// One look at many paths tells what a look at each does.
func TestTopsAreWhatIsAtEachPath(t *testing.T) {
	root(t)
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"one", "two", "none"} {
		at := filepath.Join(dir, name)
		paths = append(paths, at)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for range map[string]int{"one": 1, "two": 2}[name] {
			if err := mounts.Bind(dir, at, mounts.Flags{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		}
	}
	top, all, err := mounts.Tops(paths)
	if err != nil || len(top) != 2 {
		t.Fatalf("%d mounts: %v", len(top), err)
	}
	for _, p := range paths {
		want, err := mounts.At(p)
		switch {
		case err != nil:
			t.Error(err)
		case want == nil && top[p] != nil, want != nil && (top[p] == nil || *top[p] != *want):
			t.Errorf("at %s is %+v, not %+v", p, top[p], want)
		case want != nil && all.AtExactly(p) == nil:
			t.Errorf("%s is not in the table", p)
		}
	}
}
