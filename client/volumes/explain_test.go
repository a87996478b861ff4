package volumes_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Why an allocation does not end, such as a process that the kernel does not kill, is the reason of each of its claims.
func TestReasonOfAnAllocationThatDoesNotEndIsToldForItsClaims(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Add("x")
		v.up(workload("w", &api.VolumeRequest{Source: "v"}, &api.VolumeRequest{Source: "x"}))
		v.up(workload("other"))
		var told []string
		v.servers.onReport(func(r *api.VolumeUnpublishRequest) error {
			if r.Error != "" {
				told = append(told, r.AllocID+" "+r.VolumeID+": "+r.Error)
			}
			return nil
		})
		const why = "task t: process 7 (dd) is stuck in the kernel"
		for range 2 { // the same once more is no news
			v.svc.Explain(t.Context(), "w", why)
		}
		synctest.Wait()
		slices.Sort(told)
		if len(told) != 2 || told[0] != "w v: "+why || told[1] != "w x: "+why {
			t.Errorf("told %q", strings.Join(told, "\n"))
		}
		v.down("w")
		v.down("other")
		v.clean()
	})
}
