package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// Calls about one volume go one after the other. Two dead nodes whose detaches hang, and are due again whenever the
// other one ends, take turns with who wants the volume on a node that is there.
func TestHungDetachesOfASharedVolumeLeaveItsOtherNodesTheirTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.AttachTimeout, l.FenceAfter = 200*time.Millisecond, time.Millisecond })
	r.Node("n1", volumestest.NodeOnly)
	r.Node("n2", volumestest.NodeOnly)
	r.Node("n4", volumestest.NodeOnly)
	c := r.Node("n3")
	c.On("Controller.Unpublish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	r.Register(volumestest.Spec("v", api.AccessMultiNodeMultiWriter))
	for _, n := range []string{"n1", "n2"} {
		r.MustPlace(volumestest.Alloc("a-"+n, n, "v", api.AccessMultiNodeMultiWriter))
		r.MustClaim("v", "a-"+n, n)
	}
	for _, n := range []string{"n1", "n2"} {
		r.Down(n, time.Minute)
		r.Ends("a-"+n, api.AllocClientStatusLost)
	}
	c.Await(t, "Controller.Unpublish")
	c.Await(t, "Controller.Unpublish")
	r.MustPlace(volumestest.Alloc("a-n4", "n4", "v", api.AccessMultiNodeMultiWriter))
	r.MustClaim("v", "a-n4", "n4")
}

// The log stands still while claims are settled.
func TestSettlingAVolumeOfManyNodesTakesNoMinutes(t *testing.T) {
	t.Parallel()
	const mode = api.AccessMultiNodeMultiWriter
	r := newRig(t)
	r.Node("n")
	r.Register(volumestest.Spec("v", mode))
	r.Edit(func(tx *state.Txn) {
		for i := range 3000 {
			node := fmt.Sprintf("n%04d", i)
			tx.PutAlloc(volumestest.Alloc("a-"+node, node, "v", mode))
			tx.PutClaim(&api.VolumeClaim{
				Namespace: "default", VolumeID: "v", AllocID: "a-" + node, NodeID: node, PluginID: "p", ExternalID: "ext-v", Attach: true,
				State: api.ClaimReady, AccessMode: mode, AttachmentMode: api.AttachmentFileSystem, Mode: api.ClaimWrite,
			})
			tx.PutAttachment(&api.VolumeAttachment{
				PluginID: "p", ExternalID: "ext-v", NodeID: node, State: api.AttachmentPublished, AccessMode: mode, AttachmentMode: api.AttachmentFileSystem,
			})
		}
	})
	began := time.Now()
	if _, err := r.Raft.Propose(t.Context(), &commands.Reconcile{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
