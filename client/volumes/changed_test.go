package volumes_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A volume that was deregistered by force and registered anew as another one of the provider's: what the first one has
// mounted must neither be taken for it, nor be forgotten.
func TestMountOfAnotherExternalVolumeIsNotTakenForThisOne(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("w")
		asked := 0
		v.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if asked++; asked > 1 {
				out.Claim.ExternalID = "w"
			} else {
				v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Code: codes.Unavailable, Late: true})
			}
			return nil
		})
		done := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("a")); done <- err }()
		v.until("it is published once", func() bool { return v.count("NodePublishVolume") == 1 })
		v.svc.Mounts() // the node registers, and the claim is asked for again
		if err := <-done; !errors.Is(err, fault.Conflict) {
			t.Errorf("the mount ends with %v", err)
		}
		if u := v.driver.Storage().Use("w"); len(u.Staged)+len(u.Published) > 0 {
			t.Errorf("the other volume is used: %+v", u)
		}
		v.down("a")
		v.clean()
	})
}
