package faults

import (
	"testing"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// TestDriversThatMountInOddWays has one answer lost in each life, so that calls are repeated: what a task writes is on the
// volume, and nothing is left.
func TestDriversThatMountInOddWays(t *testing.T) {
	t.Parallel()
	for odd, lost := range map[string]string{"early": "", "over": "NodePublishVolume", "lazy": "NodeUnpublishVolume", "shared": "NodeStageVolume"} {
		t.Run(odd, func(t *testing.T) {
			t.Parallel()
			b := layout{attach: true, odd: odd}.bed(t)
			b.volume("v1", nil)
			b.faults(script.Fault{RPC: lost, Lost: true, Code: 14, Times: 1})
			b.Register(writer("w", "v1"))
			b.beats("v1", b.Running("w", 1).ID)
			b.Stop("w", false)
			b.clean()
		})
	}
}
