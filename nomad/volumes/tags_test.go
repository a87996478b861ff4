package volumes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

func TestS7ClaimOfALostNodeIsFreedByItself(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.FenceAfter = time.Nanosecond })
	r.node("n2")
	r.node("n1", nodeOnly)
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.down("n1", time.Minute)
	r.ends("a1", api.AllocClientStatusLost)
	r.free("v")
}

func TestS7NodeThatReturnsInTimeKeepsItsSay(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.FenceAfter = time.Hour })
	n := r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.down("n1", 0)
	r.ends("a1", api.AllocClientStatusLost)
	r.change("n1", func(n *api.Node) { n.Status = api.NodeStatusReady })
	if s := r.claimState("v", "a1"); s != api.ClaimReleasing || n.count("Controller.Unpublish") != 0 {
		t.Fatalf("claim is %q", s)
	}
	r.unmounted("v", "a1", "n1")
	r.free("v")
}

func TestS11FreedClaimIsAChangeOfItsRow(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	f := r.state.Feed(state.TableClaims)
	defer f.Close()
	if _, err := f.Next(r.ctx()); err != nil {
		t.Fatal(err)
	}
	r.unmounted("v", "a1", "n1")
	for {
		b, err := f.Next(r.ctx())
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

func TestS13ClaimKeepsWhatReleasingNeeds(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	v := spec("v")
	v.MountOptions = &api.MountOptions{FSType: "ext4", MountFlags: []string{"ro"}}
	r.register(v)
	r.mustPlace(alloc("a1", "n1", "v", writer, func(a *api.Allocation) {
		a.Job.TaskGroups[0].Volumes["data"].MountOptions = &api.MountOptions{MountFlags: []string{"noatime"}}
	}))
	r.mustClaim("v", "a1", "n1")
	n.fails("Controller.Unpublish", fault.New(fault.Internal, "later"))
	r.unmounted("v", "a1", "n1")
	c := r.state.Read().Claim("default", "v", "a1")
	if c.State != api.ClaimUnmounted || c.AccessMode != writer || c.AttachmentMode != "file-system" || c.ExternalID != "ext-v" || !c.Attach ||
		c.MountOptions.FSType != "ext4" || c.MountOptions.MountFlags[0] != "noatime" {
		t.Fatalf("claim is %+v", c)
	}
}

func TestS18TimesAreThoseOfTheCommand(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	at := time.Unix(1_700_000_000, 0)
	r.halt()
	r.raft.Now = func() time.Time { return at }
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	v, c := r.state.Read().Volume("default", "v"), r.state.Read().Claim("default", "v", "a1")
	if v.CreateTime != at.UnixNano() || c.Since != at.UnixNano() {
		t.Fatalf("times are %d and %d", v.CreateTime, c.Since)
	}
}

func TestS28ReplacementOfAnExclusiveUserIsPlacedAndWaits(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	// A failed allocation that still unmounts is replaced at once.
	r.ends("a1", api.AllocClientStatusFailed)
	r.mustPlace(alloc("a2", "n1", "v", writer))
	if c := r.state.Read().Claim("default", "v", "a2"); c.State != api.ClaimWaiting || c.Predecessor != "a1" {
		t.Fatalf("claim is %+v", c)
	}
	r.unmounted("v", "a1", "n1")
	r.mustClaim("v", "a2", "n1")
}

func TestS34KeysOfNamespacesDoNotMix(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.edit(func(tx *state.Txn) {
		tx.PutNamespace(&api.Namespace{Name: "a"})
		tx.PutNamespace(&api.Namespace{Name: "ab"})
	})
	x, y := made("bc"), made("c")
	x.Namespace, x.Name, y.Namespace, y.Name = "a", "x", "ab", "y"
	n.on("Controller.Create", func(_ context.Context, req any) error {
		if req.(*api.ControllerCreateRequest).Name == "x" {
			return fault.New(fault.Timeout, "no answer")
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- r.create(x) }()
	n.await(t, "Controller.Create")
	if err := r.create(y); err != nil {
		t.Fatal(err)
	}
	n.on("Controller.Create", nil)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestS37OneBadVolumeDoesNotStarveTheRest(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("bad"), spec("good"))
	n.on("Controller.Unpublish", func(_ context.Context, req any) error {
		if req.(*api.ControllerUnpublishRequest).ExternalID == "ext-bad" {
			return fault.New(fault.Internal, "broken")
		}
		return nil
	})
	for _, v := range []string{"bad", "good"} {
		r.mustPlace(alloc("a-"+v, "n1", v, writer, of("job-"+v)))
		r.mustClaim(v, "a-"+v, "n1")
		r.unmounted(v, "a-"+v, "n1")
	}
	r.free("good")
}

func TestS42ClaimsAndTheirErrorsAreShown(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Publish", fault.New(fault.Internal, "quota is used up"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	d := r.get("v")
	if len(d.Claims) != 1 || d.Claims[0].State != api.ClaimTaken || d.Claims[0].Since == 0 {
		t.Fatalf("claims are %+v", d.Claims)
	}
	if a := d.Attachments[0]; !strings.Contains(a.LastError, "quota is used up") || a.NextRetry == 0 {
		t.Fatalf("attachment is %+v", a)
	}
}

func TestS47HungUnmountDoesNotBlockSiblings(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.NudgeAfter = time.Nanosecond })
	n1, _ := r.node("n1"), r.node("n2")
	r.register(spec("v", api.AccessMultiNodeMultiWriter))
	n1.on("NodeVolume.Detach", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	for _, id := range []string{"1", "2"} {
		r.mustPlace(alloc("a"+id, "n"+id, "v", api.AccessMultiNodeMultiWriter))
		r.mustClaim("v", "a"+id, "n"+id)
	}
	r.ends("a1", api.AllocClientStatusComplete)
	n1.await(t, "NodeVolume.Detach")
	r.ends("a2", api.AllocClientStatusComplete)
	r.eventually("the second is freed", func(tx *state.Txn) bool { return tx.Claim("default", "v", "a2") == nil })
	if s := r.claimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("the first is %q", s)
	}
}

func TestS49NoSingleInstanceSpeaksForThePlugin(t *testing.T) {
	r := newRig(t)
	r.node("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = false
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{}
	})
	n2 := r.node("n2")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n2", "v", writer))
	r.mustClaim("v", "a1", "n2")
	if n2.count("Controller.Publish") != 1 {
		t.Fatal("the attach was skipped on the word of an unhealthy instance")
	}
}

func TestSharedExternalVolumeHasOneAttachment(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	twin := spec("w", api.AccessSingleNodeMulti)
	twin.ExternalID = "ext-v"
	r.register(spec("v", api.AccessSingleNodeMulti), twin)
	r.mustPlace(alloc("a1", "n1", "v", api.AccessSingleNodeMulti))
	r.mustPlace(alloc("b1", "n1", "w", api.AccessSingleNodeMulti, of("other")))
	r.mustClaim("v", "a1", "n1")
	r.mustClaim("w", "b1", "n1")
	r.unmounted("v", "a1", "n1")
	if s := r.claimState("w", "b1"); s != api.ClaimReady || n.count("Controller.Unpublish") != 0 {
		t.Fatalf("the other spec's claim is %q", s)
	}
	r.unmounted("w", "b1", "n1")
	r.free("v")
	if n.count("Controller.Publish") != 1 {
		t.Fatalf("calls are %v", n.calls)
	}
}
