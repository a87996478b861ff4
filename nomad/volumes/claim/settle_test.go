package claim_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// A claim whose unmount is only presumed, of a node that was given up, lasts as long as the node is attached: that
// somebody else keeps it attached proves nothing. One that the node itself unmounted goes at once.
func TestAPresumedUnmountLastsWhileTheNodeIsAttached(t *testing.T) {
	for presumed, want := range map[bool]int{true: 2, false: 1} {
		of := func(alloc string, s api.ClaimState) *api.VolumeClaim {
			return &api.VolumeClaim{
				Namespace: "default", VolumeID: "v", AllocID: alloc, NodeID: "n1", State: s, Attach: true, Mode: api.ClaimWrite,
				AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem,
			}
		}
		gone, other := of("a1", api.ClaimUnmounted), of("a2", api.ClaimReady)
		gone.Presumed = presumed
		b := claim.Book{
			Claims: []*api.VolumeClaim{gone, other},
			Attachments: []*api.VolumeAttachment{{
				NodeID: "n1", State: api.AttachmentPublished, AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem,
			}},
		}
		if got := claim.Settle(b, claim.Moment{Index: 1}); len(got.Claims) != want {
			t.Errorf("presumed %v: %d claims are left, want %d", presumed, len(got.Claims), want)
		}
		b.Attachments = nil
		b.Claims = []*api.VolumeClaim{gone}
		if got := claim.Settle(b, claim.Moment{Index: 2}); len(got.Claims) != 0 {
			t.Errorf("presumed %v: the claim outlasts the attachment", presumed)
		}
	}
}
