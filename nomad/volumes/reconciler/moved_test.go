package reconciler_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// moving is a volume that is used on n1, whose agent then runs on another machine. It tells the attaches and detaches.
func moving(t *testing.T, mode api.AccessMode) (r *rig, calls func() []string) {
	t.Helper()
	r = newRig(t)
	n := r.Node("n2")
	r.Node("n1", volumestest.NodeOnly)
	var mu sync.Mutex
	var made []string
	note := func(call string) {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, call)
	}
	n.On("Controller.Publish", func(_ context.Context, req any) error {
		note("attach to " + req.(*api.ControllerPublishRequest).ProviderNodeID)
		return nil
	})
	n.On("Controller.Unpublish", func(_ context.Context, req any) error {
		note("detach from " + req.(*api.ControllerUnpublishRequest).ProviderNodeID)
		return nil
	})
	r.Register(volumestest.Spec("v", mode))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", mode))
	r.MustClaim("v", "a1", "n1")
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins["p"].NodeInfo.ID = "machine-2" })
	return r, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(made)
	}
}

// What is attached to the machine that a node was before is nothing that the one that it is now can mount.
func TestVolumeIsAttachedToTheMachineThatANodeIsNow(t *testing.T) {
	t.Parallel()
	r, calls := moving(t, writer)
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer), "a1")
	r.Ends("a1", api.AllocClientStatusFailed)
	r.Unmounted("v", "a1", "n1")
	r.MustClaim("v", "a2", "n1")
	if want := []string{"attach to provider-n1", "detach from provider-n1", "attach to machine-2"}; !slices.Equal(calls(), want) {
		t.Errorf("%v, want %v", calls(), want)
	}
}

// A driver may tell another id for the same machine: users who have the volume there are shared with.
func TestVolumeStaysAttachedByAnEarlierIDOfItsNodeWhileItIsUsed(t *testing.T) {
	t.Parallel()
	const shared = api.AccessMultiNodeMultiWriter
	r, calls := moving(t, shared)
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", shared, volumestest.Of("other")))
	r.MustClaim("v", "a2", "n1")
	if want := []string{"attach to provider-n1"}; !slices.Equal(calls(), want) {
		t.Errorf("%v, want %v", calls(), want)
	}
}
