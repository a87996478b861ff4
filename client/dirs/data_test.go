package dirs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/client/dirs"
)

func pair(t *testing.T) (from, to dirs.Alloc) {
	t.Helper()
	tree := dirs.New(filepath.Join(t.TempDir(), "allocs"))
	from, err := tree.Alloc("a1")
	to, err2 := tree.Alloc("a2")
	if err := errors.Join(err, err2, from.Build(), from.BuildTask("web"), from.BuildTask("old"), to.Build()); err != nil {
		t.Fatal(err)
	}
	return from, to
}

func content(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); string(got) != want || err != nil && want != "" {
		t.Errorf("%s: %q, %v, want %q", path, got, err, want)
	}
}

func TestDataMovesToTheNextAllocationOnce(t *testing.T) {
	t.Parallel()
	from, to := pair(t)
	write(t, from.Shared()+"/data/shared", "s")
	write(t, from.Task("web").Local()+"/own", "w")
	write(t, from.Task("old").Local()+"/own", "o")
	write(t, from.Shared()+"/tmp/gone", "x")
	write(t, from.Logs()+"/web.stdout.0", "x")
	for range 2 { // a move that was interrupted is repeated
		if err := to.TakeData(from, []string{"web", "new"}); err != nil {
			t.Fatal(err)
		}
	}
	content(t, to.Shared()+"/data/shared", "s")
	content(t, to.Task("web").Local()+"/own", "w")
	content(t, from.Task("old").Local()+"/own", "o")
	for _, path := range []string{to.Shared() + "/tmp/gone", to.Logs() + "/web.stdout.0", to.Task("old").Dir(), from.Shared() + "/data"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s exists", path)
		}
	}
	info, err := os.Stat(to.Task("new").Local())
	if err != nil || !info.IsDir() {
		t.Errorf("local of a new task: %v", err)
	}
}

func TestDataThatIsThereIsKept(t *testing.T) {
	t.Parallel()
	from, to := pair(t)
	if err := to.BuildTask("web"); err != nil {
		t.Fatal(err)
	}
	write(t, from.Task("web").Local()+"/old", "o")
	write(t, to.Task("web").Local()+"/new", "n")
	if err := to.TakeData(from, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	content(t, to.Task("web").Local()+"/new", "n")
	content(t, to.Task("web").Local()+"/old", "")
	content(t, from.Task("web").Local()+"/old", "o")
}

// A task may have put links where its directories were: what they point to is neither moved nor opened.
func TestLinksAreNotMovedAsData(t *testing.T) {
	t.Parallel()
	from, to := pair(t)
	foreign := t.TempDir()
	write(t, foreign+"/secret", "x")
	for _, path := range []string{from.Shared() + "/data", from.Task("web").Local()} {
		if err := errors.Join(os.Remove(path), os.Symlink(foreign, path)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.RemoveAll(from.Task("old").Dir()), os.Symlink(foreign, from.Task("old").Dir())); err != nil {
		t.Fatal(err)
	}
	if err := to.TakeData(from, []string{"web", "old"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{to.Shared() + "/data", to.Task("web").Local(), to.Task("old").Local()} {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	content(t, foreign+"/secret", "x")
}
