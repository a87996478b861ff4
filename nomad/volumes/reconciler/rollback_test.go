package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// atOnce has nodes that nobody knows be heard at once.
func atOnce(l *reconciler.Limits) { l.Regather = time.Millisecond }

// saved remembers the state as it is now.
func (r *rig) saved() *bytes.Buffer {
	r.T.Helper()
	var b bytes.Buffer
	if err := r.State.Read().Dump(&b); err != nil {
		r.T.Fatal(err)
	}
	return &b
}

// restore goes back to a state of before, as operators do. The nodes have not told since what they have mounted.
func (r *rig) restore(old *bytes.Buffer, nodes ...string) {
	r.T.Helper()
	r.Halt()
	if err := r.State.Restore(old); err != nil {
		r.T.Fatal(err)
	}
	r.Edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{At: 1, Untold: nodes, Awaited: nodes}) })
	r.Start()
}

// tells has a node register, with the volume mounted for an allocation or without.
func (r *rig) tells(node string, allocs ...string) {
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
		ledger.Told(tx, node, mounts, false)
	})
}

func (r *rig) goesOn() {
	r.T.Helper()
	keys := []state.Key{state.TableKey(state.TableCluster)}
	if err := state.Until(r.Context(), r.State, keys, func(tx *state.Txn) bool { return ledger.Unsure(tx) == "" }); err != nil {
		r.T.Fatal(err)
	}
}

// Nobody gets a volume that another node has mounted, of which an older state knows nothing.
func TestVolumeIsGivenToNobodyUntilNodesHaveTold(t *testing.T) {
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
		r.tells("n2")
		if s := r.ClaimState("v", "a2"); s != api.ClaimTaken {
			t.Fatalf("%s: the claim is %q before n1 has told", what, s)
		}
		r.tells("n1", "a1")
		r.goesOn()
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

// A claim that was ready in the older state is not, when its node has not mounted it and another one has.
func TestReadyClaimOfAnOlderStateWaitsForWhoHasTheVolume(t *testing.T) {
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
			tell := map[string]func(){"n1": func() { r.tells("n1", "a1") }, "n2": func() { r.tells("n2") }}
			tell[first]()
			delete(tell, first)
			for _, other := range tell {
				other()
			}
			r.goesOn()
			if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting {
				t.Fatalf("%s first: the claim is %q while n1 has the volume", first, s)
			}
			r.Unmounted("v", "a1", "n1")
			r.MustClaim("v", "a2", "n2")
		}
	})
}

// shares has a node get a volume that excludes nobody, which goes on all the time.
func (r *rig) shares(alloc, node string) {
	r.T.Helper()
	r.MustPlace(volumestest.Alloc(alloc, node, "shared", api.AccessMultiNodeMultiWriter))
	r.MustClaim("shared", alloc, node)
}

// What a node has mounted is neither detached nor waiting, whatever the older state says of its claim.
func TestMountIsBelievedMoreThanAnOlderState(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Node("n3") // it has told, and is served
	r.Register(volumestest.Spec("v"), volumestest.Spec("grows"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	r.Edit(func(tx *state.Txn) { // an older state, in which another one had it
		a := *tx.Attachment("p", "ext-v", "n1")
		a.State, a.Fence = api.AttachmentUnpublishing, tx.Index()
		tx.PutAttachment(&a)
		c := *tx.Claim("default", "v", "a1", "")
		before := c
		c.State, c.Predecessor = api.ClaimWaiting, "a0"
		tx.PutClaim(&c)
		before.AllocID, before.NodeID = "a0", "n2"
		tx.PutClaim(&before)
		runs := *tx.Alloc("a1")
		runs.ID, runs.NodeID = "a0", "n2"
		tx.PutAlloc(&runs)
		a.ExternalID = "ext-left"
		tx.PutAttachment(&a)
		v := *tx.Volume("default", "grows")
		v.Provision.State, v.Provision.Intent, v.RequestedCapacityMin = api.VolumeExpanding, tx.Index(), 10
		tx.PutVolume(&v)
	})
	r.restore(r.saved(), "n1", "n2")
	r.shares("s1", "n3")
	if n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish")+n1.Count("Controller.Expand")+n2.Count("Controller.Expand") != 0 {
		t.Errorf("calls are %v and %v", n1.Calls(), n2.Calls())
	}
	r.tells("n1", "a1")
	if s := r.ClaimState("v", "a1"); s != api.ClaimReady {
		t.Errorf("the claim is %s", s)
	}
	r.tells("n2")
	r.goesOn()
	a := r.State.Read().Attachment("p", "ext-v", "n1")
	if r.ClaimState("v", "a1") != api.ClaimReady || r.ClaimState("v", "a0") != api.ClaimWaiting || a.State != api.AttachmentPublished {
		t.Errorf("the claims are %s and %s, the attachment %s", r.ClaimState("v", "a1"), r.ClaimState("v", "a0"), a.State)
	}
	r.Eventually("what nobody has is detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-left", "n1") == nil })
	r.Eventually("the volume grows", func(tx *state.Txn) bool { return tx.Volume("default", "grows").Provision.State == api.VolumeAvailable })
}

// A deletion of the older state does not hit what was used since.
func TestVolumeIsNotDeletedUntilNodesHaveTold(t *testing.T) {
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
		r.tells("n1", "a1")
		r.goesOn()
		r.Eventually("it is given back", func(tx *state.Txn) bool {
			v := tx.Volume("default", "v")
			return v == nil || v.Provision.State == api.VolumeAvailable
		})
		if n1.Count("Controller.Delete") != 0 {
			t.Error("a volume that is mounted is deleted")
		}
	})
}

// A node that does not tell is waited for as long as anybody may have promised it a volume.
func TestSilentNodeIsWaitedForWithinBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	r.Node("n1", volumestest.NoController)
	r.Node("n2", volumestest.NoController)
	r.Register(volumestest.Spec("v"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.restore(r.saved(), "n1", "n2")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.tells("n2")
	r.Later(ledger.LeaseDefault)
	r.Edit(func(tx *state.Txn) { tx.PutRollback(tx.Rollback()) })
	for i := range 20 { // while others are served
		r.shares(fmt.Sprint("s", i), "n2")
	}
	if s := r.ClaimState("v", "a2"); s != api.ClaimTaken {
		t.Fatalf("the claim is %q while the node may have a lease", s)
	}
	r.leasesEnd()
	r.MustClaim("v", "a2", "n2")
	if !ledger.Untold(r.State.Read(), "n1") || ledger.Untold(r.State.Read(), "n2") {
		t.Errorf("they are asked when they are heard: %+v", r.State.Read().Rollback())
	}
	r.tells("n1")
	if b := r.State.Read().Rollback(); b != nil {
		t.Errorf("all have told, and %+v is left", b)
	}
}

// leasesEnd lets the longest lease pass until volumes go on: the leader counts it from when it saw the restore.
func (r *rig) leasesEnd() {
	r.T.Helper()
	over := func() bool { return ledger.Unsure(r.State.Read()) == "" }
	for try := 0; !over(); try++ {
		if try == 300 {
			r.T.Fatalf("volumes still wait for what nodes have mounted: %+v", r.State.Read().Rollback())
		}
		r.Later(ledger.LeaseDefault)
		r.Edit(func(tx *state.Txn) { tx.PutRollback(tx.Rollback()) })
		time.Sleep(100 * time.Millisecond)
	}
}

// Raft gives the older state to the leader in the middle of its term, which begins anew only when a quorum has it.
func TestARestoreInTheMiddleOfALongTermWaitsForNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	r.Node("n1")
	r.Node("n2")
	r.Register(volumestest.Spec("v"))
	at := time.Now().Add(time.Hour)
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutRollback(&api.Rollback{At: at.UnixNano(), Untold: []string{"n1", "n2"}, Awaited: []string{"n1", "n2"}})
	})
	old := r.saved()
	r.Edit(func(tx *state.Txn) { tx.PutRollback(nil) })
	r.Start()
	r.Later(time.Hour) // it has led for an hour
	if err := r.State.Restore(old); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		<-time.After(10 * time.Millisecond)
		if ledger.Unsure(r.State.Read()) == "" {
			t.Fatal("volumes go on, and no node has told what it has mounted")
		}
	}
}

// What an older state leaves of an attach that was under way is not carried out for nobody, and undone in the end.
func TestAttachThatARestoreLeftWithoutClaimIsUndone(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("v"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{
			PluginID: "p", ExternalID: "ext-v", NodeID: "n1", AccessMode: writer, AttachmentMode: api.AttachmentFileSystem,
			ProviderNodeID: ledger.ProviderNode(tx, "p", "n1"), Called: true, State: api.AttachmentPublishing, Fence: tx.Index(),
		})
	})
	r.restore(r.saved(), "n1")
	r.shares("s1", "n2") // others are served meanwhile
	if n := n1.Count("Controller.Publish") + n2.Count("Controller.Publish"); n != 1 {
		t.Errorf("%d attaches, and one is wanted: %v", n, n1.Calls())
	}
	r.tells("n1")
	r.goesOn()
	r.Eventually("it is detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1") == nil })
	if n1.Count("Controller.Publish")+n2.Count("Controller.Publish") != 1 || n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") != 1 {
		t.Errorf("calls are %v and %v", n1.Calls(), n2.Calls())
	}
}

// A node of which nothing is known gets no path back by an attach, whoever may use the volume beside.
func TestNothingIsAttachedToANodeThatHasNotToldYet(t *testing.T) {
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
	r.tells("n1")
	r.MustClaim("shared", "s1", "n1")
	if attaches() < 2 { // more when the intent is renewed, as the wait ends, while the node is attached
		t.Errorf("%d attaches: %v and %v", attaches(), n1.Calls(), n2.Calls())
	}
}
