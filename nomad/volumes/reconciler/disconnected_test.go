package reconciler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A node is disconnected, and not down, for as long as any of its allocations may live on without contact, which may be
// days. Those that may not are lost, and their volumes move as from a node that is down.
func TestVolumeOfALostAllocationMovesFromANodeThatIsDisconnected(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = 10 * time.Millisecond })
	n1 := r.Node("n1", volumestest.NodeOnly)
	n2 := r.Node("n2")
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustPlace(volumestest.Alloc("b1", "n1", "w", writer, volumestest.Of("patient")))
	r.MustClaim("v", "a1", "n1")
	r.MustClaim("w", "b1", "n1")
	n1.Disconnect()
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
	r.Ends("b1", api.AllocClientStatusUnknown)
	r.Ends("a1", api.AllocClientStatusLost)
	r.Free("v")
	if s := r.ClaimState("w", "b1"); s != api.ClaimReady || n2.Count("Controller.Unpublish") != 1 {
		t.Errorf("the volume of the allocation that may come back is not waited for: %q", s)
	}
	if stale := r.State.Read().Node("n1").StaleMounts; len(stale) != 1 {
		t.Errorf("the node that may come back is not known to have %v mounted", stale)
	}
}

// An operator who wants the volume of an allocation that is out of sight is told to stop its job: that ends it, though the
// node cannot say so.
func TestVolumeOfAStoppedAllocationMovesFromANodeThatIsDisconnected(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.FenceAfter = 10 * time.Millisecond })
	n1 := r.Node("n1", volumestest.NodeOnly)
	n2 := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n1.Disconnect()
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusDisconnected })
	r.Ends("a1", api.AllocClientStatusUnknown)
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer), "a1")
	r.MustClaim("v", "a2", "n2")
	if got := r.releases("v"); len(got) != 1 || got[0].By != ledger.ByProvider || n2.Count("Controller.Unpublish") != 1 {
		t.Errorf("recorded %+v", got)
	}
}

// The lease of such an allocation counts from when its node was heard last, as that of one that is down.
func TestLeaseEndsOnANodeThatIsDisconnected(t *testing.T) {
	t.Parallel()
	const lease, silence = time.Hour, 10 * time.Minute
	r := leased(t, func(v *api.VolumeSpec) { v.Lease = lease })
	r.Later(2 * lease) // the term of the leader began long ago
	began := time.Now().Add(2 * lease)
	r.Change("n1", func(n *api.Node) { n.Status, n.Silence = api.NodeStatusDisconnected, silence })
	r.Ends("a1", api.AllocClientStatusLost)
	var due time.Duration
	r.Eventually("the claim says when its node's lease ends", func(tx *state.Txn) bool { // at first its loss may not be noticed
		c := tx.Claim("default", "v", "a1", "")
		due = time.Unix(0, c.NextRetry).Sub(began)
		return c.NextRetry != 0 && due <= lease
	})
	if least := lease - silence; due < least {
		t.Errorf("the volume moves after %s, want %s and a margin", due, least)
	}
}
