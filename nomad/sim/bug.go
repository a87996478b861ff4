package sim

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Bug breaks one rule on purpose.
type Bug string

// Bugs, each with the invariant that it breaks.
const (
	NoBug Bug = ""
	// BugNoCapacity lets everybody have every volume: two writers.
	BugNoCapacity Bug = "no capacity rule"
	// BugEarlyFree frees an unmounted claim while its node is still attached: attached without a claim.
	BugEarlyFree Bug = "claim freed before the detach"
	// BugEarlyReady lets nodes mount before the driver has answered: mounted and not attached.
	BugEarlyReady Bug = "ready while publishing"
	// BugEarlyDetach detaches when the workload is over instead of when it is unmounted: detached under a mount.
	BugEarlyDetach Bug = "detached while releasing"
	// BugTwoCalls calls the driver again while a call is in flight.
	BugTwoCalls Bug = "two calls in flight"
	// BugAnswerWithoutCall records a detach that was not asked for: an effect without a record.
	BugAnswerWithoutCall Bug = "recorded without calling"
	// BugNoFence executes calls of deposed leaders however late they arrive: an effect without a record.
	BugNoFence Bug = "late calls executed"
	// BugTwoHosts has the hosts of the controller believe what they saw themselves only: an effect without a record.
	BugTwoHosts Bug = "fences per host"
	// BugForgetful has a host of the controller forget with its process what it saw: an effect without a record.
	BugForgetful Bug = "intents forgotten with the process"
	// BugForgottenClaim does not tell claims that their allocation failed: never freed.
	BugForgottenClaim Bug = "failed allocations keep their claims"
	// BugUnintendedVolume calls the driver before the intent to create is written.
	BugUnintendedVolume Bug = "created without an intent"
	// BugRestless settles differently each time.
	BugRestless Bug = "settle not idempotent"
	// BugAssumedDetach takes a lost node for detached without the storage's yes.
	BugAssumedDetach Bug = "lost node not fenced"
	// BugNoLease gives volumes without attach away before the old node's lease is over: two writers.
	BugNoLease Bug = "lease not waited for"
	// BugEarlyMount lets the agent mount before its claim is ready: mounted and not attached.
	BugEarlyMount Bug = "mounted before ready"
	// BugEarlyReport lets the agent report an unmount that it did not do: detached under a mount.
	BugEarlyReport Bug = "reported without unmounting"
	// BugStaleAnswer takes an answer to a replaced intent for one to the newest: an effect without a record.
	BugStaleAnswer Bug = "stale answers recorded"
	// BugLostWake gives the volume to nobody who waits for it: never served.
	BugLostWake Bug = "waiting claims not woken"
	// BugSpecLocked locks a volume that is being deleted or expanded by the one spec only: deleted under a user.
	BugSpecLocked Bug = "locks of one spec only"
	// BugStaleMounts takes the return of a node for the proof that its old mounts are gone: two writers.
	BugStaleMounts Bug = "stale mounts forgotten"
	// BugNotFound takes NOT_FOUND of a detach for its proof: an effect without a record.
	BugNotFound Bug = "not found taken for detached"
	// BugNotUndone takes a publish that was refused for one that never had its effect: an effect without a record.
	BugNotUndone Bug = "refused publishes not undone"
	// BugFrozenSecrets detaches with the secrets of the attach: left in the end.
	BugFrozenSecrets Bug = "secrets frozen at the attach"
	// BugUnasked writes off what a lost node has, without an operator: an effect without a record.
	BugUnasked Bug = "written off without an operator"
	// BugBound keeps what an operator writes off until the driver agrees.
	BugBound Bug = "nothing freed by writing off"
	// BugAnyMode lets claims use what was attached for others.
	BugAnyMode Bug = "attachments serve every mode"
)

// Bugs lists all bugs that can be planted.
func Bugs() []Bug {
	return []Bug{
		BugNoCapacity, BugEarlyFree, BugEarlyReady, BugEarlyDetach, BugTwoCalls, BugAnswerWithoutCall, BugNoFence,
		BugForgottenClaim, BugUnintendedVolume, BugRestless, BugAssumedDetach, BugNoLease,
		BugTwoHosts, BugEarlyMount, BugEarlyReport, BugStaleAnswer, BugLostWake, BugStaleMounts, BugSpecLocked,
		BugForgetful, BugNotFound, BugNotUndone, BugFrozenSecrets, BugUnasked, BugBound, BugAnyMode,
	}
}

// rules are the standard ones with the bug in them.
func (b Bug) rules(r ledger.Rules) ledger.Rules {
	settle := r.Settle
	switch b {
	case BugNoCapacity:
		r.Fits = func(v *api.Volume, _ claim.Book, _ claim.Request, _ map[string]bool) claim.Answer {
			if v.Provision.State != api.VolumeAvailable {
				return claim.Answer{Verdict: claim.Refused, Reason: "not available"}
			}
			return claim.Answer{Verdict: claim.Fit}
		}
	case BugEarlyFree:
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book {
			b = settle(b, at)
			b.Claims = slices.DeleteFunc(slices.Clone(b.Claims), func(c *api.VolumeClaim) bool { return c.State == api.ClaimUnmounted })
			return b
		}
	case BugEarlyReady:
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book { return early(settle(b, at)) }
	case BugEarlyDetach:
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book { return pulled(settle(b, at), at) }
	case BugLostWake:
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book { return unwoken(settle, b, at) }
	case BugAnyMode:
		fits := r.Fits
		r.Fits = func(v *api.Volume, b claim.Book, q claim.Request, stopping map[string]bool) claim.Answer {
			return fits(v, modeless(b), q, stopping)
		}
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book { return anyMode(settle, b, at) }
	case BugRestless:
		r.Settle = func(b claim.Book, at claim.Moment) claim.Book { return unsettled(settle(b, at)) }
	}
	return r
}

// early makes taken claims ready whose attachment is only intended.
func early(b claim.Book) claim.Book {
	b.Claims = slices.Clone(b.Claims)
	for i, c := range b.Claims {
		if c.State == api.ClaimTaken {
			next := *c
			next.State = api.ClaimReady
			b.Claims[i] = &next
		}
	}
	return b
}

// modeless are the attachments of a book without what they were published for.
func modeless(b claim.Book) claim.Book {
	b.Attachments = slices.Clone(b.Attachments)
	for i, a := range b.Attachments {
		next := *a
		next.AccessMode, next.AttachmentMode = "", ""
		b.Attachments[i] = &next
	}
	return b
}

// anyMode settles as if what is attached served everybody.
func anyMode(settle func(claim.Book, claim.Moment) claim.Book, b claim.Book, at claim.Moment) claim.Book {
	blind := modeless(b)
	known := slices.Clone(blind.Attachments)
	after := settle(blind, at)
	for i, a := range after.Attachments {
		switch was := slices.IndexFunc(b.Attachments, func(o *api.VolumeAttachment) bool { return o.NodeID == a.NodeID }); {
		case slices.Contains(known, a):
			after.Attachments[i] = b.Attachments[was]
		case a.CreateIndex != 0:
			a.AccessMode, a.AttachmentMode = b.Attachments[was].AccessMode, b.Attachments[was].AttachmentMode
		}
	}
	return after
}

// pulled detaches nodes on which nothing but releasing claims are left.
func pulled(b claim.Book, at claim.Moment) claim.Book {
	b.Attachments = slices.Clone(b.Attachments)
	for i, a := range b.Attachments {
		wanted := slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool {
			return c.NodeID == a.NodeID && (c.State == api.ClaimTaken || c.State == api.ClaimReady)
		})
		if !wanted && a.State == api.AttachmentPublished {
			next := *a
			next.State, next.Fence = api.AttachmentUnpublishing, at.Index
			b.Attachments[i] = &next
		}
	}
	return b
}

// unwoken settles all but those who wait; the order of the claims stays.
func unwoken(settle func(claim.Book, claim.Moment) claim.Book, b claim.Book, at claim.Moment) claim.Book {
	before := b.Claims
	waits := func(c *api.VolumeClaim) bool { return c.State == api.ClaimWaiting }
	b.Claims = slices.DeleteFunc(slices.Clone(before), waits)
	b = settle(b, at)
	settled := b.Claims
	b.Claims = nil
	for _, c := range before {
		same := func(o *api.VolumeClaim) bool { return ledger.HoldOf(o) == ledger.HoldOf(c) }
		if i := slices.IndexFunc(settled, same); waits(c) {
			b.Claims = append(b.Claims, c)
		} else if i >= 0 {
			b.Claims = append(b.Claims, settled[i])
		}
	}
	return b
}

func unsettled(b claim.Book) claim.Book {
	b.Claims = slices.Clone(b.Claims)
	for i, c := range b.Claims {
		if c.State == api.ClaimReady {
			next := *c
			next.Since++
			b.Claims[i] = &next
		}
	}
	return b
}
