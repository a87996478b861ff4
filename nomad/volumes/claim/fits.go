package claim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// Verdict is whether an allocation may have a volume.
type Verdict uint8

// Verdicts.
const (
	// Refused cannot have the volume now.
	Refused Verdict = iota
	// Fit may take it at once.
	Fit
	// Waits may be placed and gets the volume when its predecessor's claim is removed.
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

// Request asks for one use of one volume by an allocation on a node.
type Request struct {
	AllocID, JobID, Namespace, TaskGroup, NodeID string
	VolumeID, Use                                string
	ReadOnly                                     bool
	AccessMode                                   api.AccessMode
	AttachmentMode                               api.AttachmentMode
	// MountOptions are those that the volume is mounted with.
	MountOptions *api.MountOptions
}

// RequestFor asks for a use of a volume by an allocation, on the node that it has. Modes that the use leaves open
// are those of the volume's first capability that fits; options that it leaves open are the volume's.
func RequestFor(v *api.Volume, u *api.VolumeUse, a *api.Allocation) Request {
	r := Request{
		AllocID: a.ID, JobID: a.JobID, Namespace: a.Namespace, TaskGroup: a.TaskGroup, NodeID: a.NodeID,
		VolumeID: v.ID, Use: u.Name, ReadOnly: u.ReadOnly, AccessMode: u.AccessMode, AttachmentMode: u.AttachmentMode,
		MountOptions: u.MountOptions.Over(v.MountOptions),
	}
	if c := Capability(v, r); c != nil {
		r.AccessMode, r.AttachmentMode = c.AccessMode, c.AttachmentMode
	}
	return r
}

// Apart returns why one allocation cannot have a volume in two ways at once, with the volume's modes and options where
// a request gives none; "" when it can. See [api.VolumeUse.Contradicts] for the rest.
func Apart(r, o Request) string {
	switch {
	case r.VolumeID != o.VolumeID:
		return ""
	case r.AttachmentMode != o.AttachmentMode, r.AccessMode != o.AccessMode && (r.AccessMode.SingleNode() || o.AccessMode.SingleNode()):
		return fmt.Sprintf("volume %q is asked for as %q and as %q, and is attached as %s %s for one and as %s %s for the other: give both the same modes",
			r.VolumeID, o.Use, r.Use, o.AccessMode, o.AttachmentMode, r.AccessMode, r.AttachmentMode)
	case r.AttachmentMode == api.AttachmentBlock || r.MountOptions.SameFileSystem(o.MountOptions):
		return ""
	}
	return fmt.Sprintf("volume %q is asked for as %q and as %q, and one of them has %s, given or the volume's own: it is mounted as one file system",
		r.VolumeID, o.Use, r.Use, differs(r.MountOptions, o.MountOptions))
}

// ApartBySpec is [Apart] for two requests that reach one external volume by different specs.
func ApartBySpec(r, o Request) string {
	held := &api.VolumeClaim{
		VolumeID: o.VolumeID, Mode: ModeOf(o.ReadOnly, o.AccessMode), AccessMode: o.AccessMode, AttachmentMode: o.AttachmentMode, MountOptions: o.MountOptions,
		NodeID: r.NodeID, Namespace: o.Namespace, AllocID: o.AllocID,
	}
	if why := excludes(held, r, nil); why != "" {
		return fmt.Sprintf("volumes %q and %q name the same external volume, which is held by the first %s: one allocation cannot have both", o.VolumeID, r.VolumeID, why)
	}
	return ""
}

// Answer is the verdict on a request. Predecessor is the allocation that it waits for; Reason describes who holds the
// volume, since when, and what happens next.
type Answer struct {
	Verdict     Verdict
	Predecessor string
	Reason      string
}

// Fits decides whether a request may take the volume in addition to the claims in its book, which is that of the
// external volume: claims of other specs that name it count as well. stopping holds the allocations that the plan
// behind the request stops.
func Fits(v *api.Volume, b Book, r Request, stopping map[string]bool) Answer {
	if v == nil {
		return Answer{Verdict: Refused, Reason: "the volume does not exist"}
	}
	if reason := Unusable(v, b.Specs); reason != "" {
		return Answer{Verdict: Refused, Reason: reason}
	}
	c := Capability(v, r)
	if c == nil {
		return Answer{Verdict: Refused, Reason: incapable(v, r)}
	}
	r.AccessMode, r.AttachmentMode = c.AccessMode, c.AttachmentMode
	if !r.ReadOnly && r.AccessMode.ReadOnly() {
		return Answer{Verdict: Refused, Reason: fmt.Sprintf("volume %q cannot be written as %s: set read_only", v.ID, r.AccessMode)}
	}
	return b.capacity(v, r, stopping)
}

func (b Book) capacity(v *api.Volume, r Request, stopping map[string]bool) Answer {
	answer, a := Answer{Verdict: Fit}, b.on(r.NodeID)
	var against []*api.VolumeClaim
	for _, held := range b.Claims {
		if excludes(held, r, a) != "" && !yields(held, r, a) {
			against = append(against, held)
		}
	}
	for _, held := range queued(against) {
		why := excludes(held, r, a)
		if !precedes(held, r, stopping) {
			return Answer{Verdict: Refused, Reason: b.holds(v, held, why)}
		}
		if answer.Verdict == Fit {
			answer = Answer{Verdict: Waits, Predecessor: held.AllocID, Reason: b.holds(v, held, why)}
		}
	}
	return answer
}

// Unusable returns why no user may take the volume now on any node; "" when users may. specs are all rows that name
// the external volume.
func Unusable(v *api.Volume, specs []*api.Volume) string {
	//exhaustive:enforce
	switch v.Provision.State {
	case api.VolumeAvailable, api.VolumeExpanding:
	case api.VolumeCreating:
		return fmt.Sprintf("volume %q is being created", v.ID)
	case api.VolumeDeleting:
		return fmt.Sprintf("volume %q is being deleted", v.ID)
	case api.VolumeFailed:
		return fmt.Sprintf("volume %q could not be created: %s", v.ID, v.Provision.LastError)
	}
	for _, o := range specs {
		if reason := BeingDeleted(o, v.PluginID, v.RemoteID()); reason != "" {
			return fmt.Sprintf("volume %q names the same external volume: %s", v.ID, reason)
		}
	}
	return ""
}

// BeingDeleted returns why an external volume cannot be used because one of its specs is being deleted or a creation
// is being undone; "" when neither prevents its use.
func BeingDeleted(v *api.Volume, plugin, external string) string {
	switch {
	case Undoes(v, plugin, external):
		return fmt.Sprintf("%s, made by an earlier creation of volume %q in namespace %q, is being deleted; %s", external, v.ID, v.Namespace, commandtext.Unanswered(v))
	case v.Provision.State == api.VolumeDeleting:
		return fmt.Sprintf("volume %q in namespace %q is being deleted; %s", v.ID, v.Namespace, commandtext.Unanswered(v))
	}
	return ""
}

// Undoes reports whether the volume replaces an earlier creation that made the external volume.
func Undoes(v *api.Volume, plugin, external string) bool {
	r := v.Provision.Replaces
	return r != nil && r.ExternalID == external && r.PluginID == plugin
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
		cmp.Compare(a.Use, b.Use),
	)
}

func rank(c *api.VolumeClaim) int {
	if c.State == api.ClaimWaiting {
		return 1
	}
	return 0
}

// Holding is the allocation and the node of a claim; nil where there is none, or it is not known.
type Holding struct {
	Alloc *api.Allocation
	Node  *api.Node
}

// disconnected reports whether the allocation is not heard of, and may run.
func (h Holding) disconnected() bool {
	return h.Alloc != nil && h.Alloc.ClientStatus == api.AllocClientStatusUnknown
}

// away reports whether the node is known not to be heard.
func (h Holding) away() bool {
	return h.Node != nil && (h.Node.Status == api.NodeStatusDown || h.Node.Status == api.NodeStatusDisconnected)
}

// Holder names the user of a claim for readers of a namespace: without its names when it is in another namespace, which
// these readers may not see.
func Holder(c *api.VolumeClaim, ns string) string {
	if c.Namespace != ns {
		return "an allocation of another namespace on node " + c.NodeID
	}
	return fmt.Sprintf("allocation %s of job %q on node %s", c.AllocID, c.JobID, c.NodeID)
}

// holds describes who has the volume, since when, what happens next, and what ends the claim where that may not happen
// automatically.
func (b Book) holds(v *api.Volume, c *api.VolumeClaim, why string) string {
	s := fmt.Sprintf("volume %q is held %s by %s", v.ID, why, Holder(c, v.Namespace))
	if c.Since != 0 {
		s += " since " + time.Unix(0, c.Since).UTC().Format(time.RFC3339)
	}
	var h Holding
	if b.Holding != nil {
		h = b.Holding(c)
	}
	if c.Namespace != v.Namespace && c.State == api.ClaimWaiting {
		return s + ": it waits for another allocation"
	}
	s += ": " + Next(c, h)
	switch {
	case c.State == api.ClaimReady && h.disconnected() && c.Namespace == v.Namespace:
		s += "; `" + commandtext.StopJob(c.Namespace, c.JobID) + "` ends that"
	case c.State == api.ClaimReleasing && h.away() && c.VolumeID == v.ID && c.Namespace == v.Namespace:
		s += "; `" + commandtext.DetachByForce(v.Namespace, v.ID, c.NodeID) + "` ends that"
	case c.State == api.ClaimReleasing && h.away(): // its id may be that of another external volume now
		s += "; `" + commandtext.DetachExternal(c.PluginID, c.ExternalID, c.NodeID) + "` ends that"
	}
	return s
}

// Next describes what a claim waits for. While an allocation's node is not heard it is unknown whether the allocation
// runs.
func Next(c *api.VolumeClaim, h Holding) string {
	//exhaustive:enforce
	switch c.State {
	case api.ClaimWaiting:
		return "it waits for allocation " + c.Predecessor
	case api.ClaimTaken:
		return "it is being attached"
	case api.ClaimReady:
		if h.disconnected() {
			return "its node is disconnected, and it may still run there: it is free when the node is back and has stopped it, or when it is declared lost"
		}
		return "it is free when that allocation stops"
	case api.ClaimReleasing:
		if h.away() {
			return fmt.Sprintf("its node is %s: it is free when the node is back and has unmounted it, or is declared lost", h.Node.Status)
		}
		return "it is free when the node has unmounted it"
	case api.ClaimUnmounted:
	}
	return "it is free when it is detached"
}
