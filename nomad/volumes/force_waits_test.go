package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A job that was updated on its node waits there for the allocation that it replaces. Whoever ends the use of that one
// ends nothing of the successor, and is not told to stop it.
func TestDetachLeavesTheSuccessorOnTheSameNode(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"by the node": false, "by force": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			r.Register(volumestest.Spec("v"))
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
			n.On("NodeVolume.Detach", func(_ context.Context, q any) error {
				if alloc := q.(*api.NodeVolumeDetachRequest).AllocID; alloc != "a1" {
					t.Errorf("the node was asked to unmount the volume of %s", alloc)
				}
				return nil
			})
			r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer), "a1")
			r.Ends("a1", api.AllocClientStatusComplete)
			if err := r.Report("v", "a1", "n1", "the target is busy"); err != nil {
				t.Fatal(err)
			}
			claim := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n1", NodeSecret: "secret-n1", Tell: true}
			told, err := r.Service.Claim(r.Context(), claim)
			if err != nil || !strings.Contains(told.Waiting, "busy") || !strings.Contains(told.Waiting, "`nomad volume detach v n1`") {
				t.Errorf("who waits is told %+v, %v", told, err)
			}
			if s, w := r.ClaimState("v", "a1"), r.ClaimState("v", "a2"); s != api.ClaimReleasing || w != api.ClaimWaiting {
				t.Fatalf("claims are %q and %q", s, w)
			}
			if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force}); err != nil {
				t.Fatal(err)
			}
			r.MustClaim("v", "a2", "n1")
		})
	}
}

// A successor that needs another mode waits until its predecessor is detached. The command that the refusal names ends
// that wait, not the successor.
func TestForcedDetachEndsWhatASuccessorOnTheSameNodeWaitsFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v", writer, api.AccessMultiNodeMultiWriter))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.Internal, "never")
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", api.AccessMultiNodeMultiWriter), "a1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Eventually("the driver keeps it", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "never")
	})
	if w := r.ClaimState("v", "a2"); w != api.ClaimWaiting {
		t.Fatalf("the successor is %q", w)
	}
	const ends = "nomad volume detach -force v n1"
	claim := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n1", NodeSecret: "secret-n1", Tell: true}
	if told, err := r.Service.Claim(r.Context(), claim); err != nil || !strings.Contains(told.Waiting, "never") || !strings.Contains(told.Waiting, ends) {
		t.Errorf("who waits is told %+v, %v", told, err)
	}
	detach := func(force bool) error {
		_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), ends) {
		t.Errorf("without force: %v", err)
	}
	if err := detach(true); err != nil {
		t.Fatal(err)
	}
	r.MustClaim("v", "a2", "n1")
}
