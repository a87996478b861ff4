package cgroup_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// Directories stand for cgroups here: the files of real ones do not keep them from being removed.
func TestTreeIsListedFromOutsideAndRemovedFromInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	inner := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, want := cgroup.Tree(dir), []string{dir, filepath.Dir(inner), inner}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := cgroup.Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
	if err := cgroup.Remove(dir); err != nil {
		t.Errorf("what is not there: %v", err)
	}
}

func TestProcessesOfTheInnerOnesCount(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	for at, text := range map[string]string{dir: "12\n0\n", inner: "34\nx\n"} { // 0 is a process of another namespace
		if err := os.WriteFile(filepath.Join(at, "cgroup.procs"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := cgroup.Processes(dir); !slices.Equal(got, []int{12}) {
		t.Errorf("%v", got)
	}
	if got := cgroup.ProcessesBelow(dir); !slices.Equal(got, []int{12, 34}) {
		t.Errorf("%v", got)
	}
	if got := append(cgroup.Processes(""), cgroup.ProcessesBelow(filepath.Join(dir, "none"))...); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
