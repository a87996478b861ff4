package volumes_test

import (
	"context"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
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
