package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// An expansion may take an hour; a node that is lost meanwhile is not detached an hour later.
func TestExpansionThatHangsGivesWayToADetach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(l *reconciler.Limits) { l.MakeTimeout, l.FenceAfter = time.Hour, time.Millisecond })
		c := r.Node("n2")
		r.Node("n1", volumestest.NodeOnly)
		made := volumestest.Made("v")
		if err := r.Create(made); err != nil {
			t.Fatal(err)
		}
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		c.On("Controller.Expand", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
		larger := volumestest.Made("v")
		larger.RequestedCapacityMin = 200
		go func() { _ = r.Create(larger) }()
		c.Await(t, "Controller.Expand")
		r.Down("n1", time.Minute)
		r.Ends("a1", api.AllocClientStatusLost)
		began := time.Now()
		c.Await(t, "Controller.Unpublish")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the storage is asked to cut the node off after %s", took)
		}
		c.Await(t, "Controller.Expand")
		c.On("Controller.Expand", nil)
	})
}

// A detach that fails again and again leaves a volume the time to grow.
func TestExpansionIsNotEndedForADetachThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const shared = api.AccessMultiNodeMultiWriter
		r := newRig(t, func(l *reconciler.Limits) { l.MakeTimeout, l.FenceAfter = time.Hour, time.Millisecond })
		c := r.Node("n2")
		r.Node("n1", volumestest.NodeOnly)
		spec := volumestest.Made("v")
		spec.RequestedCapabilities = volumestest.Spec("v", shared).RequestedCapabilities
		if err := r.Create(spec); err != nil {
			t.Fatal(err)
		}
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", shared))
		r.MustClaim("v", "a1", "n1")
		c.Says("Controller.Unpublish", codes.Internal, "broken")
		r.Down("n1", time.Minute)
		r.Ends("a1", api.AllocClientStatusLost)
		r.Eventually("the detach fails", func(tx *state.Txn) bool {
			a := tx.Attachment("p", r.Get("v").ExternalID, "n1")
			return a != nil && a.State == api.AttachmentUnpublishing && a.LastError != ""
		})
		c.On("Controller.Expand", func(ctx context.Context, _ any) error {
			select {
			case <-time.After(30 * time.Minute):
				return nil
			case <-ctx.Done():
				t.Errorf("it is ended: %v", context.Cause(ctx))
				return ctx.Err()
			}
		})
		larger := *spec
		larger.RequestedCapacityMin = 200
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		if _, err := r.Service.Create(ctx, &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{&larger}}); err != nil {
			t.Error(err)
		}
		c.On("Controller.Unpublish", nil)
	})
}
