package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestHungNodeCallEnds(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.AttachTimeout = 20 * time.Millisecond })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	n.On("Controller.Publish", func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	n.Await(t, "Controller.Publish")
	n.On("Controller.Publish", nil)
	r.MustClaim("v", "a1", "n1")
}

func TestNextControllerWhenTheFirstIsNotReached(t *testing.T) {
	r := newRig(t)
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("v"))
	n1.Disconnect()
	r.MustPlace(volumestest.Alloc("a1", "n2", "v", writer))
	r.MustClaim("v", "a1", "n2")
	if n1.Count("Controller.Publish") != 0 || n2.Count("Controller.Publish") != 1 {
		t.Fatal("the second controller was not asked")
	}
}

func TestOtherErrorsAreNotTriedElsewhere(t *testing.T) {
	r := newRig(t, func(l *reconciler.Limits) { l.RetryMin, l.RetryMax = time.Hour, time.Hour })
	n1, n2 := r.Node("n1"), r.Node("n2")
	r.Register(volumestest.Spec("v"))
	for _, n := range []*volumestest.Node{n1, n2} {
		n.Says("Controller.Publish", codes.FailedPrecondition, "attached elsewhere")
	}
	r.MustPlace(volumestest.Alloc("a1", "n2", "v", writer))
	r.Eventually("the error is recorded", func(tx *state.Txn) bool {
		a := tx.Attachment("p", "ext-v", "n2")
		return a != nil && strings.Contains(a.LastError, "attached elsewhere")
	})
	if n1.Count("Controller.Publish")+n2.Count("Controller.Publish") != 1 {
		t.Fatal("another controller was asked after an answer")
	}
}

func TestNoSingleInstanceSpeaksForThePlugin(t *testing.T) {
	r := newRig(t)
	r.Node("n1", func(n *api.Node) {
		n.CSIControllerPlugins["p"].Healthy = false
		n.CSIControllerPlugins["p"].ControllerInfo = &api.CSIControllerInfo{}
	})
	n2 := r.Node("n2")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n2", "v", writer))
	r.MustClaim("v", "a1", "n2")
	if n2.Count("Controller.Publish") != 1 {
		t.Fatal("the attach was skipped on the word of an unhealthy instance")
	}
}

func TestVolumesSpreadOverControllers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nodes := []*volumestest.Node{r.Node("n1"), r.Node("n2"), r.Node("n3")}
	const volumes = 60
	for i := range volumes {
		id := fmt.Sprintf("v%02d", i)
		r.Register(volumestest.Spec(id))
		r.MustPlace(volumestest.Alloc("a"+id, "n1", id, writer, volumestest.Of("job"+id)))
		r.MustClaim(id, "a"+id, "n1")
		r.Ends("a"+id, api.AllocClientStatusComplete)
		r.Unmounted(id, "a"+id, "n1")
		r.Free(id)
	}
	for _, n := range nodes {
		on, off := n.Count("Controller.Publish"), n.Count("Controller.Unpublish")
		if on < volumes/6 || on != off {
			t.Errorf("%d attaches and %d detaches of %d at one of three controllers", on, off, volumes)
		}
	}
}

// hang has the method of all nodes hang until the call is given up, and returns who is asked.
func hang(method string, nodes ...*volumestest.Node) <-chan *volumestest.Node {
	asked := make(chan *volumestest.Node, 100)
	for _, n := range nodes {
		n.On(method, func(ctx context.Context, _ any) error {
			asked <- n
			<-ctx.Done()
			return ctx.Err()
		})
	}
	return asked
}

func TestCallEndsWhenItsControllerGoesAway(t *testing.T) {
	t.Parallel()
	for what, leave := range map[string]func(*api.Node){
		"unhealthy": func(n *api.Node) { n.CSIControllerPlugins["p"].Healthy = false },
		"down":      func(n *api.Node) { n.Status = api.NodeStatusDown },
		"gone":      func(n *api.Node) { n.CSIControllerPlugins = nil },
	} {
		r := newRig(t, func(l *reconciler.Limits) { l.AttachTimeout = time.Minute })
		n1, n2 := r.Node("n1"), r.Node("n2")
		r.Node("user", volumestest.NodeOnly)
		asked := hang("Controller.Publish", n1, n2)
		r.Register(volumestest.Spec("v"))
		r.MustPlace(volumestest.Alloc("a1", "user", "v", writer))
		first := <-asked
		other := map[*volumestest.Node]*volumestest.Node{n1: n2, n2: n1}[first]
		other.On("Controller.Publish", nil)
		r.Change(first.ID(), leave)
		r.MustClaim("v", "a1", "user")
		if first.Count("Controller.Publish") != 1 || other.Count("Controller.Publish") != 1 {
			t.Errorf("%s: calls %v and %v", what, first.Calls(), other.Calls())
		}
	}
}

func TestControllerThatHangsIsAskedAfterTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.AttachTimeout = 50 * time.Millisecond })
	n1, n2 := r.Node("n1"), r.Node("n2")
	asked := hang("Controller.Publish", n1)
	for i := range 10 { // about half of them are n1's
		id := fmt.Sprintf("v%d", i)
		r.Register(volumestest.Spec(id))
		r.MustPlace(volumestest.Alloc("a"+id, "n2", id, writer, volumestest.Of("job"+id)))
		r.MustClaim(id, "a"+id, "n2")
	}
	if len(asked) != 1 || n2.Count("Controller.Publish") != 10 {
		t.Errorf("n1, which hangs, was asked %d times, n2 %d times", len(asked), n2.Count("Controller.Publish"))
	}
}

// A call whose answer is lost may still be at work: the next controller is asked after the backoff, not at once.
func TestLostAnswerIsNotAskedElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, patient)
	n1, n2 := r.Node("n1"), r.Node("n2")
	for _, n := range []*volumestest.Node{n1, n2} {
		n.Fails("Controller.Publish", fault.New(fault.Unavailable, "the connection broke"))
	}
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.stuck("v", "n1", "the connection broke")
	if a := r.State.Read().Attachment("p", "ext-v", "n1"); strings.Contains(a.LastError, "before that") {
		t.Errorf("%q after calls %v and %v", a.LastError, n1.Calls(), n2.Calls())
	}
}
