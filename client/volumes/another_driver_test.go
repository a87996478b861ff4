package volumes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// A node plugin that is another driver than the volume's is not asked to mount it, as it may have another volume by that id. It
// is waited for, and the servers are asked again: the driver may have been renamed.
func TestVolumeIsNotMountedByAnotherDriver(t *testing.T) {
	for name, x := range map[string]struct {
		conf  fake.Config
		then  func(*api.VolumeClaimResponse)
		again bool
	}{
		"renamed":                              {fake.Config{Name: "now"}, func(r *api.VolumeClaimResponse) { r.Driver = "now" }, true},
		"run again":                            {fake.Config{Name: "now"}, func(r *api.VolumeClaimResponse) { r.OtherDrivers = nil }, true},
		"the same driver":                      {fake.Config{Name: "former"}, nil, false},
		"a half of it that is named otherwise": {fake.Config{Name: "former.node"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, x.conf)
			r.plugIn("p1")
			told := make(chan string, 100)
			r.servers.onReport(func(u *api.VolumeUnpublishRequest) error {
				if u.Mounting && u.Error != "" {
					select {
					case told <- u.Error:
					default:
					}
				}
				return nil
			})
			end := make(chan struct{})
			r.servers.onClaim(func(_ context.Context, _ *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
				out.Driver, out.OtherDrivers = "former", []string{"now"}
				select {
				case <-end:
					x.then(out)
				default:
				}
				return nil
			})
			if !x.again {
				r.up(workload("w"))
				return
			}
			up := make(chan error, 1)
			go func() { _, err := r.svc.Up(r.ctx(), workload("w")); up <- err }()
			r.servers.until(t, "the servers are asked again", func() bool { return r.servers.claims >= 4 })
			select {
			case why := <-told:
				if !strings.Contains(why, `CSI plugin "p" is driver "now" on this node, and the volume is of driver "former"`) || !strings.Contains(why, "nomad plugin renamed") {
					t.Errorf("it says %q", why)
				}
			case <-time.After(30 * time.Second):
				t.Error("nothing is told")
			}
			if n := len(r.driver.Calls("NodeStageVolume")) + len(r.driver.Calls("NodePublishVolume")); n > 0 {
				t.Errorf("the other driver was called %d times", n)
			}
			close(end)
			if err := <-up; err != nil {
				t.Fatal(err)
			}
		})
	}
}
