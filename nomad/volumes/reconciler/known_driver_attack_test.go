package reconciler_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// What a node tells after a restore was attached by the driver of the volume: another one proves no detach of it.
func TestWhatIsToldAfterARestoreIsOfTheVolumesDriver(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	old := r.saved()
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.restore(old, "n1")
	r.becomes("another")
	r.reports("n1", "a1")
	r.released()
	r.Unmounted("v", "a1", "n1")
	r.told("n1")
	if c := n.Count("Controller.Unpublish"); c > 0 {
		t.Fatalf("the other driver is asked %d times", c)
	}
	r.renamed("prov", "another")
	r.Free("v")
}

// A restore brings the former name back, and the word is given again.
func TestWordOfARenamedDriverIsGivenAgainAfterARestore(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	old := r.saved()
	r.becomes("another")
	r.renamed("prov", "another")
	r.restore(old, "n1")
	r.becomes("another")
	r.reports("n1", "a1")
	r.released()
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.told("n1")
	r.renamed("prov", "another")
	r.Free("v")
}

// The word may be given while the driver is asked, and while the leader changes: the answer of before neither gets lost nor
// brings the former name back.
func TestDriverIsRenamedWhileItIsAsked(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*rig, *volumestest.Node, func()){
		"answered late": func(_ *rig, _ *volumestest.Node, release func()) { release() },
		"leader changes": func(r *rig, n *volumestest.Node, release func()) {
			r.Halt()
			release()
			n.On("Controller.Publish", nil)
			r.Start()
		},
		"fails": func(_ *rig, n *volumestest.Node, release func()) {
			n.Says("Controller.Publish", codes.Unavailable, "later")
			release()
			n.On("Controller.Publish", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			n := r.Node("n1")
			n.Signs("prov")
			r.Register(volumestest.Spec("v"))
			release := n.Hold("Controller.Publish")
			defer release()
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			n.Await(t, "Controller.Publish")
			r.becomes("another")
			r.renamed("prov", "another")
			then(r, n, release)
			n.Signs("another")
			r.MustClaim("v", "a1", "n1")
			if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.Provider != "another" || r.driverOf("v") != "another" {
				t.Errorf("known are %q and %q", a.Provider, r.driverOf("v"))
			}
			r.Ends("a1", api.AllocClientStatusComplete)
			r.Unmounted("v", "a1", "n1")
			r.Free("v")
		})
	}
}

// An attach that the former driver answers with an error after another one is there may have had its effect at either.
func TestErrorOfAnotherDriverEndsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.On("Controller.Publish", func(context.Context, any) error {
		r.becomes("another")
		return volumestest.Says("Controller.Publish", codes.NotFound, "no such volume")
	})
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.told("n1")
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.Refused != 0 {
		t.Fatalf("it is refused: %s", a.LastError)
	}
	n.On("Controller.Publish", nil)
	r.becomes("prov")
	r.MustClaim("v", "a1", "n1")
}
