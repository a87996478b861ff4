package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// TestRestoreUnderAVolumeNeedsForce restores a state from before a job that uses a volume. The restored state does not
// contain the job: its task must end before the next user of the volume starts.
func TestRestoreUnderAVolumeNeedsForce(t *testing.T) {
	t.Parallel()
	a := kit.Start(t)
	a.Plugin("hp")
	a.CreateVolume("hp", "v1")
	snap := filepath.Join(a.Dir, "before.snap")
	if out, code := a.Run("operator", "snapshot", "save", snap); code != 0 {
		t.Fatalf("save: exit %d: %s", code, out)
	}
	a.Register(kit.WithVolume(kit.ShellJob("first", forever), "v1"))
	before := a.Running("first", 1)
	volume, _, err := a.API.CSIVolumes().Info("v1", nil)
	if err != nil {
		t.Fatal(err)
	}

	out, code := a.Run("operator", "snapshot", "restore", snap)
	for _, want := range []string{
		"409", "1 external volumes are attached", volume.ExternalID + " of CSI plugin hp on node " + before.NodeID,
		"stop the jobs that use them", "restore with -force",
	} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("restore beside an attached volume: exit %d, want 1 and %q in: %s", code, want, out)
		}
	}
	if now := a.Running("first", 1); now.ID != before.ID || a.Claimed("v1") != 1 {
		t.Fatalf("a refused restore changed allocation %s to %s, or its claim", before.ID, now.ID)
	}

	if out, code := a.Run("operator", "snapshot", "restore", "-force", snap); code != 0 || !strings.Contains(out, "Snapshot Restored") {
		t.Fatalf("restore -force: exit %d: %s", code, out)
	}
	if _, _, err := a.API.Jobs().Info("first", nil); err == nil {
		t.Error("the restored state contains a job that was registered after the snapshot")
	}
	a.Register(kit.WithVolume(kit.ShellJob("second", forever), "v1"))
	// Volumes also wait 30 s for nodes that neither state contains.
	a.Until(90*time.Second, "the second job to write", func() error {
		if n := strings.Count(journal(t, a), "start "); n != 2 {
			return fmt.Errorf("%d starts", n)
		}
		return nil
	})
	noOverlap(t, journal(t, a))
}
