package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestClaimBecomesReadyAndIsFreed(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.Secrets = map[string]string{"key": "hidden"}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	out := r.MustClaim("v", "a1", "n1")
	if out.PublishContext["device"] != "/dev/ext-v" || out.Volume.Secrets["key"] != "hidden" || out.Claim.State != api.ClaimReady {
		t.Fatalf("claim answers %+v", out)
	}
	d := r.Get("v")
	if len(d.WriteAllocs) != 1 || d.AccessMode != writer || len(d.Attachments) != 1 || d.Secrets != nil {
		t.Fatalf("details are %+v", d)
	}
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if n.Count("Controller.Publish") != 1 || n.Count("Controller.Unpublish") != 1 {
		t.Fatalf("calls are %v", n.Calls())
	}
}

func TestWithoutAttachClaimsAreReadyAtOnce(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if s := r.ClaimState("v", "a1"); s != api.ClaimReady {
		t.Fatalf("claim is %q", s)
	}
	r.MustClaim("v", "a1", "n1")
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	if len(n.Calls()) != 0 {
		t.Fatalf("the node was asked to %v", n.Calls())
	}
}

func TestSuccessorWaitsForItsPredecessor(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer), "a1")
	if d := r.Get("v"); len(d.WriteAllocs) != 1 || len(d.Claims) != 2 {
		t.Fatalf("a waiting claim counts as a writer: %+v", d.WriteAllocs)
	}
	done := make(chan error, 1)
	go func() { _, err := r.Claim("v", "a2", "n2"); done <- err }()
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestClaimWaitCanBeCancelled(t *testing.T) {
	r := newRig(t)
	r.Node("n1").Says("Controller.Publish", codes.Unavailable, "driver busy")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Service.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1"})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "driver busy") {
		t.Fatalf("error is %v", err)
	}
}

func TestClaimIsGivenToItsNodeOnly(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if _, err := r.Claim("v", "a1", "n2"); !errors.Is(err, fault.Denied) {
		t.Fatalf("another node gets the claim: %v", err)
	}
	if err := r.Report("v", "a1", "n2", ""); !errors.Is(err, fault.Denied) {
		t.Fatalf("another node releases the claim: %v", err)
	}
	if _, err := r.Claim("v", "a9", "n1"); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestClaimMayBeRepeated(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	first, second := r.MustClaim("v", "a1", "n1"), r.MustClaim("v", "a1", "n1")
	if first.PublishContext["device"] != second.PublishContext["device"] || n.Count("Controller.Publish") != 1 {
		t.Fatal("the second answer differs, or the driver was asked again")
	}
}

func TestLateReportDoesNotTouchALaterClaim(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v", "a1", "n1")
	r.Free("v")
	r.MustPlace(volumestest.Alloc("b1", "n1", "v", writer, volumestest.Of("other")))
	r.MustClaim("v", "b1", "n1")
	r.Unmounted("v", "a1", "n1") // doubled: answered alike, changes nothing
	if s := r.ClaimState("v", "b1"); s != api.ClaimReady || n.Count("Controller.Unpublish") != 1 {
		t.Fatalf("the claim of another allocation is %q", s)
	}
}

func TestRegisterNeverTouchesClaims(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	n.On("Controller.Expand", func(context.Context, any) error { <-release; return nil })
	bigger := volumestest.Made("v")
	bigger.RequestedCapacityMin = 200
	done := make(chan error, 1)
	go func() {
		_, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{bigger}})
		done <- err
	}()
	n.Await(t, "Controller.Expand")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer)) // while the driver expands
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.MustClaim("v", "a1", "n1")
	d := r.Get("v")
	if len(d.WriteAllocs) != 1 || d.Capacity != 200 || d.State != api.VolumeAvailable {
		t.Fatalf("details are %+v", d)
	}
	if err := r.Place(volumestest.Alloc("b1", "n2", "v", writer, volumestest.Of("other"))); !errors.Is(err, fault.Conflict) {
		t.Fatalf("two writers: %v", err)
	}
}

func TestPlanApplyChecksClaims(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	// Another group of the same job may not have it either while the first is not leaving.
	err := r.Place(volumestest.Alloc("a2", "n2", "v", writer, func(a *api.Allocation) { a.TaskGroup = "h"; a.Job.TaskGroups[0].Name = "h" }))
	if !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
	if r.State.Read().Alloc("a2") != nil {
		t.Fatal("the placement was stored without its claim")
	}
	if err := r.Place(volumestest.Alloc("a3", "n1", "absent", writer)); !errors.Is(err, fault.NotFound) {
		t.Fatalf("error is %v", err)
	}
}

func TestOnlyCapabilitiesOfTheVolumeCanBeClaimed(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	err := r.Place(volumestest.Alloc("a1", "n1", "v", api.AccessMultiNodeMultiWriter))
	if !errors.Is(err, fault.Conflict) {
		t.Fatalf("error is %v", err)
	}
}

func TestFreedClaimIsAChangeOfItsRow(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	f := r.State.Feed(state.TableClaims)
	defer f.Close()
	if _, err := f.Next(r.Context()); err != nil {
		t.Fatal(err)
	}
	r.Unmounted("v", "a1", "n1")
	for {
		b, err := f.Next(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range b.Changes {
			if before, ok := c.Before.(*api.VolumeClaim); ok && c.After == nil && before.VolumeID == "v" {
				return
			}
		}
	}
}

func TestClaimKeepsWhatReleasingNeeds(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	v := volumestest.Spec("v")
	v.MountOptions = &api.MountOptions{FSType: "ext4", MountFlags: []string{"ro"}}
	r.Register(v)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer, func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{MountFlags: []string{"noatime"}}
	}))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.Internal, "later")
	r.Unmounted("v", "a1", "n1")
	c := r.State.Read().Claim("default", "v", "a1", "")
	if c.State != api.ClaimUnmounted || c.AccessMode != writer || c.AttachmentMode != "file-system" || c.ExternalID != "ext-v" || !c.Attach ||
		c.MountOptions.FSType != "ext4" || c.MountOptions.MountFlags[0] != "noatime" {
		t.Fatalf("claim is %+v", c)
	}
}

func TestReplacementOfAnExclusiveUserIsPlacedAndWaits(t *testing.T) {
	r := newRig(t)
	r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	// A failed allocation that still unmounts is replaced at once.
	r.Ends("a1", api.AllocClientStatusFailed)
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
	if c := r.State.Read().Claim("default", "v", "a2", ""); c.State != api.ClaimWaiting || c.Predecessor != "a1" {
		t.Fatalf("claim is %+v", c)
	}
	r.Unmounted("v", "a1", "n1")
	r.MustClaim("v", "a2", "n1")
}

func TestClaimsAndTheirErrorsAreShown(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Publish", codes.Internal, "quota is used up")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	d := r.Get("v")
	if len(d.Claims) != 1 || d.Claims[0].State != api.ClaimTaken || d.Claims[0].Since == 0 {
		t.Fatalf("claims are %+v", d.Claims)
	}
	if a := d.Attachments[0]; !strings.Contains(a.LastError, "quota is used up") || a.NextRetry == 0 {
		t.Fatalf("attachment is %+v", a)
	}
}

func TestSharedExternalVolumeHasOneAttachment(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	twin := volumestest.Spec("w", api.AccessSingleNodeMulti)
	twin.ExternalID = "ext-v"
	r.Register(volumestest.Spec("v", api.AccessSingleNodeMulti), twin)
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", api.AccessSingleNodeMulti))
	r.MustPlace(volumestest.Alloc("b1", "n1", "w", api.AccessSingleNodeMulti, volumestest.Of("other")))
	r.MustClaim("v", "a1", "n1")
	r.MustClaim("w", "b1", "n1")
	r.Unmounted("v", "a1", "n1")
	if s := r.ClaimState("w", "b1"); s != api.ClaimReady || n.Count("Controller.Unpublish") != 0 {
		t.Fatalf("the other spec's claim is %q", s)
	}
	r.Unmounted("w", "b1", "n1")
	r.Free("v")
	if n.Count("Controller.Publish") != 1 {
		t.Fatalf("calls are %v", n.Calls())
	}
}

// A node that does not unmount what it has of a claim that was given up keeps nobody for ever.
func TestClaimDoesNotWaitForEverForAnOldMount(t *testing.T) {
	// The last one was written by a clock that was fast.
	for ago, refused := range map[time.Duration]bool{time.Minute: false, 10 * time.Minute: true, -24 * time.Hour: true} {
		r := newRig(t)
		r.Node("n1")
		r.Register(volumestest.Spec("v"))
		at := time.Now().Add(-ago)
		r.Halt()
		r.Raft.Now = func() time.Time { return at }
		r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
		r.Change("n1", func(n *api.Node) {
			n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "a1", PluginID: "p", ExternalID: "ext-v", Since: at.UnixNano()}}
		})
		out, err := r.Service.Claim(r.Context(), &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n1", NodeSecret: "secret-n1", Tell: true})
		if refused && (!errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "allocation a1")) {
			t.Errorf("after %s: %+v, %v", ago, out, err)
		}
		if !refused && (err != nil || out.Waiting == "") {
			t.Errorf("after %s: %+v, %v", ago, out, err)
		}
	}
}

func TestNodeThatHasNotReportedItsMountsGetsNoVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Node("n1", volumestest.NoController)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.Edit(func(tx *state.Txn) { tx.PutRollback(&api.Rollback{At: 1, Unreported: []string{"n1"}}) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Service.Claim(ctx, &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1"})
	if err == nil || !strings.Contains(err.Error(), "restored to an older state") {
		t.Errorf("a claim of the older state is answered before its node has reported its mounts: %v", err)
	}
}
