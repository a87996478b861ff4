package volumes_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// The journal was lost, and the servers have a mount taken down. While that waits for the plugin the allocation is taken up.
func TestMountOfAnAllocationThatIsTakenUpMeanwhileStays(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := v.up(workload("w"))["a"].Source
		v.stop()
		v.journal.lose("")
		v.start()
		v.knows()
		v.unplug()
		v.plugin()
		v.svc.Plugins().Drop("plug-" + v.kind)
		done := make(chan error, 1)
		go func() {
			done <- v.detach(&api.NodeVolumeDetachRequest{AllocID: "w"})
		}()
		synctest.Wait()
		up := make(chan error, 1)
		go func() { _, err := v.svc.Up(t.Context(), workload("w")); up <- err }()
		synctest.Wait()
		v.plugIn(v.kind)
		v.supervise()
		if err := <-done; !errors.Is(err, fault.Conflict) {
			t.Errorf("the detach ends with %v", err)
		}
		if err := <-up; err != nil || v.on(at) == nil {
			t.Errorf("at its path is %+v: %v", v.on(at), err)
		}
		v.down("w")
		v.clean()
	})
}
