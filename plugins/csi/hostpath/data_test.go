package hostpath

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
