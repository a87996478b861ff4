package volumes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestStopFreesTheClaimWithoutPolling is the release path with a driver that answers at once: what is
// left is our own delay.
func TestStopFreesTheClaimWithoutPolling(t *testing.T) {
	r := newRig(t)
	r.node("n1")
	r.register(spec("v"))
	const rounds = 50
	var took time.Duration
	for i := range rounds {
		id := fmt.Sprintf("a%d", i)
		r.mustPlace(alloc(id, "n1", "v", writer))
		r.mustClaim("v", id, "n1")
		r.ends(id, api.AllocClientStatusComplete)
		start := time.Now()
		r.unmounted("v", id, "n1")
		r.eventually("the claim is free", func(tx *state.Txn) bool { return tx.Claim("default", "v", id) == nil })
		took += time.Since(start)
	}
	if mean := took / rounds; mean > 100*time.Millisecond {
		t.Fatalf("report to free takes %v", mean)
	} else {
		t.Logf("report to free takes %v", mean)
	}
}
