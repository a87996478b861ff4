package claim_test

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// An allocation has ended and its node has unmounted the volume; its successor on another node waits until the storage
// has detached it. Each call computes all that follows from one event.
func ExampleSettle() {
	book := claim.Book{
		Claims: []*api.VolumeClaim{
			{AllocID: "old", NodeID: "n1", Attach: true, Mode: api.ClaimWrite, AccessMode: api.AccessSingleNodeWriter, State: api.ClaimUnmounted},
			{AllocID: "new", NodeID: "n2", Attach: true, Mode: api.ClaimWrite, AccessMode: api.AccessSingleNodeWriter, State: api.ClaimWaiting, Predecessor: "old"},
		},
		Attachments: []*api.VolumeAttachment{{NodeID: "n1", AccessMode: api.AccessSingleNodeWriter, State: api.AttachmentPublished}},
	}
	show := func(event string) {
		fmt.Println(event)
		for _, c := range book.Claims {
			fmt.Println(" ", c.AllocID, c.State)
		}
		for _, a := range book.Attachments {
			fmt.Println(" ", a.NodeID, a.State)
		}
	}

	book = claim.Settle(book, claim.Moment{Index: 20})
	show("unmounted on n1:")
	book.Attachments = nil // the driver has answered
	book = claim.Settle(book, claim.Moment{Index: 21})
	show("detached from n1:")
	book.Attachments[0].State = api.AttachmentPublished
	book = claim.Settle(book, claim.Moment{Index: 22})
	show("attached to n2:")
	// Output:
	// unmounted on n1:
	//   old unmounted
	//   new waiting
	//   n1 unpublishing
	// detached from n1:
	//   new taken
	//   n2 publishing
	// attached to n2:
	//   new ready
	//   n2 published
}
