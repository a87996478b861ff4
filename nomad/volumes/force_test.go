package volumes_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
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
