package volumes_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// The servers give a volume to another allocation on this node when they gave the first one's claim up
// while the node was away; its mounts may still be here.
func TestVolumeOfOneUserWaitsForMountsOfAClaimThatWasGivenUp(t *testing.T) {
	for _, mode := range []api.AccessMode{api.AccessSingleNodeWriter, api.AccessSingleNodeReader, api.AccessSingleNodeSingle} {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, fake.Config{})
			r.plugIn("plug")
			r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Claim.AccessMode = mode
				return nil
			})
			r.up(workload("old"))
			done := make(chan error, 1)
			go func() {
				_, err := r.svc.Up(r.ctx(), workload("new"))
				done <- err
			}()
			r.servers.until(t, "the second claim is told why it waits", func() bool { return len(r.servers.failures) > 0 })
			if n := r.count("NodePublishVolume"); n != 1 {
				t.Fatalf("%d times published while the first has it", n)
			}
			r.down("old")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := r.count("NodePublishVolume"); n != 2 {
				t.Errorf("%d times published in the end", n)
			}
			r.down("new")
		})
	}
}
