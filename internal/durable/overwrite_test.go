package durable_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/durable"
)

func TestOverwrittenFileIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := durable.WriteFile(path, []byte(`{"of": "before"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	reads(t, path, `{"of": "before"}`)
	for _, text := range []string{"first", "second", "", "fourth", strings.Repeat("longer than a block", 1000), "short again", "and again"} {
		overwrite(t, path, text)
		reads(t, path, text)
	}
	names(t, filepath.Dir(path), "f")
}

// The file itself is written: a new one would cost its directory's sync too.
func TestSmallContentIsWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	overwrite(t, path, "first")
	before := inode(t, path)
	for i := range 5 {
		overwrite(t, path, fmt.Sprint("text ", i))
	}
	if inode(t, path) != before {
		t.Fatal("the file was replaced")
	}
}

// However much of the last write has come to the disk, the content is the old one or the new one, and can be
// overwritten again.
func TestTornWriteLeavesTheOldContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	overwrite(t, path, "first")
	for round := range 3 {
		old, next := fmt.Sprint("old content ", round), fmt.Sprint("new content, longer ", round)
		overwrite(t, path, old)
		before := content(t, path)
		overwrite(t, path, next)
		after := content(t, path)
		for cut := range after {
			if cut > 0 && before[cut-1] == after[cut-1] {
				continue
			}
			for _, torn := range [][]byte{append(bytes.Clone(after[:cut]), before[cut:]...), append(bytes.Clone(before[:cut]), after[cut:]...)} {
				write(t, path, torn)
				got, err := durable.Read(path)
				if err != nil || string(got) != old && string(got) != next {
					t.Fatalf("%d bytes: %q, %v", cut, got, err)
				}
				overwrite(t, path, "later")
				reads(t, path, "later")
			}
		}
		write(t, path, after)
	}
}

func TestDamagedCopiesAreToldAndReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	overwrite(t, path, "first")
	raw := content(t, path)
	clear(raw[4096:])
	write(t, path, raw)
	if got, err := durable.Read(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("%q, %v", got, err)
	}
	overwrite(t, path, "second")
	reads(t, path, "second")
}

func TestReaderBesideAnOverwriteFindsAWholeContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	overwrite(t, path, "a")
	done := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(done)
		for i := range 300 {
			if err := durable.Overwrite(path, bytes.Repeat([]byte{byte('a' + i%26)}, 100+10*i), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	defer writer.Wait()
	for {
		text, err := durable.Read(path)
		if err != nil || len(text) == 0 || len(bytes.Trim(text, string(text[:1]))) > 0 {
			t.Fatalf("%q, %v", text, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := durable.Overwrite(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func reads(t *testing.T, path, want string) {
	t.Helper()
	if got, err := durable.Read(path); err != nil || string(got) != want {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}
