package volumes_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// While the servers are asked again it is they who are waited for, not the plugin: one of two silences that begin at the
// same moment is told, and always the same one.
func TestOneSilenceIsToldWhileTheServersAreAskedAgain(t *testing.T) {
	for range 10 {
		inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
			asked := 0
			v.servers.onClaim(func(ctx context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Claim.Lease, out.Claim.WriteBack = leaseTerm, leaseWriteBack
				if asked++; asked == 2 {
					time.Sleep(5 * time.Second)
				}
				return nil
			})
			v.stop()
			v.conf.Promise = func() error {
				if asked == 1 {
					v.svc.Mounts() // the node registers beside it
				}
				return nil
			}
			v.start()
			v.up(workload("w"))
			if n := v.users.count(`Waiting w v Volume "v": claim: the servers have not responded yet`); asked != 2 || n != 1 {
				t.Errorf("the servers were asked %d times; said was %q", asked, v.users.said)
			}
			v.down("w")
			v.clean()
		})
	}
}
