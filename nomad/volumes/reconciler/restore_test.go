package reconciler_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// goesBack has servers that know the present state go back to one of before.
func (r *rig) goesBack(old *bytes.Buffer) {
	r.T.Helper()
	r.Halt()
	older, err := state.New()
	if err == nil {
		err = older.Restore(old)
	}
	if err != nil {
		r.T.Fatal(err)
	}
	tx := older.Write(older.Read().Index(), time.Now())
	ledger.RollBack(tx, r.State.Read())
	tx.Commit()
	var merged bytes.Buffer
	if err := older.Read().Dump(&merged); err != nil {
		r.T.Fatal(err)
	}
	index := r.State.Read().Index()
	if err := r.State.Restore(&merged); err != nil {
		r.T.Fatal(err)
	}
	for r.State.Read().Index() < index { // those of the log do not go back
		r.Edit(func(*state.Txn) {})
	}
	r.Start()
}

// What is attached to a node that died is known after a restore too, and ended as it would have been.
func TestWhatADeadNodeHadIsFreedAfterARestore(t *testing.T) {
	t.Parallel()
	for _, forced := range []bool{false, true} {
		r := newRig(t, atOnce, func(l *reconciler.Limits) { l.FenceAfter = 30 * time.Second })
		n1, n2 := r.Node("n1", volumestest.NodeOnly), r.Node("n2")
		r.Register(volumestest.Spec("v"))
		old := r.saved()
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Down("n1", time.Second)
		r.goesBack(old)
		r.Down("n1", time.Second)
		r.tells("n2")
		r.goesOn()
		r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
		if s := r.ClaimState("v", "a2"); s != api.ClaimWaiting || n2.Count("Controller.Unpublish") != 0 {
			t.Fatalf("the claim is %q while n1 may write", s)
		}
		if forced {
			if _, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
		} else {
			r.Later(time.Minute)
			r.Edit(func(tx *state.Txn) { // it is looked at again
				v := *tx.Volume("default", "v")
				v.FenceAfter = 20 * time.Second
				tx.PutVolume(&v)
			})
		}
		r.MustClaim("v", "a2", "n2")
		if n1.Count("Controller.Unpublish")+n2.Count("Controller.Unpublish") != 1 {
			t.Errorf("it was never detached from n1: %v", n2.Calls())
		}
	}
}

// What a provider alone has attached, without a claim, is detached.
func TestWhatNobodyClaimsIsDetachedAfterARestore(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	old := r.saved()
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: "n1", ProviderNodeID: "i-1", State: api.AttachmentPublished})
	})
	r.Start()
	r.goesBack(old)
	fence := r.State.Read().Attachment("p", "ext-v", "n1").Fence
	if n.Count("Controller.Unpublish") != 0 {
		t.Error("it is detached before its node has told")
	}
	r.tells("n1")
	r.goesOn()
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a != nil && a.Fence <= fence {
		t.Errorf("the intent %d is older than others that hosts have seen", a.Fence)
	}
	r.Eventually("it is detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1") == nil })
	if n.Count("Controller.Unpublish") != 1 {
		t.Errorf("calls are %v", n.Calls())
	}
}

// What has been detached since the older state is attached once more before it is used.
func TestWhatWasDetachedSinceIsAttachedAfterARestore(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	old := r.saved()
	r.Unmounted("v", "a1", "n1")
	r.Eventually("it is detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1") == nil })
	r.goesBack(old)
	r.tells("n1")
	r.MustClaim("v", "a1", "n1")
	if n.Count("Controller.Publish") != 2 {
		t.Errorf("calls are %v", n.Calls())
	}
}

// A node tells what it has mounted while its plugin is away: the volume is attached, and has to be detached.
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
	r.tells("n1", "a1")
	r.tells("n2")
	r.goesOn()
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

// A plugin that is away when its node tells may turn out to attach nothing: there is nothing to detach.
func TestMountOfAPluginThatDoesNotAttachIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	old := r.saved()
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	plugins := r.State.Read().Node("n1").CSINodePlugins
	r.restore(old, "n1")
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins = nil })
	r.tells("n1", "a1")
	r.goesOn()
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a == nil || a.ProviderNodeID != "" || !a.Called {
		t.Fatalf("what nobody knows is %+v", a)
	}
	r.Change("n1", func(n *api.Node) { n.CSINodePlugins = plugins })
	r.Unmounted("v", "a1", "n1")
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
	r.MustClaim("v", "a2", "n1")
}

// A node that tells after the wait has what it has, and nobody gets it beside it.
func TestMountThatIsToldLateIsKnown(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		r := newRig(t, atOnce)
		r.Node("n1", volumestest.NoController)
		r.Node("n2", volumestest.NoController)
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
		r.MustClaim("v", "a1", "n1")
		r.Halt()
		r.Edit(func(tx *state.Txn) { // in the older state it was not mounted yet
			c := *tx.Claim("default", "v", "a1", "")
			c.State = api.ClaimWaiting
			tx.PutClaim(&c)
			if elsewhere {
				other := c
				other.AllocID, other.NodeID, other.State = "a0", "n2", api.ClaimReady
				tx.PutClaim(&other)
				a := *tx.Alloc("a1")
				a.ID, a.NodeID = "a0", "n2"
				tx.PutAlloc(&a)
			}
			tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n1"}, Open: true})
		})
		r.Start()
		r.tells("n1", "a1", "gone")
		want := map[bool]api.ClaimState{false: api.ClaimReady, true: api.ClaimReleasing}[elsewhere]
		if s := r.ClaimState("v", "a1"); s != want {
			t.Errorf("elsewhere %t: the claim is %q", elsewhere, s)
		}
		if s := r.ClaimState("v", "gone"); s != api.ClaimReleasing {
			t.Errorf("elsewhere %t: what it has mounted besides is %q", elsewhere, s)
		}
		if b := r.State.Read().Rollback(); b != nil {
			t.Errorf("all have told, and %+v is left", b)
		}
	}
}

// What is detached on the word of an operator, or for a node that was lost, is not attached because the node tells.
func TestADetachGoesOnThoughItsNodeTellsLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutAttachment(&api.VolumeAttachment{PluginID: "p", ExternalID: "ext-v", NodeID: "n1", ProviderNodeID: "i-1", State: api.AttachmentUnpublishing})
		tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n1"}, Open: true})
	})
	r.tells("n1", "a1")
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a == nil || a.State != api.AttachmentUnpublishing || a.Fence == 0 {
		t.Errorf("the attachment is %+v", a)
	}
	r.Start()
	r.Eventually("it is detached", func(tx *state.Txn) bool { return tx.Attachment("p", "ext-v", "n1") == nil })
}

// Nothing is attached to a node for a volume of one user before it has told what it has mounted.
func TestNothingIsAttachedToANodeThatHasNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"), volumestest.Spec("w"))
	r.Edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n2"}, Open: true}) })
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer))
	r.MustPlace(volumestest.Alloc("a1", "n1", "w", writer))
	r.MustClaim("w", "a1", "n1")
	if n.Count("Controller.Publish") != 1 {
		t.Errorf("calls are %v", n.Calls())
	}
	r.tells("n2")
	r.MustClaim("v", "a2", "n2")
}

// A row that says that a node is lost is an old one, while it has not told.
func TestNodeOfAnOlderStateIsNotGivenUpBeforeItHasTold(t *testing.T) {
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
	r.tells("n1", "a1")
	r.goesOn()
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing && s != "" || n.Count("NodeVolume.Detach") == 0 && n.Count("Controller.Unpublish") > 0 {
		t.Errorf("the claim is %s, calls are %v", s, n.Calls())
	}
}

// Somebody has ended the wait: the answer to this leader may have been lost.
func TestWhatWaitedGoesOnWhoeverEndedTheWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1")
	r.Node("n2")
	r.Register(volumestest.Spec("v"), volumestest.Spec("shared", api.AccessMultiNodeMultiWriter))
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		v := *tx.Volume("default", "v")
		v.Provision.State, v.Provision.Intent, v.RequestedCapacityMin = api.VolumeExpanding, tx.Index(), 10
		tx.PutVolume(&v)
	})
	r.restore(r.saved(), "n1")
	r.shares("s1", "n2") // it has begun to wait
	r.Edit(func(tx *state.Txn) {
		if err := ledger.RollbackOver(tx); err != nil {
			t.Error(err)
		}
	})
	r.Eventually("the volume grows", func(tx *state.Txn) bool { return tx.Volume("default", "v").Provision.State == api.VolumeAvailable })
}

// Nobody knows yet whether a snapshot is still unwanted.
func TestNoSnapshotIsDeletedUntilNodesHaveTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutSnapshotIntent(&api.SnapshotIntent{PluginID: "p", Name: "id", Delete: true, ExternalID: "ext-v"})
	})
	r.restore(r.saved(), "n1")
	if _, err := r.Snapshot("s"); err != nil {
		t.Errorf("one that is wanted: %v", err)
	}
	if n.Count("Controller.SnapshotDelete") != 0 {
		t.Error("it is deleted")
	}
	r.tells("n1")
	r.goesOn()
	r.noIntents()
	if n.Count("Controller.SnapshotDelete") != 1 {
		t.Errorf("calls are %v", n.Calls())
	}
}

// Snapshots that are being cut when the servers go back are answered to those who have asked for them.
func TestAnswersOfSnapshotsAreNotMixedUpByARestore(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce, forAnAnswer)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	old := r.saved()
	var calls atomic.Int32
	n.On("Controller.Snapshot", func(ctx context.Context, q any) error {
		switch {
		case calls.Add(1) <= 2:
			<-ctx.Done()
			return ctx.Err()
		case q.(*api.ControllerSnapshotRequest).Name == "bad":
			return volumestest.Says("Controller.Snapshot", codes.PermissionDenied, "not that one")
		}
		return nil
	})
	answers := map[string]chan error{"good": make(chan error, 1), "bad": make(chan error, 1)}
	for name, answer := range answers {
		go func() {
			_, err := r.Snapshot(name)
			answer <- err
		}()
		n.Await(t, "Controller.Snapshot")
	}
	r.goesBack(old)
	if err := <-answers["good"]; err != nil {
		t.Errorf("one that was made: %v", err)
	}
	wants(t, <-answers["bad"], fault.Denied, "not that one")
}

// What nobody wanted in the older state may have been asked for again since.
func TestSnapshotThatWasMadeSinceTheOlderStateIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, atOnce)
	n := r.Node("n1")
	n.SnapshotsCut(time.Now().Add(-time.Minute))
	r.Register(volumestest.Spec("v"))
	r.Halt()
	r.Edit(func(tx *state.Txn) {
		tx.PutSnapshotIntent(&api.SnapshotIntent{
			PluginID: "p", Name: "s", Namespace: "default", VolumeID: "v", ExternalID: "ext-v",
			Unwanted: true, Uncertain: true, Since: time.Now().Add(-time.Hour).UnixNano(),
		})
	})
	old := r.saved()
	r.Edit(func(tx *state.Txn) { tx.DeleteSnapshotIntent("p", "s", false) })
	r.Start()
	r.goesBack(old)
	r.tells("n1")
	r.goesOn()
	r.noIntents()
	if n.Count("Controller.SnapshotDelete") != 0 {
		t.Error("a snapshot that was cut before the restore, for whom is not known any more, is deleted")
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
