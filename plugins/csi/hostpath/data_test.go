package hostpath

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A task that has the volume may put a link in the place of a file while it is copied: files of the host, which the
// task must not read, would be in the copy.
func TestCopyFollowsNoLinkThatAppearsMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, volume := filepath.Join(dir, "secret"), filepath.Join(dir, "volume")
	file, spare := filepath.Join(volume, "f"), filepath.Join(volume, "g")
	for path, text := range map[string]string{secret: "hunter2", file: "mine"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var task sync.WaitGroup
	var over atomic.Bool
	task.Go(func() {
		for !over.Load() {
			_ = os.Symlink(secret, spare)
			_ = os.Rename(spare, file)
			_ = os.WriteFile(spare, []byte("mine"), 0o644)
			_ = os.Rename(spare, file)
		}
	})
	defer task.Wait()
	defer over.Store(true)
	for range 300 {
		to := filepath.Join(dir, "copy")
		_ = copyTree(volume, to) // what vanishes meanwhile may fail it
		for _, name := range []string{"f", "g"} {
			path := filepath.Join(to, name)
			if at, err := os.Lstat(path); err != nil || !at.Mode().IsRegular() {
				continue
			}
			if body, err := os.ReadFile(path); err == nil && strings.Contains(string(body), "hunter2") {
				t.Fatal("the copy has what the host keeps secret")
			}
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// Files that a task removes while its volume is copied are passed over: one that makes and removes files all the time could
// not be copied at all.
func TestCopyPassesOverWhatVanishes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	if err := os.MkdirAll(filepath.Join(volume, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "z"), []byte("stays"), 0o644); err != nil {
		t.Fatal(err)
	}
	var task sync.WaitGroup
	var over atomic.Bool
	task.Go(func() {
		for !over.Load() {
			for _, name := range []string{"f", "d/f", "e/f"} {
				path := filepath.Join(volume, name)
				_ = os.MkdirAll(filepath.Dir(path), 0o755)
				_ = os.WriteFile(path, []byte("passes"), 0o644)
				_ = os.Remove(path)
			}
			_ = os.Symlink("z", filepath.Join(volume, "l"))
			_ = os.Remove(filepath.Join(volume, "l"))
			_ = os.Remove(filepath.Join(volume, "e"))
		}
	})
	task.Go(func() {
		made, path := filepath.Join(volume, "made"), filepath.Join(volume, "made", "f")
		for !over.Load() {
			_ = os.Mkdir(made, 0o755)
			_ = os.WriteFile(path, []byte("passes"), 0o644)
			_ = os.Remove(path)
			_ = os.Remove(made)
			_ = os.WriteFile(made, []byte("no directory"), 0o644)
			_ = os.Remove(made)
		}
	})
	defer task.Wait()
	defer over.Store(true)
	for range 1000 {
		to := filepath.Join(dir, "copy")
		if err := copyTree(volume, to); err != nil {
			t.Fatal(err)
		}
		if body, err := os.ReadFile(filepath.Join(to, "z")); err != nil || string(body) != "stays" {
			t.Fatalf("%q, %v", body, err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}

// A record outlives a loss of power: so must the data that it tells of.
func TestCopyIsWrittenBackBeforeItsRecord(t *testing.T) {
	t.Parallel()
	b, err := openBooks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{books: b}
	source := filepath.Join(t.TempDir(), "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "f"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.makeData("vol-copy", false, 1<<20, source); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(b.data("vol-copy"), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var pages unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: 1 << 20}, &pages, 0); err != nil {
		t.Skipf("the kernel does not tell what is written back: %v", err)
	}
	if pages.Dirty+pages.Writeback > 0 {
		t.Errorf("%d pages of the copy are not written back", pages.Dirty+pages.Writeback)
	}
}
