package archive_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/archive"
)

func TestWhatIsNoSnapshotStaysAsItIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.snap")
	if err := archive.Redact(t.Context(), path); err == nil {
		t.Error("a file that is not there was redacted")
	}
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := archive.Redact(t.Context(), path); err == nil {
		t.Error("a greeting was redacted")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
}
