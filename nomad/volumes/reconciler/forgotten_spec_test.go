package reconciler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// forget deregisters the volume by force.
func (r *rig) forget(volume string) {
	r.T.Helper()
	if _, err := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: volume, Force: true}); err != nil {
		r.T.Fatal(err)
	}
}

// What shall be done when a node is lost stays with what is in use there when the spec is deregistered by force, in the
// words of its last change, and also when the id is given to another external volume.
func TestLossPolicyOutlivesItsSpec(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*rig){
		"deregistered": func(*rig) {},
		"the id is another volume's": func(r *rig) {
			other := volumestest.Spec("v")
			other.ExternalID, other.OnNodeLoss, other.FenceAfter = "ext-other", api.NodeLossFence, time.Millisecond
			r.Register(other)
		},
	} {
		t.Run(name+", wait", func(t *testing.T) {
			t.Parallel()
			r := leased(t, func(v *api.VolumeSpec) { v.OnNodeLoss = api.NodeLossWait })
			r.Ends("a1", api.AllocClientStatusComplete)
			r.forget("v")
			then(r)
			r.Down("n1", 0)
			r.explained("on_node_loss is wait")
		})
		t.Run(name+", assume", func(t *testing.T) {
			t.Parallel()
			r := leased(t, func(*api.VolumeSpec) {})
			changed := volumestest.Spec("v")
			changed.OnNodeLoss = api.NodeLossAssume
			r.Register(changed)
			r.Ends("a1", api.AllocClientStatusComplete)
			r.forget("v")
			then(r)
			r.Down("n1", 0)
			r.Free("v")
		})
		t.Run(name+", fence_after", func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = time.Millisecond })
			r.Node("n1")
			v := volumestest.Spec("v")
			v.FenceAfter = time.Hour
			r.Register(v)
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
			r.Ends("a1", api.AllocClientStatusComplete)
			r.forget("v")
			then(r)
			r.Down("n1", 0)
			c := r.explained("it is detached by its storage")
			if due := time.Until(time.Unix(0, c.NextRetry)); due < time.Hour/2 {
				t.Errorf("it is detached in %s", due)
			}
		})
	}
}

// What was recorded when the volume was taken is there also where the state of the claim was brought to one without its
// spec.
func TestLossPolicyIsTakenWithTheVolume(t *testing.T) {
	t.Parallel()
	r := leased(t, func(v *api.VolumeSpec) { v.OnNodeLoss = api.NodeLossWait })
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Edit(func(tx *state.Txn) { tx.DeleteVolume("default", "v") })
	r.Down("n1", 0)
	r.explained("on_node_loss is wait")
}
