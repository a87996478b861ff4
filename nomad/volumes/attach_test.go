package volumes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// On one node too: attaches and detaches go one after the other, but none waits for one that hangs.
func TestHungCallsDoNotBlockOthersOfTheirNode(t *testing.T) {
	r := newRig(t, func(l *volumes.Limits) { l.SlowAfter, l.AttachTimeout = 30*time.Millisecond, time.Hour })
	n := r.node("n1")
	r.register(spec("v1"), spec("v2"), spec("v3"), spec("v4"))
	r.mustPlace(alloc("a1", "n1", "v1", writer))
	r.mustClaim("v1", "a1", "n1")
	hang := func(ctx context.Context, req any) error {
		if r, ok := req.(*api.ControllerPublishRequest); ok && r.ExternalID != "ext-v2" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	n.on("Controller.Publish", hang)
	n.on("Controller.Unpublish", hang)
	r.ends("a1", api.AllocClientStatusComplete)
	r.unmounted("v1", "a1", "n1")
	n.await(t, "Controller.Unpublish")
	r.mustPlace(alloc("a2", "n1", "v2", writer))
	n.await(t, "Controller.Publish")
	r.mustPlace(alloc("a3", "n1", "v3", writer))
	r.mustPlace(alloc("a4", "n1", "v4", writer))
	r.mustClaim("v3", "a3", "n1")
	r.mustClaim("v4", "a4", "n1")
}

// The claim is told what the driver said, keeps its place until its allocation is over, and leaves nothing.
func TestFinalAnswerToAnAttachFailsTheClaim(t *testing.T) {
	for _, class := range []fault.Class{fault.Invalid, fault.Denied, fault.Unimplemented, fault.NotFound, fault.Exhausted} {
		t.Run(class.String(), func(t *testing.T) {
			r := newRig(t)
			n := r.node("n1")
			r.register(spec("v"))
			n.fails("Controller.Publish", fault.New(class, "the volume has three heads"))
			r.mustPlace(alloc("a1", "n1", "v", writer))
			_, err := r.claim("v", "a1", "n1")
			if !errors.Is(err, class) || !strings.Contains(err.Error(), "three heads") || !strings.Contains(err.Error(), `"v"`) {
				t.Fatalf("claim: %v", err)
			}
			tries := n.count("Controller.Publish")
			r.halt()
			r.start()
			_, err = r.claim("v", "a1", "n1")
			if !errors.Is(err, class) {
				t.Fatalf("the next leader says %v", err)
			}
			n.on("Controller.Publish", nil)
			r.ends("a1", api.AllocClientStatusFailed)
			r.free("v")
			if n.count("Controller.Publish") != tries || n.count("Controller.Unpublish") != 1 {
				t.Errorf("calls are %v: %d publishes before the answer", n.calls, tries)
			}
			r.mustPlace(alloc("a2", "n1", "v", writer))
			r.mustClaim("v", "a2", "n1")
		})
	}
}

func TestConflictAtAttachPasses(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	r.register(spec("v"))
	n.fails("Controller.Publish", fault.New(fault.Conflict, "still attached elsewhere"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	for range 5 {
		n.await(t, "Controller.Publish")
	}
	n.on("Controller.Publish", nil)
	r.mustClaim("v", "a1", "n1")
}
