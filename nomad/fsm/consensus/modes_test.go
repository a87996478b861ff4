package consensus_test

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSnapshotsAreClosedByThemselves(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	for _, name := range []string{"wal", "snapshots"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, error %v", name, st, err)
		}
	}
}
