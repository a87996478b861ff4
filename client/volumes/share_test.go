package volumes_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// typed answers claims with the types of file systems that allocations ask for.
func (v *virtual) typed(of map[string]string) {
	v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		out.Claim.MountOptions = &api.MountOptions{FSType: of[q.AllocID]}
		return nil
	})
}

// A staging of unknown outcome may be there with the options of who asked for it: others wait.
func TestOptionsOfAStagingOfUnknownOutcomeCount(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.typed(map[string]string{"first": "ext4", "second": "xfs"})
		v.driver.Script(fake.Fault{RPC: "NodeStageVolume", Code: codes.Unavailable, Late: true})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = v.svc.Up(ctx, workload("first")) })
		v.until("the first is staged maybe", func() bool { return v.count("NodeStageVolume") > 0 })
		all.Go(func() { v.up(workload("second")) })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := v.stagedTypes(); !slices.Equal(slices.Compact(got), []string{"ext4"}) {
			t.Errorf("staged as %v", got)
		}
		stop()
		v.driver.Heal()
		v.until("the first is down", func() bool { return v.svc.Down(t.Context(), "first") == nil })
		all.Wait()
		v.down("second")
		v.clean()
	})
}

// stagedTypes are the types of file systems with which the volume was staged, in order.
func (v *virtual) stagedTypes() (out []string) {
	for _, c := range v.driver.Calls("NodeStageVolume") {
		out = append(out, c.Request.(*pb.NodeStageVolumeRequest).GetVolumeCapability().GetMount().GetFsType())
	}
	return out
}

// Who cannot share a volume with a user that leaves waits for it.
func TestUserThatLeavesIsWaitedFor(t *testing.T) {
	for name, differ := range map[string]func(*api.VolumeClaim){
		"another file system": func(c *api.VolumeClaim) { c.MountOptions = &api.MountOptions{FSType: "xfs"} },
		"a device":            func(c *api.VolumeClaim) { c.AttachmentMode = api.AttachmentBlock },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
				first := true
				v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
					if out.Claim.MountOptions = (&api.MountOptions{FSType: "ext4"}); !first {
						differ(out.Claim)
					}
					return nil
				})
				v.up(workload("first"))
				first = false
				v.driver.Script(fake.Fault{RPC: "NodeUnpublishVolume", Times: 3, Code: codes.Unavailable})
				if err := v.svc.Down(t.Context(), "first"); err == nil {
					t.Fatal("unpublished")
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { _, err := v.svc.Up(ctx, workload("second")); ended <- err }()
				v.untilReleased("first")
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("it did not wait: %v", err)
					}
				default: // of a device nothing more is played here
				}
				stop()
				v.until("the second is down", func() bool { return v.svc.Down(t.Context(), "second") == nil })
				v.clean()
			})
		})
	}
}

// A file system that is mounted for readers too grows through the mount of the one that writes.
func TestVolumeGrowsThroughAMountThatIsWrittenTo(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		v.servers.onClaim(func(_ context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
			if q.AllocID != "j" {
				out.Claim.Mode = api.ClaimRead
			}
			return nil
		})
		v.up(workload("a"))
		at := v.up(workload("j"))["a"].Source
		v.up(workload("z"))
		if _, err := serve(t, v.svc, t.Context(), wire.NodeVolumeExpand, &api.NodeVolumeExpandRequest{
			Namespace: "default", VolumeID: "v", ExternalID: "v", PluginID: "p", CapacityBytes: 1 << 20,
		}); err != nil {
			t.Error(err)
		}
		calls := v.driver.Calls("NodeExpandVolume")
		if len(calls) != 1 || calls[0].Request.(*pb.NodeExpandVolumeRequest).GetVolumePath() != at {
			t.Errorf("it grows by %v, the writer has it at %s", calls, at)
		}
		for _, id := range []string{"a", "j", "z"} {
			v.down(id)
		}
		v.clean()
	})
}
