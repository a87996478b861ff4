package volumes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// waitRig is a node whose tasks and servers record what they are told; seen gets reports about mounts.
func waitRig(t *testing.T, c fake.Config) (r *rig, u *users, seen chan api.VolumeUnpublishRequest) {
	t.Helper()
	u, seen = newUsers(), make(chan api.VolumeUnpublishRequest, 100)
	r = newRigWith(t, c, func(conf *volumes.Config) {
		conf.Tasks, conf.RetryMax, conf.Timeouts = u, 100*time.Millisecond, csi.Timeouts{Change: 5 * time.Second}
	})
	r.servers.onReport(func(q *api.VolumeUnpublishRequest) error {
		if q.Mounting {
			seen <- *q
		}
		return nil
	})
	return r, u, seen
}

// begin mounts a volume; done gets the answer.
func (r *rig) begin(alloc string) (done chan error) {
	done = make(chan error, 1)
	ctx := r.ctx()
	go func() { _, err := r.svc.Up(ctx, workload(alloc)); done <- err }()
	return done
}

func TestMountThatWaitsTellsWhyOnceAndWhenItGoesOn(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			r, u, seen := waitRig(t, fake.Config{})
			r.plugIn("plug")
			r.driver.Script(fake.Fault{RPC: rpc, Times: 4, Code: codes.Unavailable})
			done := r.begin("w")
			u.until(t, 1, "Waiting w v Volume \"v\": ")
			first := <-seen
			if first.Error == "" || first.NextRetry < time.Now().Add(-10*time.Second).UnixNano() || first.AllocID != "w" {
				t.Errorf("servers were told %+v", first)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			last := first
			for last.Error != "" {
				last = <-seen
			}
			if n := u.count("Waiting w v Volume"); n != 1 {
				t.Errorf("told %d times: %q", n, u.said)
			}
			if n := u.count("Waiting Ended w v Volume"); n != 1 {
				t.Errorf("the end was told %d times: %q", n, u.said)
			}
			said := u.said[slices.IndexFunc(u.said, func(s string) bool { return strings.HasPrefix(s, "Waiting w") })]
			for _, part := range []string{"; since ", ", next try at "} {
				if !strings.Contains(said, part) {
					t.Errorf("%q lacks %q", said, part)
				}
			}
			r.down("w")
		})
	}
}

func TestHungCallAndMissingPluginAreTold(t *testing.T) {
	r, u, seen := waitRig(t, fake.Config{})
	done := r.begin("w")
	u.until(t, 1, `Waiting w v Volume "v": mount: `)
	if q := <-seen; !strings.Contains(q.Error, `plugin "p"`) {
		t.Errorf("servers were told %+v", q)
	}
	r.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Hang: true})
	r.plugIn("plug")
	if err := r.driver.Await(r.ctx(), "NodeStageVolume", 1); err != nil {
		t.Fatal(err)
	}
	other := r.begin("w2")
	u.until(t, 1, `Waiting w2 v Volume "v": mount: plugin "p" has not responded yet`)
	for _, d := range []chan error{done, other} {
		if err := <-d; err != nil {
			t.Fatal(err)
		}
	}
	r.down("w")
	r.down("w2")
}

func TestClaimThatWaitsTellsWhatTheServersSay(t *testing.T) {
	r, u, _ := waitRig(t, fake.Config{})
	r.plugIn("plug")
	told := make(chan string)
	r.servers.onClaim(func(ctx context.Context, q *api.VolumeClaimRequest, out *api.VolumeClaimResponse) error {
		if !q.Tell {
			t.Error("the node does not ask to be told")
		}
		if q.Known == "" {
			*out = api.VolumeClaimResponse{Waiting: "attach: the array reboots"}
			return nil
		}
		select {
		case told <- q.Known:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	done := r.begin("w")
	u.until(t, 1, `Waiting w v Volume "v": claim: attach: the array reboots; since `)
	if known := <-told; known != "attach: the array reboots" {
		t.Errorf("known is %q", known)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	u.until(t, 1, "Waiting Ended w v")
	r.down("w")
}

func TestNodeWithoutRoomTellsTheServersBeforeItFails(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			r, _, seen := waitRig(t, fake.Config{})
			r.plugIn("plug")
			r.driver.Script(fake.Fault{RPC: rpc, Times: 1, Code: codes.ResourceExhausted})
			if err := <-r.begin("w"); err == nil {
				t.Fatal("mounted without room")
			}
			select {
			case q := <-seen:
				if !q.NoRoom || q.AllocID != "w" || q.VolumeID != "v" || !strings.Contains(q.Error, rpc) {
					t.Errorf("servers were told %+v", q)
				}
			default:
				t.Error("the servers were not told")
			}
			r.down("w")
		})
	}
}
