package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// atOnce gives nodes that the servers do not know no time to register.
func atOnce(l *reconciler.Limits) { l.Regather = time.Millisecond }

// saved returns the state.
func (r *rig) saved() *bytes.Buffer {
	r.T.Helper()
	var b bytes.Buffer
	if err := r.State.Read().Dump(&b); err != nil {
		r.T.Fatal(err)
	}
	return &b
}

// restore replaces the state by an older one. The nodes have not reported their mounts since.
func (r *rig) restore(old *bytes.Buffer, nodes ...string) {
	r.T.Helper()
	r.Halt()
	if err := r.State.Restore(old); err != nil {
		r.T.Fatal(err)
	}
	r.Edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{At: 1, Unreported: nodes}) })
	r.Start()
}

// reports has a node register, with the volume mounted for an allocation or without.
func (r *rig) reports(node string, allocs ...string) {
	r.T.Helper()
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node(node)
		n.StaleMounts = nil
		for _, a := range allocs {
			n.StaleMounts = append(n.StaleMounts, &api.StaleMount{
				Namespace: "default", VolumeID: "v", AllocID: a, PluginID: "p", ExternalID: "ext-v",
				AccessMode: writer, AttachmentMode: api.AttachmentFileSystem,
			})
		}
		mounts := n.StaleMounts
		n.StaleMounts = ledger.Unexplained(tx, &n, nil)
		tx.PutNode(&n)
		ledger.Reported(tx, node, mounts, false)
	})
}

// released waits for the end of the hold.
func (r *rig) released() {
	r.T.Helper()
	keys := []state.Key{state.TableKey(state.TableCluster)}
	for {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		err := state.Until(ctx, r.State, keys, func(tx *state.Txn) bool { return tx.Rollback() == nil })
		cancel()
		switch {
		case err == nil:
			return
		case r.Context().Err() != nil:
			r.T.Fatal(err)
		}
		r.Edit(func(tx *state.Txn) { tx.PutRollback(tx.Rollback()) }) // the timer does not follow the clock of the test
	}
}

// No user gets a volume that another node has mounted, which the older state does not contain.
func TestNoUserGetsAVolumeBeforeAllNodesHaveReported(t *testing.T) {
	t.Parallel()
	for what, kind := range map[string]func(*api.Node){"attached": func(*api.Node) {}, "not attached": volumestest.NoController} {
		r := newRig(t, atOnce)
		n1, n2 := r.Node("n1", kind), r.Node("n2", kind)
		r.Register(volumestest.Spec("v"))
		old := r.saved()
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		before := n2.Count("Controller.Publish")
		r.restore(old, "n1", "n2")
		r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
		r.reports("n2")
		if s := r.ClaimState("v", "a2"); s != api.ClaimTaken {
			t.Fatalf("%s: the claim is %q before n1 has reported", what, s)
		}
		r.reports("n1", "a1")
		r.released()
		c := r.State.Read().Claim("default", "v", "a2", "")
		if c.State != api.ClaimWaiting || c.Predecessor != "a1" || n2.Count("Controller.Publish") != before {
			t.Fatalf("%s: the claim is %+v, calls are %v", what, c, n2.Calls())
		}
		r.Unmounted("v", "a1", "n1")
		r.MustClaim("v", "a2", "n2")
		if detached := n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") == 1; detached != (what == "attached") {
			t.Errorf("%s: calls are %v and %v", what, n1.Calls(), n2.Calls())
		}
	}
}

// A ready claim of the older state waits when its node does not have the volume mounted and another one has.
func TestReadyClaimOfAnOlderStateWaitsForTheMountElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, first := range []string{"n1", "n2"} {
			r := newRig(t, atOnce)
			r.Node("n1", volumestest.NoController)
			r.Node("n2", volumestest.NoController)
			r.Register(volumestest.Spec("v"))
			r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
			r.MustClaim("v", "a2", "n2")
			r.restore(r.saved(), "n1", "n2")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := r.Service.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n2", NodeSecret: "secret-n2"})
			if err == nil || !strings.Contains(err.Error(), "restored to an older state") {
				t.Fatalf("claim: %v", err)
			}
			tell := map[string]func(){"n1": func() { r.reports("n1", "a1") }, "n2": func() { r.reports("n2") }}
			tell[first]()
			delete(tell, first)
			for _, other := range tell {
				other()
			}
			r.released()
			if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting {
				t.Fatalf("%s first: the claim is %q while n1 has the volume", first, s)
			}
			r.Unmounted("v", "a1", "n1")
			r.MustClaim("v", "a2", "n2")
		}
	})
}

// shares has a node get a volume that excludes no user, also during the hold.
func (r *rig) shares(alloc, node string) {
	r.T.Helper()
	r.MustPlace(volumestest.Alloc(alloc, node, "shared", api.AccessMultiNodeMultiWriter))
	r.MustClaim("shared", alloc, node)
}

// A deletion of the older state does not hit what was used since.
func TestNoVolumeIsDeletedBeforeAllNodesHaveReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, atOnce)
		n1 := r.Node("n1")
		r.Register(volumestest.Spec("v"))
		r.Halt()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := r.Service.Delete(ctx, &api.VolumeDeleteRequest{VolumeID: "v"}); err == nil {
			t.Fatal("deleted without a leader")
		}
		r.restore(r.saved(), "n1")
		if err := r.Delete("v"); err == nil || !strings.Contains(err.Error(), "restored to an older state") {
			t.Errorf("delete: %v", err)
		}
		r.reports("n1", "a1")
		r.released()
		r.Eventually("it is given back", func(tx *state.Txn) bool {
			v := tx.Volume("default", "v")
			return v == nil || v.Provision.State == api.VolumeAvailable
		})
		if n1.Count("Controller.Delete") != 0 {
			t.Error("a volume that is mounted is deleted")
		}
	})
}

// A node that does not return is waited for until an operator detaches the volume from it by force, or purges it.
func TestOperatorEndsTheWaitForANode(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{false, true} {
		r := newRig(t, atOnce)
		n1, n2 := r.Node("n1", volumestest.NodeOnly), r.Node("n2")
		r.Register(volumestest.Spec("v"), volumestest.Spec("w"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
		if claimed { // in the older state too
			r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
			r.MustClaim("v", "a1", "n1")
		}
		r.Down("n1", time.Hour)
		attaches := n1.Count("Controller.Publish") + n2.Count("Controller.Publish")
		r.restore(r.saved(), "n1", "n2")
		if claimed {
			r.Edit(func(tx *state.Txn) {
				a := *tx.Alloc("a1")
				a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusLost
				tx.PutAlloc(&a)
				if err := ledger.AllocChanged(tx, &a); err != nil {
					t.Error(err)
				}
			})
		} else {
			r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
		}
		r.MustPlace(volumestest.Alloc("w2", "n2", "w", writer))
		r.reports("n2")
		r.Later(2 * ledger.LeaseDefault)
		for i := range 20 { // while others are served
			r.shares(fmt.Sprint("s", i), "n2")
		}
		if n := n1.Count("Controller.Publish") + n2.Count("Controller.Publish"); n != attaches+1 || n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") != 0 {
			t.Fatalf("claimed %t: before the node has reported, calls are %v and %v", claimed, n1.Calls(), n2.Calls())
		}
		if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
			t.Fatal(err)
		}
		if claimed {
			r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
		}
		r.MustClaim("v", "a2", "n2")
		if s := r.ClaimState("w", "w2"); s == api.ClaimReady {
			t.Errorf("claimed %t: the override is about one volume, and another one is %s", claimed, s)
		}
		r.Edit(func(tx *state.Txn) { ledger.Forgo(tx, "n1") })
		r.released()
		r.MustClaim("w", "w2", "n2")
	}
}

// Nodes that the servers do not know have the time to register, from when the leader saw the restore.
func TestUnknownNodesHaveTheTimeToRegister(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.Regather = time.Hour })
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Later(2 * time.Hour) // the term is older
	r.restore(r.saved(), "n1")
	r.reports("n1")
	for range 30 {
		<-time.After(10 * time.Millisecond)
		if r.State.Read().Rollback() == nil {
			t.Fatal("volumes are released before unknown nodes had the time to register")
		}
	}
	for range 300 {
		if r.State.Read().Rollback() == nil {
			return
		}
		r.Later(time.Hour)
		r.Edit(func(tx *state.Txn) { tx.PutRollback(tx.Rollback()) })
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the hold does not end")
}

// An attach could give a mount its path back that was given up, also of a shared volume.
func TestNothingIsAttachedToANodeThatHasNotReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.restore(r.saved(), "n1")
	r.MustPlace(volumestest.Alloc("s1", "n1", "shared", api.AccessMultiNodeMultiWriter))
	r.shares("s2", "n2")
	attaches := func() int { return n1.Count("Controller.Publish") + n2.Count("Controller.Publish") }
	if attaches() != 1 {
		t.Errorf("%d attaches: %v and %v", attaches(), n1.Calls(), n2.Calls())
	}
	r.reports("n1")
	r.MustClaim("shared", "s1", "n1")
	if attaches() < 2 { // more when the intent is renewed, as the wait ends, while the node is attached
		t.Errorf("%d attaches: %v and %v", attaches(), n1.Calls(), n2.Calls())
	}
}

// A node reports a mount while its plugin is away: the volume is attached, and has to be detached.
func TestMountOfANodeWithoutItsPluginIsDetached(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n1, n2 := r.Node("n1", volumestest.NodeOnly), r.Node("n2")
	r.Register(volumestest.Spec("v"))
	old := r.saved()
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	plugins := r.State.Read().Node("n1").CSINodePlugins
	r.restore(old, "n1", "n2")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins = nil })
	r.reports("n1", "a1")
	r.reports("n2")
	r.released()
	r.Unmounted("v", "a1", "n1")
	r.Eventually("what it waits for is told", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "is not known until CSI plugin")
	})
	if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting {
		t.Fatalf("the claim is %s", s)
	}
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins = plugins })
	r.MustClaim("v", "a2", "n2")
	if n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") != 1 {
		t.Errorf("n2 has it, and it was never detached from n1: %v, %v", n1.Calls(), n2.Calls())
	}
}

// The row of a lost node is outdated until the node has reported.
func TestNodeOfAnOlderStateIsNotGivenUpBeforeItHasReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		a := *tx.Alloc("a1")
		a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusLost
		tx.PutAlloc(&a)
		if err := ledger.AllocChanged(tx, &a); err != nil {
			t.Error(err)
		}
	})
	r.Down("n1", time.Hour)
	r.restore(r.saved(), "n1")
	r.Node("n2")
	for i := range 20 { // while others are served
		r.shares(fmt.Sprint("s", i), "n2")
	}
	if c := r.State.Read().Claim("default", "v", "a1", ""); c.State != api.ClaimReleasing || c.LastError != "" {
		t.Errorf("the claim is %+v", c)
	}
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	r.reports("n1", "a1")
	r.released()
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing && s != "" || n.Count("NodeVolume.Detach") == 0 && n.Count("Controller.Unpublish") > 0 {
		t.Errorf("the claim is %s, calls are %v", s, n.Calls())
	}
}

// An attach waits for the end of what is attached elsewhere without a claim, and goes on when an operator ends that.
func TestAttachGoesOnWhenWhatIsAttachedElsewhereIsEndedByForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
		n1, n2 := r.Node("n1"), r.Node("n2", volumestest.NodeOnly)
		r.Register(volumestest.Spec("v"))
		n1.Says("Controller.Unpublish", codes.Internal, "no")
		r.Halt()
		r.Edit(func(tx *state.Txn) {
			tx.PutAttachment(&api.VolumeAttachment{
				PluginID: "p", ExternalID: "ext-v", NodeID: "n1", ProviderNodeID: "i-1", State: api.AttachmentUnpublishing, AccessMode: writer, Called: true,
			})
		})
		r.Start()
		r.Eventually("the detach has failed", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1").LastError != "" })
		r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
		synctest.Wait() // the leader has seen it
		if got := n1.Count("Controller.Publish") + n2.Count("Controller.Publish"); got != 0 {
			t.Fatalf("it is attached to n2 beside n1: %v", n1.Calls())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Service.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n2", NodeSecret: "secret-n2"})
		if err == nil || !strings.Contains(err.Error(), "still attached to node n1") || !strings.Contains(err.Error(), "volume detach -force v n1") {
			t.Errorf("the claim waits: %v", err)
		}
		if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
			t.Fatal(err)
		}
		r.MustClaim("v", "a2", "n2")
	})
}
