package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

const writer = api.AccessSingleNodeWriter

func TestClaimBecomesReadyAndIsFreed(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	v := spec("v")
	v.Secrets = map[string]string{"key": "hidden"}
	r.register(v)
	r.mustPlace(alloc("a1", "n1", "v", writer))
	out := r.mustClaim("v", "a1", "n1")
	if out.PublishContext["device"] != "/dev/ext-v" || out.Volume.Secrets["key"] != "hidden" || out.Claim.State != api.ClaimReady {
		t.Fatalf("claim answers %+v", out)
	}
	d := r.get("v")
	if len(d.WriteAllocs) != 1 || d.AccessMode != writer || len(d.Attachments) != 1 || d.Secrets != nil {
		t.Fatalf("details are %+v", d)
	}
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if n.count("Controller.Publish") != 1 || n.count("Controller.Unpublish") != 1 {
		t.Fatalf("calls are %v", n.calls)
	}
}

func TestWithoutAttachClaimsAreReadyAtOnce(t *testing.T) {
	r := newRig(t)
	n := r.node("n1", noController)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	if s := r.claimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("claim is %q", s)
	}
	r.mustClaim("v", "a1", "n1")
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if len(n.calls) != 0 {
		t.Fatalf("the node was asked to %v", n.calls)
	}
}

func TestSuccessorWaitsForItsPredecessor(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.node("n2")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.mustPlace(alloc("a2", "n2", "v", writer), "a1")
	if d := r.get("v"); len(d.WriteAllocs) != 1 || len(d.Claims) != 2 {
		t.Fatalf("a waiting claim counts as a writer: %+v", d.WriteAllocs)
	}
	done := make(chan error, 1)
	go func() { _, err := r.claim("v", "a2", "n2"); done <- err }()
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v", "a1", "n1")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestClaimWaitCanBeCancelled(t *testing.T) {
	r := newRig(t)
	r.node("n1").fails("Controller.Publish", fault.New(fault.Unavailable, "driver busy"))
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.room.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1"})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "driver busy") {
		t.Fatalf("error is %v", err)
	}
}

func TestClaimNeedsTheNodesSecret(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.node("n2")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	_, err := r.room.Claim(t.Context(), &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "guess"})
	if !errors.Is(err, fault.Denied) {
		t.Fatalf("error is %v", err)
	}
	if _, err := r.claim("v", "a1", "n2"); !errors.Is(err, fault.Denied) {
		t.Fatalf("another node gets the claim: %v", err)
	}
	if err := r.report("v", "a1", "n2", ""); !errors.Is(err, fault.Denied) {
		t.Fatalf("another node releases the claim: %v", err)
	}
	if _, err := r.claim("v", "a9", "n1"); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestS3DetachWaitsForAController(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	// The controller stops, and what is left of it says that nothing is supported.
	r.change("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = false
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{}
	})
	r.unmounted("v", "a1", "n1")
	r.eventually("the reason is shown", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && strings.Contains(a.LastError, "no healthy controller")
	})
	if r.claimState("v", "a1") != api.ClaimUnmounted || n.count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %q", r.claimState("v", "a1"))
	}
	r.node("n2", nodeOnly)
	if err := r.place(alloc("b1", "n2", "v", writer, of("other"))); !errors.Is(err, fault.Conflict) {
		t.Fatalf("another node gets the volume before it is detached: %v", err)
	}
	r.change("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = true
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{SupportsAttachDetach: true}
	})
	n.await(t, "Controller.Unpublish")
}

func TestS4AttachIsIntendedBeforeAnyControllerIsSeen(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	r.change("n1", func(n *api.Node) { n.CSIControllerPlugins = nil })
	if d := r.get("v"); !d.ControllerRequired || d.Schedulable {
		t.Fatalf("controller required %v, schedulable %v", d.ControllerRequired, d.Schedulable)
	}
	r.mustPlace(alloc("a1", "n1", "v", writer))
	if s := r.claimState("v", "a1"); s != api.ClaimTaken {
		t.Fatalf("without a controller the claim is %q", s)
	}
}

func TestS5FailedUnmountKeepsTheClaim(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.ends("a1", api.AllocClientStatusComplete)
	if err := r.report("v", "a1", "n1", "target is busy"); err != nil {
		t.Fatal(err)
	}
	c := r.state.Read().Claim("default", "v", "a1")
	if c == nil || c.State != api.ClaimReleasing || c.LastError != "target is busy" || n.count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %+v", c)
	}
	before := r.state.Read().Index()
	if err := r.report("v", "a1", "n1", "target is busy"); err != nil || r.state.Read().Index() != before {
		t.Fatalf("the same error is written again: %v", err)
	}
	r.unmounted("v", "a1", "n1")
	r.free("v")
	if n.count("Controller.Unpublish") != 1 {
		t.Fatalf("calls are %v", n.calls)
	}
}

func TestS6LostNodeIsFencedBeforeTheVolumeMoves(t *testing.T) {
	r := newRig(t)
	n2 := r.node("n2")
	r.node("n1", nodeOnly)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n2.fails("Controller.Unpublish", fault.New(fault.Internal, "storage does not answer"))
	r.down("n1", 0)
	r.ends("a1", api.AllocClientStatusLost)
	if s := r.claimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("claim of a lost node is %q at once", s)
	}
	r.mustPlace(alloc("a2", "n2", "v", writer))
	r.eventually("the fence is tried", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.State == api.AttachmentUnpublishing && a.Proof == "fenced" && a.LastError != ""
	})
	if s := r.claimState("v", "a2"); s != api.ClaimWaiting {
		t.Fatalf("the successor is %q before the storage said yes", s)
	}
	n2.on("Controller.Unpublish", nil)
	r.mustClaim("v", "a2", "n2")
}

func TestS9NothingUnrelatedIsNeededToWakeTheLoop(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Publish", fault.New(fault.Internal, "broken"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	n.on("Controller.Publish", nil)
	// The plugin comes back: no one waits an hour.
	r.change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	r.change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = true })
	r.mustClaim("v", "a1", "n1")
}

func TestS10FailingDetachIsNoHotLoop(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.RetryMin, l.RetryMax = 20*time.Millisecond, 20*time.Millisecond })
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n.fails("Controller.Unpublish", fault.New(fault.Internal, "broken"))
	before := r.state.Read().Index()
	r.unmounted("v", "a1", "n1")
	for range 20 {
		n.await(t, "Controller.Unpublish")
	}
	// 1 report and the tries 1, 2, 4, 8 and 16.
	if wrote := r.state.Read().Index() - before; wrote > 6 {
		t.Fatalf("20 failures wrote %d entries", wrote)
	}
	if a := r.state.Read().Attachment("p", "ext-v", "n1"); a.LastError == "" || a.NextRetry == 0 || a.Attempts == 0 {
		t.Fatalf("attachment shows %+v", a)
	}
}

func TestS12ReleaseNeedsNothingOfTheNode(t *testing.T) {
	r := newRig(t)
	r.node("n1", nodeOnly)
	n2 := r.node("n2")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	var asked string
	n2.on("Controller.Unpublish", func(_ context.Context, req any) error {
		asked = req.(*api.ControllerUnpublishRequest).ProviderNodeID
		return nil
	})
	r.ends("a1", api.AllocClientStatusComplete)
	r.edit(func(tx *state.Txn) { tx.DeleteNode("n1"); tx.DeleteAlloc("a1") })
	r.edit(func(tx *state.Txn) { // the node's row went long ago
		c := *tx.Claim("default", "v", "a1")
		c.Since = time.Now().Add(-time.Hour).UnixNano()
		tx.PutClaim(&c)
	})
	r.free("v")
	if asked != "provider-n1" {
		t.Fatalf("the driver was asked about node %q", asked)
	}
}

func TestS14AttachAndDetachOfANodeNeverCross(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	hold := make(chan struct{})
	n.on("Controller.Publish", func(ctx context.Context, _ any) error {
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	r.mustPlace(alloc("a1", "n1", "v", writer))
	n.await(t, "Controller.Publish")
	r.ends("a1", api.AllocClientStatusFailed)
	r.mustPlace(alloc("b1", "n1", "v", writer, of("other")))
	if n.count("Controller.Unpublish") != 0 {
		t.Fatal("detach while the attach is under way")
	}
	close(hold)
	r.mustClaim("v", "b1", "n1")
	want := []string{"Controller.Validate", "Controller.Publish", "Controller.Unpublish", "Controller.Publish"}
	n.mu.Lock()
	defer n.mu.Unlock()
	if strings.Join(n.calls, " ") != strings.Join(want, " ") {
		t.Fatalf("calls are %v", n.calls)
	}
	if n.fences[0] >= n.fences[1] {
		t.Fatalf("fences do not grow: %v", n.fences)
	}
}

func TestS15HungVolumeDoesNotBlockOthers(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.node("n2", nodeOnly)
	r.register(spec("v1"), spec("v2"))
	n.on("Controller.Publish", func(ctx context.Context, req any) error {
		if req.(*api.ControllerPublishRequest).ExternalID == "ext-v1" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	r.mustPlace(alloc("a1", "n1", "v1", writer))
	n.await(t, "Controller.Publish")
	r.mustPlace(alloc("a2", "n2", "v2", writer, of("other")))
	r.mustClaim("v2", "a2", "n2")
}

func TestS16HungNodeCallEnds(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.AttachTimeout = 20 * time.Millisecond })
	n := r.node("n1")
	r.register(spec("v"))
	n.on("Controller.Publish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	r.mustPlace(alloc("a1", "n1", "v", writer))
	n.await(t, "Controller.Publish")
	n.on("Controller.Publish", nil)
	r.mustClaim("v", "a1", "n1")
}

func TestS35NextControllerWhenTheFirstIsNotReached(t *testing.T) {
	r := newRig(t)
	n1, n2 := r.node("n1"), r.node("n2")
	r.register(spec("v"))
	n1.disconnect()
	r.mustPlace(alloc("a1", "n2", "v", writer))
	r.mustClaim("v", "a1", "n2")
	if n1.count("Controller.Publish") != 0 || n2.count("Controller.Publish") != 1 {
		t.Fatal("the second controller was not asked")
	}
}

func TestS35OtherErrorsAreNotTriedElsewhere(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n1, n2 := r.node("n1"), r.node("n2")
	r.register(spec("v"))
	n1.fails("Controller.Publish", fault.New(fault.Conflict, "attached elsewhere"))
	r.mustPlace(alloc("a1", "n2", "v", writer))
	r.eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n2")
		return a != nil && strings.Contains(a.LastError, "attached elsewhere")
	})
	if n2.count("Controller.Publish") != 0 {
		t.Fatal("another controller was asked after a final answer")
	}
}

func TestS45ClaimMayBeRepeated(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	first, second := r.mustClaim("v", "a1", "n1"), r.mustClaim("v", "a1", "n1")
	if first.PublishContext["device"] != second.PublishContext["device"] || n.count("Controller.Publish") != 1 {
		t.Fatal("the second answer differs, or the driver was asked again")
	}
}

func TestS46FailedAttachOfAnAllocThatEndsIsUndone(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Publish", fault.New(fault.Timeout, "outcome unknown"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	n.await(t, "Controller.Publish")
	r.ends("a1", api.AllocClientStatusFailed)
	r.free("v")
	if n.count("Controller.Unpublish") == 0 {
		t.Fatal("a publish of unknown outcome was not undone")
	}
}

func TestS50LateReportDoesNotTouchALaterClaim(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v", "a1", "n1")
	r.free("v")
	r.mustPlace(alloc("b1", "n1", "v", writer, of("other")))
	r.mustClaim("v", "b1", "n1")
	r.unmounted("v", "a1", "n1") // doubled: answered alike, changes nothing
	if s := r.claimState("v", "b1"); s != api.ClaimReady || n.count("Controller.Unpublish") != 1 {
		t.Fatalf("the claim of another allocation is %q", s)
	}
}

func TestNewLeaderCarriesOn(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	r.halt()
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.edit(func(tx *state.Txn) { tx.DeleteAlloc("a9") })
	r.start()
	r.mustClaim("v", "a1", "n1")
	r.halt()
	// The allocation is forgotten while nobody leads.
	r.edit(func(tx *state.Txn) { tx.DeleteAlloc("a1") })
	r.start()
	n.await(t, "Controller.Publish")
	r.eventually("the claim is released", func(tx *state.Txn) bool {
		return tx.Claim("default", "v", "a1").State == api.ClaimReleasing
	})
}

func TestNodeThatForgetsToReportIsAskedOnceItsTaskEnded(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.NudgeAfter = time.Millisecond })
	n := r.node("n1")
	r.register(spec("v"), spec("w"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.mustPlace(alloc("a2", "n1", "w", writer))
	r.mustClaim("w", "a2", "n1")
	r.edit(func(tx *state.Txn) {
		a := *tx.Alloc("a1")
		a.DesiredStatus = api.AllocDesiredStatusStop
		tx.PutAlloc(&a)
		if err := ledger.AllocChanged(tx, &a); err != nil {
			t.Error(err)
		}
	})
	// The other volume is freed after the first was looked at.
	r.ends("a2", api.AllocClientStatusComplete)
	r.free("w")
	if s := r.claimState("v", "a1"); s != api.ClaimReleasing || n.count("NodeVolume.Detach") != 1 {
		t.Fatalf("the claim is %q, the node was asked %d times", s, n.count("NodeVolume.Detach"))
	}
	r.ends("a1", api.AllocClientStatusComplete)
	r.free("v")
}

func TestNodeThatForgetsToReportIsAsked(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.NudgeAfter = time.Millisecond })
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	n.fails("NodeVolume.Detach", fault.New(fault.Internal, "busy"))
	r.ends("a1", api.AllocClientStatusComplete)
	r.eventually("the reason is shown", func(tx *state.Txn) bool {
		c := tx.Claim("default", "v", "a1")
		return c != nil && strings.Contains(c.LastError, "busy")
	})
	n.on("NodeVolume.Detach", nil)
	r.free("v")
}
