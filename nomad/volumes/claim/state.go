package claim

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Gone is the state of a claim or attachment without a row.
const Gone = ""

// outside lists the moves of a claim that an outside event may cause.
var outside = map[api.ClaimState][]api.ClaimState{
	api.ClaimWaiting:   {Gone},
	api.ClaimTaken:     {api.ClaimUnmounted},
	api.ClaimReady:     {api.ClaimReleasing, api.ClaimUnmounted},
	api.ClaimReleasing: {api.ClaimUnmounted},
}

// Legal reports whether an outside event may move a claim.
func Legal(from, to api.ClaimState) bool { return slices.Contains(outside[from], to) }

// answers lists the transitions of an attachment that a driver's reply may cause.
var answers = map[api.AttachmentState]api.AttachmentState{
	api.AttachmentPublishing:   api.AttachmentPublished,
	api.AttachmentUnpublishing: Gone,
	api.AttachmentWrittenOff:   Gone,
}

// Answers reports whether a driver's reply may cause the transition of an attachment.
func Answers(from, to api.AttachmentState) bool {
	next, known := answers[from]
	return known && next == to
}

// Live reports whether a claim keeps its node attached.
func Live(s api.ClaimState) bool {
	//exhaustive:enforce
	switch s {
	case api.ClaimTaken, api.ClaimReady, api.ClaimReleasing:
		return true
	case api.ClaimWaiting, api.ClaimUnmounted:
	}
	return false
}

// Leaving reports whether a claim is on its way out whatever else happens.
func Leaving(s api.ClaimState) bool { return s == api.ClaimReleasing || s == api.ClaimUnmounted }
