package durable_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/durable"
)

func TestFileIsReplacedWithItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"first", "second, which is longer", ""} {
		if err := durable.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		holds(t, path, text)
		if st, err := os.Stat(path); err != nil || st.Mode() != 0o640 {
			t.Fatalf("mode %v, %v", st.Mode(), err)
		}
	}
}

// A link is replaced and not followed: what it points to stays.
func TestLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	other, path := filepath.Join(dir, "other"), filepath.Join(dir, "f")
	if err := errors.Join(os.WriteFile(other, []byte("theirs"), 0o600), os.Symlink(other, path)); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "ours")
	holds(t, other, "theirs")
}

// Whatever fails, the file is as before and nothing is left beside it.
func TestFailedWriteLeavesTheFileAsItWas(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		path string
		fill func(io.Writer) error
		is   error
	}{
		"the content cannot be had": {"f", func(w io.Writer) error { _, _ = w.Write([]byte("half")); return broken }, broken},
		"a directory has the name":  {"d", func(io.Writer) error { return nil }, syscall.EEXIST},
		"no such directory":         {"none/f", func(io.Writer) error { return nil }, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600), os.MkdirAll(filepath.Join(dir, "d", "in"), 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := durable.Write(filepath.Join(dir, c.path), 0o600, c.fill); !errors.Is(err, c.is) {
				t.Fatalf("%v, want %v", err, c.is)
			}
			holds(t, filepath.Join(dir, "f"), "old")
			names(t, dir, "d", "f")
		})
	}
}

func TestFullDiskLeavesTheFileAsItWas(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("needs root:", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	path := filepath.Join(dir, "f")
	if err := durable.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	holds(t, path, "old")
	names(t, dir, "f")
}

// A reader beside several writers finds one whole content each time.
func TestReaderFindsAWholeContent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var writers sync.WaitGroup
	for i := range 4 {
		text := make([]byte, 1000*(i+1))
		for j := range text {
			text[j] = byte('a' + i)
		}
		writers.Go(func() {
			for range 20 {
				if err := durable.WriteFile(path, text, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for {
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if len(text) > 0 && (len(text) != 1000*int(text[0]-'a'+1) || text[0] != text[len(text)-1]) {
			t.Fatalf("%d bytes from %c to %c", len(text), text[0], text[len(text)-1])
		}
		select {
		case <-done:
			names(t, dir, "f")
			return
		default:
		}
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Fatalf("%s holds %q, %v: want %q", path, text, err, want)
	}
}

func names(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Fatalf("%v, want %v", entries, want)
	}
	for i, e := range entries {
		if e.Name() != want[i] {
			t.Fatalf("%v, want %v", entries, want)
		}
	}
}
