package volumes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func TestLateCreationDoesNotMakeADeletedVolumeAgain(t *testing.T) {
	r := newRig(t, fake.Config{})
	r.plugIn("plug")
	create := func(fence uint64) (*api.ControllerCreateResponse, error) {
		return handle(r, r.ctx(), wire.ControllerCreate, &api.ControllerCreateRequest{
			ControllerCall: api.ControllerCall{PluginID: "p", Fence: fence}, Name: "made",
			Capabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
		})
	}
	made, err := create(5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handle(r, r.ctx(), wire.ControllerDelete, &api.ControllerDeleteRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 7}, ExternalID: made.ExternalID, Name: "made",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := create(5); !errors.Is(err, fault.Conflict) {
		t.Errorf("a creation of before the deletion answers %v", err)
	}
	if n := r.count("CreateVolume"); n != 1 {
		t.Errorf("the driver was asked %d times", n)
	}
	if _, err := create(9); err != nil {
		t.Errorf("a later creation: %v", err)
	}
}

// A driver may end a call long after everybody has given it up, and the volume is released: what it mounts then is
// taken down too.
func TestMountThatComesAfterTheReleaseIsTakenDown(t *testing.T) {
	for name, rpc := range map[string]string{"published": "NodePublishVolume", "staged": "NodeStageVolume"} {
		for _, who := range []string{"the same agent", "another agent"} {
			t.Run(name+" for "+who, func(t *testing.T) {
				inVirtualTime(t, fake.Config{Deaf: true, NoStage: rpc == "NodePublishVolume"}, func(t *testing.T, v *virtual) {
					v.driver.Storage().Excuse("fake-node", true)
					v.driver.Script(fake.Fault{RPC: rpc, Times: 1, Delay: 5 * time.Minute})
					ctx, stop := context.WithCancel(t.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); _, _ = v.svc.Up(ctx, workload("w")) }()
					v.until("it is being mounted", func() bool { return v.count(rpc) == 1 })
					stop()
					<-ended
					if who == "another agent" {
						v.stop()
						v.start()
						v.knows()
					}
					_ = v.svc.Down(t.Context(), "w")
					v.untilReleased("w")
					if q, ok := v.driver.Calls(rpc)[0].Request.(*pb.NodeStageVolumeRequest); ok { // many drivers make the path
						if err := v.host.MakeDir(q.GetStagingTargetPath()); err != nil {
							t.Fatal(err)
						}
					}
					comes := 0
					for range 20 {
						time.Sleep(30 * time.Second)
						synctest.Wait()
						if table, _ := v.host.Table(); len(table) > 0 {
							comes++
						}
					}
					if comes > 4 {
						t.Errorf("it was mounted for %d times 30 s", comes)
					}
					v.clean()
				})
			})
		}
	}
}

// The look that an earlier release left must not end the watch for a call that was given up since, and is not released yet.
func TestWatchForALateMountOutlastsTheLookOfAnEarlierOne(t *testing.T) {
	inVirtualTime(t, fake.Config{Deaf: true, NoStage: true}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Excuse("fake-node", true)
		giveUp := func(n int, after time.Duration) (goOn func()) {
			v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: after})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = v.svc.Up(ctx, workload("w")) }()
			v.until("it is being mounted", func() bool { return v.count("NodePublishVolume") == n })
			stop()
			<-ended
			return func() { _ = v.svc.Down(t.Context(), "w"); v.untilReleased("w") }
		}
		giveUp(1, time.Second)()
		release := giveUp(2, 20*time.Minute)
		time.Sleep(5 * time.Minute) // the look of the first one comes
		synctest.Wait()
		release()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		v.until("the late mount is gone", v.nothing)
	})
}

// A late mount is looked at in the volume's turn: what another allocation does with the volume meanwhile goes by the records
// as it has found them.
func TestLateMountWaitsForTheTurnOfItsVolume(t *testing.T) {
	inVirtualTime(t, fake.Config{Deaf: true, NoStage: true}, func(t *testing.T, v *virtual) {
		v.driver.Storage().Excuse("fake-node", true)
		target := v.lateMount("w", 30*time.Minute)
		v.driver.Script(fake.Fault{RPC: "NodePublishVolume", Times: 1, Delay: time.Hour})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		time.Sleep(29 * time.Minute)
		go func() { defer close(ended); _, _ = v.svc.Up(ctx, workload("next")) }()
		v.until("the other one has the turn", func() bool { return v.count("NodePublishVolume") == 2 })
		v.until("the late mount is there", func() bool { return v.on(target) != nil })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for key := range v.journal.keys("row/w/") {
			t.Errorf("%s is written down while another allocation has the volume's turn", key)
		}
		stop()
		<-ended
		v.until("the late mount is gone", func() bool { return v.on(target) == nil })
		_ = v.svc.Down(t.Context(), "next")
		v.until("all is gone", func() bool { return v.nothing() && v.forgotten() })
	})
}
