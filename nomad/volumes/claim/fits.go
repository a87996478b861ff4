package claim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Verdict is whether an allocation may have a volume.
type Verdict uint8

// Verdicts.
const (
	// Refused cannot have the volume now.
	Refused Verdict = iota
	// Fit may take it at once.
	Fit
	// Waits may be placed and gets it when its predecessor is gone.
	Waits
)

// String is the verdict in a word.
func (v Verdict) String() string {
	switch v {
	case Fit:
		return "fits"
	case Waits:
		return "waits"
	}
	return "refused"
}

// Request is one allocation's wish for one volume on one node.
type Request struct {
	AllocID, JobID, Namespace, TaskGroup, NodeID string
	ReadOnly                                     bool
	AccessMode                                   api.AccessMode
	AttachmentMode                               api.AttachmentMode
}

// Answer is the verdict on a request. Predecessor is the allocation that it waits for; Reason says
// who holds the volume, since when, and what happens next.
type Answer struct {
	Verdict     Verdict
	Predecessor string
	Reason      string
}

// Fits decides whether a request may take the volume beside the claims on it. Claims of other
// specs that name the same external volume count as well. stopping holds the allocations that the
// plan behind the request stops.
func Fits(v *api.Volume, claims []*api.VolumeClaim, r Request, stopping map[string]bool) Answer {
	if v == nil {
		return Answer{Verdict: Refused, Reason: "the volume does not exist"}
	}
	if reason := unusable(v); reason != "" {
		return Answer{Verdict: Refused, Reason: reason}
	}
	r, ok := Capable(v, r)
	if !ok {
		return Answer{Verdict: Refused, Reason: incapable(v, r)}
	}
	if !r.ReadOnly && ReaderOnly(r.AccessMode) {
		return Answer{Verdict: Refused, Reason: fmt.Sprintf("volume %q cannot be written as %s: set read_only", v.ID, r.AccessMode)}
	}
	return capacity(v, claims, r, stopping)
}

func capacity(v *api.Volume, claims []*api.VolumeClaim, r Request, stopping map[string]bool) Answer {
	answer := Answer{Verdict: Fit}
	for _, held := range queued(claims) {
		if held.AllocID == r.AllocID && held.VolumeID == v.ID && held.Namespace == v.Namespace {
			continue
		}
		why := excludes(held, r)
		if why == "" || yields(held, r) {
			continue
		}
		if !precedes(held, r, stopping) {
			return Answer{Verdict: Refused, Reason: holds(v, held, why)}
		}
		if answer.Verdict == Fit {
			answer = Answer{Verdict: Waits, Predecessor: held.AllocID, Reason: holds(v, held, why)}
		}
	}
	return answer
}

// unusable is why nobody may take the volume now.
func unusable(v *api.Volume) string {
	switch v.Provision.State {
	case api.VolumeCreating:
		return fmt.Sprintf("volume %q is being created", v.ID)
	case api.VolumeDeleting:
		return fmt.Sprintf("volume %q is being deleted", v.ID)
	case api.VolumeFailed:
		return fmt.Sprintf("volume %q could not be created: %s", v.ID, v.Provision.LastError)
	}
	return ""
}

// precedes reports whether a claim will go away for the request: this plan stops its allocation, or
// the same group of the job gives it back already.
func precedes(held *api.VolumeClaim, r Request, stopping map[string]bool) bool {
	if stopping[held.AllocID] {
		return true
	}
	return Leaving(held.State) && held.Namespace == r.Namespace && held.JobID == r.JobID && held.TaskGroup == r.TaskGroup
}

// queued is the claims as they are served: those past waiting, then first come first served.
func queued(claims []*api.VolumeClaim) []*api.VolumeClaim {
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, order)
	return sorted
}

func order(a, b *api.VolumeClaim) int {
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(a.CreateIndex, b.CreateIndex),
		cmp.Compare(a.AllocID, b.AllocID),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.VolumeID, b.VolumeID),
	)
}

func rank(c *api.VolumeClaim) int {
	if c.State == api.ClaimWaiting {
		return 1
	}
	return 0
}

// holds says who has the volume, since when, and what happens next.
func holds(v *api.Volume, c *api.VolumeClaim, why string) string {
	s := fmt.Sprintf("volume %q is held %s by allocation %s of job %q on node %s", v.ID, why, c.AllocID, c.JobID, c.NodeID)
	if c.Since != 0 {
		s += " since " + time.Unix(0, c.Since).UTC().Format(time.RFC3339)
	}
	return s + ": " + Next(c)
}

// Next says what a claim waits for.
func Next(c *api.VolumeClaim) string {
	switch c.State {
	case api.ClaimWaiting:
		return "it waits for allocation " + c.Predecessor
	case api.ClaimTaken:
		return "it is being attached"
	case api.ClaimReady:
		return "it is free when that allocation stops"
	case api.ClaimReleasing:
		return "it is free when the node has unmounted it"
	}
	return "it is free when it is detached"
}
