package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func force(r *rig) (*api.VolumeDetachResponse, error) {
	return r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true})
}

// One forced detach ends the claim and the attachment, whatever keeps them.
func TestOneForcedDetachFreesAClaimedVolume(t *testing.T) {
	t.Parallel()
	noPlugin := func(n *api.Node) { n.CSINodePlugins, n.CSIControllerPlugins = nil, nil }
	for name, c := range map[string]struct {
		keeps func(*rig, *volumestest.Node)
		warns string
	}{
		"plugin is gone": {func(r *rig, _ *volumestest.Node) { r.Change("n1", noPlugin) }, ""},
		"driver refuses": {func(_ *rig, n *volumestest.Node) { n.Says("Controller.Unpublish", codes.Internal, "never") }, ""},
		"driver hangs": {func(_ *rig, n *volumestest.Node) {
			n.On("Controller.Unpublish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
		}, ""},
		"node is lost": {func(r *rig, _ *volumestest.Node) { r.Change("n1", noPlugin); r.Down("n1", time.Minute) }, "is down and may still have"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter, l.FenceAfter = time.Hour, time.Hour })
			n := r.Node("n1")
			r.Register(volumestest.Spec("v"))
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
			r.Ends("a1", api.AllocClientStatusComplete)
			c.keeps(r, n)
			out, err := force(r)
			if err != nil {
				t.Fatal(err)
			}
			if c.warns == "" && out.Warnings != "" || !strings.Contains(out.Warnings, c.warns) {
				t.Errorf("warnings are %q, want %q", out.Warnings, c.warns)
			}
			if s, a := r.ClaimState("v", "a1"), r.State.Read().Attachment("p", "ext-v", "n1"); s != "" || a != nil {
				t.Errorf("claim is %q, attachment %+v", s, a)
			}
		})
	}
}

// An attachment that the driver keeps stays while a node that is heard has the volume mounted. The refusal names the
// command that frees it, and that command says what is left.
func TestForcedDetachOfAMountedVolumeSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
	n := r.Node("n1")
	n.Says("Controller.Unpublish", codes.Internal, "never")
	n.On("NodeVolume.Detach", func(context.Context, any) error { return fault.New(fault.Unavailable, "the target is busy") })
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	_, err := force(r)
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "`nomad volume detach -force v n1`") || !strings.Contains(err.Error(), "a1") {
		t.Fatalf("a mounted volume was freed: %v", err)
	}
	if r.State.Read().Attachment("p", "ext-v", "n1") == nil {
		t.Error("the attachment has ended under a mount")
	}
	out, err := force(r)
	if err != nil || !strings.Contains(out.Warnings, "still has it mounted") {
		t.Fatalf("the second word: %+v, %v", out, err)
	}
	r.Free("v")
	if m := r.State.Read().Node("n1").StaleMounts; len(m) != 1 {
		t.Errorf("stale mounts are %v", m)
	}
}

// A claim on the same node that waits for the one that is ended goes on.
func TestForcedDetachOfAClaimLeavesTheNextOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.Internal, "never")
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", api.AccessMultiNodeMultiWriter), "a1")
	r.Ends("a1", api.AllocClientStatusComplete)
	if w := r.ClaimState("v", "a2"); w != api.ClaimWaiting {
		t.Fatalf("the next claim is %q", w)
	}
	if _, err := force(r); err != nil {
		t.Fatal(err)
	}
	r.MustClaim("v", "a2", "n1")
}

// A refusal names the command that works: the node of a plugin that is gone cannot unmount without force.
func TestRefusalNamesTheCommandThatFrees(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins, n.CSIControllerPlugins = nil, nil })
	_, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"})
	if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "`nomad volume detach -force v n1`") {
		t.Fatalf("deregistered: %v", err)
	}
	if _, err := force(r); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "v"}); err != nil {
		t.Error(err)
	}
}
