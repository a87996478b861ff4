package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A node whose plugin is gone for good unmounts by itself when an operator forces it, and nothing stays mounted.
func TestForcedDetachReachesTheNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	mounted := true
	n.On("NodeVolume.Detach", func(_ context.Context, q any) error {
		if !q.(*api.NodeVolumeDetachRequest).Force {
			return fault.New(fault.Unavailable, "this node has no node plugin")
		}
		mounted = false
		return nil
	})
	r.Ends("a1", api.AllocClientStatusComplete)
	detach := func(force bool) error {
		_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); err == nil {
		t.Fatal("unmounted without its plugin")
	}
	if err := detach(true); err != nil {
		t.Fatal(err)
	}
	if mounted {
		t.Error("the node was not asked to unmount by itself")
	}
	if m := r.State.Read().Node("n1").StaleMounts; len(m) > 0 {
		t.Errorf("stale mounts %+v", m[0])
	}
	r.Free("v")
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "older", PluginID: "p", ExternalID: "ext-v"}}
		tx.PutNode(&n)
	})
	if mounted = true; detach(true) != nil || mounted {
		t.Error("a stale mount was written off, and stays")
	}
}

// A node whose driver is frozen has its time once: who says it again is not kept waiting for it.
func TestSecondForcedDetachDoesNotWaitForAFrozenDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
		n := r.Node("n1")
		n.On("NodeVolume.Detach", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Ends("a1", api.AllocClientStatusComplete)
		for i, most := range []time.Duration{15 * time.Second, time.Second} {
			began := time.Now()
			if _, err := r.Service.Detach(context.Background(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > most {
				t.Errorf("detach %d takes %v, wanted at most %v", i+1, took, most)
			}
			r.Free("v")
		}
		if n.Count("NodeVolume.Detach") < 2 {
			t.Errorf("calls are %v", n.Calls())
		}
		r.Halt()
	})
}

// proposing does something before an entry is written.
type proposing struct {
	fsm.Leader
	before func()
}

func (p proposing) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	p.before()
	return p.Leader.Propose(ctx, c)
}

// An operator's word is about what was there when it was given: a mount that the node tells of afterwards is not meant.
func TestForceForgetsNoMountThatIsToldAfterwards(t *testing.T) {
	t.Parallel()
	for name, noted := range map[string][]*api.StaleMount{
		"nothing before":           nil,
		"one of the volume before": {{VolumeID: "v", AllocID: "before", ExternalID: "ext-v", Since: 5}, {VolumeID: "w", AllocID: "other", ExternalID: "ext-w", Since: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1")
			r.Register(volumestest.Spec("v"))
			r.Halt()
			note := func(list ...*api.StaleMount) {
				r.Change("n1", func(n *api.Node) {
					n.StaleMounts = slices.Clone(n.StaleMounts)
					for _, m := range list {
						m.Namespace, m.PluginID = "default", "p"
						n.StaleMounts = append(n.StaleMounts, m)
					}
				})
			}
			note(noted...)
			proposed := false
			late := func() {
				proposed = true
				note(&api.StaleMount{VolumeID: "v", AllocID: "late", ExternalID: "ext-v", Since: 10})
			}
			s := volumes.New(volumes.Config{State: r.State, Raft: proposing{r.Raft, sync.OnceFunc(late)}, Drivers: r.Reconciler, Outcomes: r.Reconciler})
			if _, err := s.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
			left := map[string]bool{}
			for _, m := range r.State.Read().Node("n1").StaleMounts {
				left[m.AllocID] = true
			}
			if left["before"] || proposed && !left["late"] || len(noted) > 0 && !left["other"] {
				t.Errorf("noted are %v", left)
			}
		})
	}
}

// A job that comes to the node from which its volume is being detached waits for that, and gets it when an operator ends
// the detach by the command that is named: for any spec, by the volume, or by what the driver calls it.
func TestForcedDetachLeavesWhoWaitsForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waits string
		q     api.VolumeDetachRequest
	}{
		"of the volume":        {"v", api.VolumeDetachRequest{VolumeID: "v"}},
		"of another spec":      {"w", api.VolumeDetachRequest{VolumeID: "v"}},
		"by the driver's name": {"v", api.VolumeDetachRequest{PluginID: "p", ExternalID: "ext-v"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			other := volumestest.Spec("w")
			other.ExternalID = "ext-v"
			r.Register(volumestest.Spec("v"), other)
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
			n.Says("Controller.Unpublish", codes.Internal, "never")
			r.Ends("a1", api.AllocClientStatusComplete)
			r.Unmounted("v", "a1", "n1")
			r.Eventually("the driver keeps it", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-v", "n1")
				return a != nil && strings.Contains(a.LastError, "never")
			})
			r.MustPlace(volumestest.Alloc("a2", "n1", c.waits, writer, volumestest.Of("other")))
			const ends = "nomad volume detach -force v n1"
			list, err := r.Service.Attachments(r.Context(), &api.VolumeAttachmentListRequest{})
			if err != nil || len(list.Attachments) != 1 || list.Attachments[0].Remedy != ends || list.Attachments[0].Claims != 0 {
				t.Errorf("listed is %+v, %v", list.Attachments[0], err)
			}
			_, err = r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1"})
			if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), ends) {
				t.Errorf("without force: %v", err)
			}
			claim := &api.VolumeClaimRequest{VolumeID: c.waits, AllocID: "a2", NodeID: "n1", NodeSecret: "secret-n1", Tell: true}
			told, err := r.Service.Claim(r.Context(), claim)
			if err != nil || !strings.Contains(told.Waiting, "never") || !strings.Contains(told.Waiting, "nomad volume detach -force "+c.waits+" n1") {
				t.Errorf("who waits is told %+v, %v", told, err)
			}
			c.q.NodeID, c.q.Force = "n1", true
			if _, err := r.Service.Detach(r.Context(), &c.q); err != nil {
				t.Fatal(err)
			}
			r.MustClaim(c.waits, "a2", "n1")
		})
	}
}

// A claim that nothing on its node lets begin is ended by the operator's word when there is nothing else to end.
func TestForcedDetachEndsAtLastWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Halt() // it would expand the volume
	r.Edit(func(tx *state.Txn) {
		v := *tx.Volume("default", "v")
		v.Provision.State, v.Provision.OutOfUse = api.VolumeExpanding, true
		tx.PutVolume(&v)
	})
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Change("n1", func(n *api.Node) {
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "older", PluginID: "p", ExternalID: "ext-v"}}
	})
	r.Down("n1", time.Minute)
	q := &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}
	for _, left := range []struct {
		mounts int
		claim  api.ClaimState
	}{{0, api.ClaimTaken}, {0, ""}} {
		if _, err := r.Service.Detach(r.Context(), q); err != nil {
			t.Fatal(err)
		}
		if m := len(r.State.Read().Node("n1").StaleMounts); m != left.mounts || r.ClaimState("v", "a1") != left.claim {
			t.Errorf("left are %d mounts and a claim that is %q, want %+v", m, r.ClaimState("v", "a1"), left)
		}
	}
}

// The volume that a mount was made for may be gone: the command that ends the wait names the one that is asked for.
func TestRefusalByAStaleMountNamesAVolumeThatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Change("n1", func(n *api.Node) {
		n.StaleMounts = []*api.StaleMount{{Namespace: "older", VolumeID: "gone", AllocID: "a1", PluginID: "p", ExternalID: "ext-v"}}
	})
	r.Register(volumestest.Spec("v"))
	err := r.Place(volumestest.Alloc("a2", "n1", "v", writer))
	if err == nil || !strings.Contains(err.Error(), "`nomad volume detach -force v n1`") {
		t.Fatalf("placed: %v", err)
	}
	if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
		t.Fatal(err)
	}
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
	r.MustClaim("v", "a2", "n1")
}
