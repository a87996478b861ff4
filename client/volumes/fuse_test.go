package volumes_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/mounthealth"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// The mount of a FUSE driver fails with the process that serves it: without another word of its volume it is published
// anew.
func TestFailedMountOfAFileSystemInAProcessIsPublishedAnew(t *testing.T) {
	for _, c := range []struct {
		fsType, policy string
		anew           bool
	}{
		{"fuse.s3fs", "", true},
		{"fuseblk", "", true},
		{"fuse", "", true},
		{"fuse.s3fs", api.MountDeadIgnore, false},
		{"ext4", "", false},
	} {
		t.Run(c.fsType+" "+c.policy, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				if err := v.host.MakeDir("/data"); err != nil {
					t.Fatal(err)
				}
				if err := v.host.Mount("0:77", c.fsType, "/data", mounts.Flags{}); err != nil {
					t.Fatal(err)
				}
				v.servers.onClaim(withPolicy(c.policy))
				at := v.up(workload("w"))["a"].Source
				if e := v.on(at); e == nil || e.FSType != c.fsType {
					t.Fatalf("mounted is %+v", e)
				}
				v.host.Kill(at)
				v.until("the failure is told", func() bool { return v.users.count(mounthealth.EventUnhealthy+" w v") == 1 })
				time.Sleep(time.Minute)
				if anew := v.host.Statfs(at) == nil; anew != c.anew || v.users.count("restart w v") > 0 != c.anew {
					t.Errorf("it is published anew: %v; the tasks were told %q", anew, v.users.said)
				}
				v.down("w")
			})
		})
	}
}
