package reconciler_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A plugin that expands volumes only while nobody uses them is at it: nobody gets the volume meanwhile.
func TestVolumeIsNotUsedWhileItIsExpandedOffline(t *testing.T) {
	t.Parallel()
	r := newRig(t, forAnAnswer)
	n := r.Node("n1", func(n *api.Node) {
		i := n.CSIControllerPlugins["p"].ControllerInfo
		i.SupportsAttachDetach, i.OfflineExpansion = false, true
	})
	if err := r.Create(volumestest.Made("v")); err != nil {
		t.Fatal(err)
	}
	release := n.Hold("Controller.Expand")
	larger := volumestest.Made("v")
	larger.RequestedCapacityMin = 300
	done := make(chan error, 1)
	go func() { done <- r.Create(larger) }()
	n.Await(t, "Controller.Expand")
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	if s := r.ClaimState("v", "a1"); s != api.ClaimTaken {
		t.Errorf("the claim is %q while the call is under way", s)
	}
	said, err := r.Service.Claim(r.Context(), &api.VolumeClaimRequest{VolumeID: "v", AllocID: "a1", NodeID: "n1", NodeSecret: "secret-n1", Tell: true})
	if err != nil || !strings.Contains(said.Waiting, "is being expanded") {
		t.Errorf("the node is told %+v, %v", said, err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.MustClaim("v", "a1", "n1")
}
