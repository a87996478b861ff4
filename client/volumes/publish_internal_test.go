package volumes

import (
	"testing"

	"github.com/open-nomad/open-nomad/client/volumes/journal"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// A driver may make the node of a block volume below the staging path, and bind that to the target: the node is the volume.
func TestDeviceNodeBelowTheStagingPathIsTheVolume(t *testing.T) {
	base := "/state/csi/node/p/"
	own := "/csi/node/p/" + csiplugins.StagingDir + "/" + csiplugins.Hash("p", "v")
	for root, c := range map[string]struct {
		mode api.AttachmentMode
		bare bool
	}{
		own + "/device": {api.AttachmentBlock, false},
		own + "/files":  {api.AttachmentFileSystem, true},
		own:             {api.AttachmentFileSystem, true},
		own + "x":       {api.AttachmentFileSystem, false},
		"/":             {api.AttachmentFileSystem, false},
	} {
		r := &journal.Row{Stages: true, AttachmentMode: c.mode, Staging: stagingAt(place{Host: base}, "p", "v")}
		if got := showsStagingDir(&mounts.Entry{Root: root, Point: base + csiplugins.TargetDir + "/t"}, r); got != c.bare {
			t.Errorf("a %s of %s is taken for the directory of the staging path: %v", c.mode, root, got)
		}
	}
}
