package claim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Request is a wish for a claim.
type Request struct {
	AllocID, JobID, Namespace, TaskGroup, NodeID string
	ReadOnly                                     bool
	AccessMode                                   api.AccessMode
	AttachmentMode                               api.AttachmentMode
}

// Verdict is the answer to a wish.
type Verdict uint8

// Verdicts.
const (
	// Refused means that somebody else holds the volume, or that it cannot be used so.
	Refused Verdict = iota
	// Fit means that the claim can be taken now.
	Fit
	// Waits means that the claim must queue behind a predecessor that is being stopped.
	Waits
)

// Answer is a verdict with its reason.
type Answer struct {
	Verdict Verdict
	// Predecessor is the allocation to wait for.
	Predecessor string
	// Reason says why not, who holds the volume since when, and what would help.
	Reason string
}

// Writer reports whether the mode allows writing at all.
func Writer(m api.AccessMode) bool { return strings.Contains(string(m), "writer") }

func singleNode(m api.AccessMode) bool { return strings.HasPrefix(string(m), "single-node") }

// singleWriter reports whether the mode allows one writer only.
func singleWriter(m api.AccessMode) bool {
	switch m {
	case api.AccessSingleNodeWriter, api.AccessSingleNodeSingle, api.AccessMultiNodeSingleWriter:
		return true
	}
	return false
}

// Exclusive reports whether a write claim of the mode keeps every other writer out.
func Exclusive(m api.AccessMode) bool { return singleWriter(m) }

// ModeOf is the claim mode of a request.
func ModeOf(readOnly bool, m api.AccessMode) api.ClaimMode {
	if readOnly || !Writer(m) {
		return api.ClaimRead
	}
	return api.ClaimWrite
}

// Capable reports whether one of the volume's capabilities is what the request asks for. A request
// that leaves a mode open takes the volume's first capability.
func Capable(v *api.Volume, r Request) (Request, bool) {
	for _, c := range v.RequestedCapabilities {
		if (r.AccessMode == "" || r.AccessMode == api.AccessMode(c.AccessMode)) &&
			(r.AttachmentMode == "" || r.AttachmentMode == api.AttachmentMode(c.AttachmentMode)) {
			r.AccessMode, r.AttachmentMode = api.AccessMode(c.AccessMode), api.AttachmentMode(c.AttachmentMode)
			return r, true
		}
	}
	return r, false
}

// Fits is the one capacity rule, for scheduler, plan apply and RPC alike. claims are all claims on
// the external volume; stopping names allocations that the same plan stops.
func Fits(v *api.Volume, claims []*api.VolumeClaim, r Request, stopping map[string]bool) Answer {
	r, ok := Capable(v, r)
	if !ok {
		return refused("volume %q does not offer access mode %q with attachment mode %q; its capabilities are %s",
			v.ID, r.AccessMode, r.AttachmentMode, capabilities(v))
	}
	switch v.Provision.State {
	case api.VolumeAvailable, api.VolumeExpanding, "":
	default:
		return refused("volume %q is %s", v.ID, v.Provision.State)
	}
	var blockers []*api.VolumeClaim
	for _, c := range claims {
		if c.AllocID != r.AllocID && conflict(c, r) {
			blockers = append(blockers, c)
		}
	}
	return judge(v, blockers, r, stopping)
}

// conflict reports whether the claim keeps the request out.
func conflict(c *api.VolumeClaim, r Request) bool {
	bothWrite := c.Mode == api.ClaimWrite && ModeOf(r.ReadOnly, r.AccessMode) == api.ClaimWrite
	switch {
	case c.AttachmentMode != r.AttachmentMode || c.AccessMode != r.AccessMode:
		return true
	case singleNode(r.AccessMode) && c.NodeID != r.NodeID && r.NodeID != "":
		return true
	}
	return bothWrite && singleWriter(r.AccessMode)
}

// judge lets a request wait when everybody in its way is of its own group and on the way out.
func judge(v *api.Volume, blockers []*api.VolumeClaim, r Request, stopping map[string]bool) Answer {
	if len(blockers) == 0 {
		return Answer{Verdict: Fit}
	}
	slices.SortStableFunc(blockers, older)
	for _, b := range blockers {
		same := b.Namespace == r.Namespace && b.JobID == r.JobID && b.TaskGroup == r.TaskGroup
		leaving := stopping[b.AllocID] || b.State == api.ClaimReleasing || b.State == api.ClaimUnmounted || b.State == api.ClaimWaiting
		if !same || !leaving {
			return Answer{Verdict: Refused, Reason: heldBy(v, b)}
		}
	}
	return Answer{Verdict: Waits, Predecessor: blockers[len(blockers)-1].AllocID}
}

func heldBy(v *api.Volume, c *api.VolumeClaim) string {
	reason := fmt.Sprintf("volume %q has a %s claim of allocation %s of job %q on node %s (%s, access mode %s)",
		v.ID, c.Mode, c.AllocID, c.JobID, c.NodeID, c.State, c.AccessMode)
	switch c.State {
	case api.ClaimReleasing:
		return reason + "; it is freed when the node has unmounted the volume"
	case api.ClaimUnmounted:
		return reason + "; it is freed when the volume is detached"
	}
	return reason + "; stop the job or wait until it ends"
}

func refused(format string, args ...any) Answer {
	return Answer{Verdict: Refused, Reason: fmt.Sprintf(format, args...)}
}

func capabilities(v *api.Volume) string {
	var all []string
	for _, c := range v.RequestedCapabilities {
		all = append(all, string(c.AccessMode)+"/"+string(c.AttachmentMode))
	}
	return strings.Join(all, ", ")
}

func requestOf(c *api.VolumeClaim) Request {
	return Request{
		AllocID: c.AllocID, JobID: c.JobID, Namespace: c.Namespace, TaskGroup: c.TaskGroup, NodeID: c.NodeID,
		ReadOnly: c.Mode == api.ClaimRead, AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode,
	}
}

// Source is the id of the volume that a request means: with PerAlloc the index of the allocation's
// name, with its brackets, is added.
func Source(req *api.VolumeRequest, allocName string) string {
	if !req.PerAlloc {
		return req.Source
	}
	if i := strings.LastIndexByte(allocName, '['); i >= 0 {
		return req.Source + allocName[i:]
	}
	return req.Source
}
