package volumes_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

func TestClaimThatWaitsTellsEachReasonOnce(t *testing.T) {
	r := newRig(t)
	n := r.node("n1")
	n.fails("Controller.Publish", fault.New(fault.Unavailable, "the array reboots"))
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	req := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1", Tell: true}
	for !strings.Contains(req.Known, "the array reboots") {
		out, err := r.room.Claim(r.ctx(), req)
		if err != nil || out.Volume != nil || out.Waiting == "" || out.Waiting == req.Known {
			t.Fatalf("after %q: %+v %v", req.Known, out, err)
		}
		req.Known = out.Waiting
	}
	n.on("Controller.Publish", nil)
	for req.Known != "" {
		out, err := r.room.Claim(r.ctx(), req)
		if err != nil {
			t.Fatal(err)
		}
		if req.Known = out.Waiting; out.Waiting == "" && out.Volume == nil {
			t.Fatalf("granted: %+v", out)
		}
	}
}
