package volumes_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A task that starts once the mount has gone would write to the directory below it, on the node's own disk.
func TestVolumeWhoseMountHasGoneIsNotMounted(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		at := ""
		for _, m := range v.up(workload("w")) {
			at = m.Source
		}
		if err := v.svc.Mounted("w"); err != nil {
			t.Errorf("it is mounted: %v", err)
		}
		if err := v.svc.Mounted("other"); err != nil {
			t.Errorf("an allocation without volumes: %v", err)
		}
		if err := v.host.Unmount(at); err != nil {
			t.Fatal(err)
		}
		if err := v.svc.Mounted("w"); !errors.Is(err, fault.Unavailable) {
			t.Errorf("its mount has gone: %v", err)
		}
		v.down("w")
	})
}
