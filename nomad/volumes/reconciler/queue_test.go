package reconciler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// On one node too: attaches and detaches go one after the other, but none waits for one that hangs.
func TestHungCallsDoNotBlockOthersOfTheirNode(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.SlowAfter, l.AttachTimeout = 30*time.Millisecond, time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v1"), volumestest.Spec("v2"), volumestest.Spec("v3"), volumestest.Spec("v4"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v1", writer))
	r.MustClaim("v1", "a1", "n1")
	hang := func(ctx context.Context, req any) error {
		if r, ok := req.(*api.ControllerPublishRequest); ok && r.ExternalID != "ext-v2" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	n.On("Controller.Publish", hang)
	n.On("Controller.Unpublish", hang)
	r.Ends("a1", api.AllocClientStatusComplete)
	r.Unmounted("v1", "a1", "n1")
	n.Await(t, "Controller.Unpublish")
	r.MustPlace(volumestest.Alloc("a2", "n1", "v2", writer))
	n.Await(t, "Controller.Publish")
	r.MustPlace(volumestest.Alloc("a3", "n1", "v3", writer))
	r.MustPlace(volumestest.Alloc("a4", "n1", "v4", writer))
	r.MustClaim("v3", "a3", "n1")
	r.MustClaim("v4", "a4", "n1")
}

func TestNothingUnrelatedIsNeededToWakeTheReconciler(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.Says("Controller.Publish", codes.Internal, "broken")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n1")
		return a != nil && a.LastError != ""
	})
	n.On("Controller.Publish", nil)
	// The plugin comes back: no one waits an hour.
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false })
	r.Change("n1", func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = true })
	r.MustClaim("v", "a1", "n1")
}

func TestFailingDetachIsNoHotLoop(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = 20*time.Millisecond, 20*time.Millisecond })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.Internal, "broken")
	before := r.State.Read().Index()
	r.Unmounted("v", "a1", "n1")
	for range 20 {
		n.Await(t, "Controller.Unpublish")
	}
	// 1 report and the tries 1, 2, 4, 8 and 16.
	if wrote := r.State.Read().Index() - before; wrote > 6 {
		t.Fatalf("20 failures wrote %d entries", wrote)
	}
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); a.LastError == "" || a.NextRetry == 0 || a.Attempts == 0 {
		t.Fatalf("attachment shows %+v", a)
	}
}

func TestHungVolumeDoesNotBlockOthers(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v1"), volumestest.Spec("v2"))
	n.On("Controller.Publish", func(ctx context.Context, req any) error {
		if req.(*api.ControllerPublishRequest).ExternalID == "ext-v1" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	r.MustPlace(volumestest.Alloc("a1", "n1", "v1", writer))
	n.Await(t, "Controller.Publish")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v2", writer, volumestest.Of("other")))
	r.MustClaim("v2", "a2", "n2")
}

func TestNewLeaderCarriesOn(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.Halt()
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.Edit(func(tx *state.Txn) { tx.DeleteAlloc("a9") })
	r.Start()
	r.MustClaim("v", "a1", "n1")
	r.Halt()
	// The allocation is forgotten while nobody leads.
	r.Edit(func(tx *state.Txn) { tx.DeleteAlloc("a1") })
	r.Start()
	n.Await(t, "Controller.Publish")
	r.Eventually("the claim is released", func(tx *state.Txn) bool {
		return tx.Claim("default", "v", "a1", "").State == api.ClaimReleasing
	})
}

// A new leader looks only at volumes with something to do, and calls no more drivers at once than
// ever.
func TestNewLeaderIsNoHerd(t *testing.T) {
	const settled, open, width = 20, 12, 3
	r := newRig(t, func(l *reconciler.Limits) { l.Detaching = width })
	nodes := []*volumestest.Node{r.Node("n0")}
	for i := 1; i <= open; i++ {
		nodes = append(nodes, r.Node(fmt.Sprintf("n%d", i), volumestest.NodeOnly))
	}
	for i := range settled + open {
		id := fmt.Sprintf("v%d", i)
		r.Register(volumestest.Spec(id))
		on := fmt.Sprintf("n%d", 1+i%open)
		r.MustPlace(volumestest.Alloc("a"+id, on, id, writer, volumestest.Of("job"+id)))
		r.MustClaim(id, "a"+id, on)
	}
	r.Halt()
	for i := range open {
		id := fmt.Sprintf("v%d", i)
		r.Ends("a"+id, api.AllocClientStatusComplete)
		r.Unmounted(id, "a"+id, fmt.Sprintf("n%d", 1+i%open))
	}

	var mu sync.Mutex
	inside, most := 0, 0
	full := make(chan struct{})
	nodes[0].On("Controller.Unpublish", func(ctx context.Context, _ any) error {
		mu.Lock()
		inside++
		if most = max(most, inside); inside == width {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		defer func() { mu.Lock(); defer mu.Unlock(); inside-- }()
		select {
		case <-full:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	published := nodes[0].Count("Controller.Publish")
	r.Start()
	r.Eventually("what was open is done", func(tx *state.Txn) bool {
		n := 0
		for range tx.Attachments() {
			n++
		}
		return n == settled
	})
	mu.Lock()
	defer mu.Unlock()
	if most != width || nodes[0].Count("Controller.Unpublish") != open || nodes[0].Count("Controller.Publish") != published {
		t.Errorf("%d calls at once, %d detachments, %d attachments anew", most,
			nodes[0].Count("Controller.Unpublish"), nodes[0].Count("Controller.Publish")-published)
	}
}

func TestDefaultLimitsFillGaps(t *testing.T) {
	if d := reconciler.Default(); d.FenceAfter != 30*time.Second || d.LeaseMargin != 2*time.Second || d.RetryMin != time.Second || d.RetryMax != time.Minute {
		t.Fatalf("defaults are %+v", d)
	}
}

func TestRunEndsWhileACallHangs(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.On("Controller.Publish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	r.Halt()
}

func TestOneBadVolumeDoesNotStarveTheRest(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Register(volumestest.Spec("bad"), volumestest.Spec("good"))
	n.On("Controller.Unpublish", func(_ context.Context, req any) error {
		if req.(*api.ControllerUnpublishRequest).ExternalID == "ext-bad" {
			return volumestest.Says("Controller.Unpublish", codes.Internal, "broken")
		}
		return nil
	})
	for _, v := range []string{"bad", "good"} {
		r.MustPlace(volumestest.Alloc("a-"+v, "n1", v, writer, volumestest.Of("job-"+v)))
		r.MustClaim(v, "a-"+v, "n1")
		r.Unmounted(v, "a-"+v, "n1")
	}
	r.Free("good")
}

func TestHungUnmountDoesNotBlockSiblings(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Nanosecond })
	n1, _ := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("v", api.AccessMultiNodeMultiWriter))
	n1.On("NodeVolume.Detach", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	for _, id := range []string{"1", "2"} {
		r.MustPlace(volumestest.Alloc("a"+id, "n"+id, "v", api.AccessMultiNodeMultiWriter))
		r.MustClaim("v", "a"+id, "n"+id)
	}
	r.Ends("a1", api.AllocClientStatusComplete)
	n1.Await(t, "NodeVolume.Detach")
	r.Ends("a2", api.AllocClientStatusComplete)
	r.Eventually("the second is freed", func(tx *state.Txn) bool { return tx.Claim("default", "v", "a2", "") == nil })
	if s := r.ClaimState("v", "a1"); s != api.ClaimReleasing {
		t.Fatalf("the first is %q", s)
	}
}
