package dirs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
)

func built(t *testing.T) dirs.Alloc {
	t.Helper()
	a, err := dirs.New(filepath.Join(t.TempDir(), "allocs")).Alloc("a1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // building again keeps what is there
		if err := errors.Join(a.Build(), a.BuildTask("web")); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTree(t *testing.T) {
	a := built(t)
	for path, want := range map[string]fs.FileMode{
		a.Dir(): 0o755, a.Shared(): 0o777 | fs.ModeSticky, a.Shared() + "/data": 0o777, a.Logs(): 0o777 | fs.ModeSticky, a.Shared() + "/tmp": 0o777 | fs.ModeSticky,
		a.Task("web").Dir(): 0o777, a.Task("web").Local(): 0o777, a.Task("web").Secrets(): 0o777, a.Task("web").Dir() + "/tmp": 0o777 | fs.ModeSticky,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want|fs.ModeDir {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func TestNamesThatAreNoDirectoryAreRefused(t *testing.T) {
	tree := dirs.New(t.TempDir())
	for _, id := range []string{"", ".", "..", "a/b", "a\x00"} {
		if _, err := tree.Alloc(id); !errors.Is(err, fault.Invalid) {
			t.Errorf("alloc %q: %v", id, err)
		}
	}
	for _, task := range []string{"", "..", "alloc", "x/y"} {
		if err := built(t).BuildTask(task); !errors.Is(err, fault.Invalid) {
			t.Errorf("task %q: %v", task, err)
		}
	}
}

func TestRemove(t *testing.T) {
	a := built(t)
	outside := filepath.Join(t.TempDir(), "kept")
	write(t, outside, "data")
	write(t, a.Task("web").Local()+"/file", "x")
	if err := errors.Join(os.Symlink(filepath.Dir(outside), a.Task("web").Local()+"/link"), os.MkdirAll(a.Shared()+"/data/x/y", 0o500)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(a.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("removal followed a link: %v", err)
	}
}

func TestRemoveStopsAtMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	a := built(t)
	source, target := t.TempDir(), a.Task("web").Local()+"/volume"
	write(t, source+"/data", "precious")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	if err := a.Remove(); !errors.Is(err, fault.Conflict) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(source + "/data"); err != nil {
		t.Fatalf("data behind the mount is gone: %v", err)
	}
	if err := unix.Unmount(target, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestFilesForUsers(t *testing.T) {
	a := built(t)
	write(t, a.Shared()+"/data/hello.txt", "hello world")
	list, err := a.List("/")
	if err != nil || len(list) != 2 || list[0].Name != "alloc" || !list[0].IsDir || list[1].Name != "web" {
		t.Fatalf("list: %v %v", list, err)
	}
	info, err := a.Stat("alloc/data/hello.txt")
	if err != nil || info.Size != 11 || info.FileMode != "-rw-------" || info.ContentType != "text/plain; charset=utf-8" {
		t.Fatalf("stat: %+v %v", info, err)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
		eof           bool
	}{{0, 0, "hello world", true}, {6, 3, "wor", false}, {6, 99, "world", true}, {50, 9, "", true}} {
		if b, eof, err := a.Read("/alloc/data/hello.txt", c.offset, c.limit); err != nil || string(b) != c.want || eof != c.eof {
			t.Errorf("read %d+%d: %q %v %v", c.offset, c.limit, b, eof, err)
		}
	}
}

func TestReadingStaysInsideAndAwayFromSecrets(t *testing.T) {
	a := built(t)
	local, secrets := a.Task("web").Local(), a.Task("web").Secrets()
	write(t, secrets+"/token", "secret")
	if err := errors.Join(os.Symlink("/etc", local+"/etc"), os.Symlink("../secrets", local+"/mine"), os.Mkdir(local+"/secrets", 0o755),
		unix.Mkfifo(local+"/fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	write(t, local+"/secrets/not", "open")
	for path, class := range map[string]fault.Class{
		"../a1/alloc": fault.Invalid, "web/local/../../..": fault.Invalid, "web/local/etc/passwd": fault.Invalid, "a\x00b": fault.Invalid,
		"web/secrets/token": fault.Denied, "web/secrets": fault.Denied, "/web//secrets/token": fault.Denied, "web/local/mine/token": fault.Denied,
		"web/none": fault.NotFound, "web/local": fault.Invalid, "web/local/fifo": fault.Invalid,
	} {
		if b, _, err := a.Read(path, 0, 0); !errors.Is(err, class) {
			t.Errorf("%s: %q %v, want %v", path, b, err, class)
		}
	}
	if b, _, err := a.Read("web/local/secrets/not", 0, 0); err != nil || string(b) != "open" {
		t.Errorf("a folder that is only called secrets: %q %v", b, err)
	}
	if _, _, err := a.Read("alloc", -1, 0); !errors.Is(err, fault.Invalid) {
		t.Errorf("negative offset: %v", err)
	}
	if _, err := a.List("web/local/fifo"); !errors.Is(err, fault.Invalid) {
		t.Errorf("list of a file: %v", err)
	}
}
