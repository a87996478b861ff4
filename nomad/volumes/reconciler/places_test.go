package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// The storage does not answer for a machine that is dead: its detaches hang for as long as they may, and that is
// nobody else's business.
func TestDetachesOfADeadNodeDelayNoOthers(t *testing.T) {
	t.Parallel()
	const dead = 40
	r := newRig(t, func(l *reconciler.Limits) {
		l.AttachTimeout, l.SlowAfter, l.FenceAfter = time.Minute, 20*time.Millisecond, time.Millisecond
	})
	r.Node("n1", volumestest.NodeOnly)
	r.Node("n3", volumestest.NodeOnly)
	c := r.Node("n2")
	hung := make(chan string, dead)
	c.On("Controller.Unpublish", func(ctx context.Context, req any) error {
		if q := req.(*api.ControllerUnpublishRequest); q.ProviderNodeID == "provider-n1" {
			hung <- q.ExternalID
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	use := func(volume, node string) {
		r.Register(volumestest.Spec(volume))
		r.MustPlace(volumestest.Alloc("a-"+volume, node, volume, writer, volumestest.Of("job-"+volume)))
		r.MustClaim(volume, "a-"+volume, node)
	}
	for i := range dead {
		use(fmt.Sprintf("dead%02d", i), "n1")
	}
	healthy := []string{"x", "y", "z"}
	for _, v := range healthy {
		use(v, "n3")
	}
	r.Down("n1", time.Minute)
	for i := range dead {
		r.Ends(fmt.Sprintf("a-dead%02d", i), api.AllocClientStatusLost)
	}
	<-hung
	for _, v := range healthy {
		r.Ends("a-"+v, api.AllocClientStatusComplete)
		r.Unmounted(v, "a-"+v, "n3")
		r.Free(v)
	}
	// Each of the dead node's is asked for all the same, while the first ones still hang.
	asked := map[string]bool{}
	for bound := time.After(30 * time.Second); len(asked) < dead-1; {
		select {
		case id := <-hung:
			asked[id] = true
		case <-bound:
			t.Fatalf("%d of %d detaches were asked for", len(asked)+1, dead)
		}
	}
}
