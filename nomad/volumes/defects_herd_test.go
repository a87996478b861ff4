package volumes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// S41: a new leader looks only at volumes with something to do, and calls no more drivers at once than
// ever.
func TestS41NewLeaderIsNoHerd(t *testing.T) {
	const settled, open, width = 20, 12, 3
	r := newRig(t, func(l *volumes.Limits) { l.Detaching = width })
	nodes := []*node{r.node("n0")}
	for i := 1; i <= open; i++ {
		nodes = append(nodes, r.node(fmt.Sprintf("n%d", i), nodeOnly))
	}
	for i := range settled + open {
		id := fmt.Sprintf("v%d", i)
		r.register(spec(id))
		on := fmt.Sprintf("n%d", 1+i%open)
		r.mustPlace(alloc("a"+id, on, id, writer, of("job"+id)))
		r.mustClaim(id, "a"+id, on)
	}
	r.halt()
	for i := range open {
		id := fmt.Sprintf("v%d", i)
		r.ends("a"+id, api.AllocClientStatusComplete)
		r.unmounted(id, "a"+id, fmt.Sprintf("n%d", 1+i%open))
	}

	var mu sync.Mutex
	inside, most := 0, 0
	full := make(chan struct{})
	nodes[0].on("Controller.Unpublish", func(ctx context.Context, _ any) error {
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
	published := nodes[0].count("Controller.Publish")
	r.start()
	r.eventually("what was open is done", func(tx *state.Txn) bool {
		n := 0
		for range tx.Attachments() {
			n++
		}
		return n == settled
	})
	mu.Lock()
	defer mu.Unlock()
	if most != width || nodes[0].count("Controller.Unpublish") != open || nodes[0].count("Controller.Publish") != published {
		t.Errorf("%d calls at once, %d detachments, %d attachments anew", most,
			nodes[0].count("Controller.Unpublish"), nodes[0].count("Controller.Publish")-published)
	}
}
