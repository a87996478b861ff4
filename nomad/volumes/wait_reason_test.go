package volumes_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

func TestClaimThatWaitsTellsEachReasonOnce(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	n.Says("Controller.Publish", codes.Unavailable, "the array reboots")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	req := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1", Tell: true}
	for !strings.Contains(req.Known, "the array reboots") {
		out, err := r.Service.Claim(r.Context(), req)
		if err != nil || out.Volume != nil || out.Waiting == "" || out.Waiting == req.Known {
			t.Fatalf("after %q: %+v %v", req.Known, out, err)
		}
		req.Known = out.Waiting
	}
	n.On("Controller.Publish", nil)
	for req.Known != "" {
		out, err := r.Service.Claim(r.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if req.Known = out.Waiting; out.Waiting == "" && out.Volume == nil {
			t.Fatalf("granted: %+v", out)
		}
	}
}

func TestClaimThatWaitsForAnotherTellsOfIt(t *testing.T) {
	r := newRig(t)
	n := r.Node("n1")
	r.Node("n2", volumestest.NodeOnly)
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	n.Says("Controller.Unpublish", codes.Unavailable, "the array is full of holes")
	r.MustPlace(volumestest.Alloc("a2", "n2", "v", writer), "a1")
	req := &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a2", NodeID: "n2", NodeSecret: "secret-n2", Tell: true}
	until := func(words ...string) {
		t.Helper()
		for slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(req.Known, w) }) {
			out, err := r.Service.Claim(r.Context(), req)
			if err != nil || out.Waiting == "" {
				t.Fatalf("after %q: %+v %v", req.Known, out, err)
			}
			req.Known = out.Waiting
		}
	}
	until("allocation a1", `job "job"`, "node n1", "unmounted")
	if err := r.Report("v", "a1", "n1", "target is busy"); err != nil {
		t.Fatal(err)
	}
	until("allocation a1", "target is busy")
	r.Unmounted("v", "a1", "n1")
	until("allocation a1", "node n1", "the array is full of holes", "(try 2, again at ")
	n.On("Controller.Unpublish", nil)
	r.MustClaim("v", "a2", "n2")
}
