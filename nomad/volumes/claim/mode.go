package claim

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Exclusive reports whether a second user elsewhere could do harm: such volumes move only on proof
// that the old node is off.
func Exclusive(m api.AccessMode, mode api.ClaimMode) bool {
	return m.SingleNode() || m == api.AccessMultiNodeSingleWriter && mode == api.ClaimWrite
}

// Contested reports whether a claim excludes others, by its own mode or by what some capability of its external volume
// allows another claim elsewhere. While the node of such a claim is lost no other node may have the volume without
// proof.
func Contested(c *api.VolumeClaim, specs []*api.Volume) bool {
	if Exclusive(c.AccessMode, c.Mode) {
		return true
	}
	for _, v := range specs {
		for _, o := range v.RequestedCapabilities {
			if o != nil && (Exclusive(o.AccessMode, c.Mode) || o.AttachmentMode != c.AttachmentMode) {
				return true
			}
		}
	}
	return false
}

// ModeOf is the claim mode of a request.
func ModeOf(readOnly bool, m api.AccessMode) api.ClaimMode {
	if readOnly || m.ReadOnly() {
		return api.ClaimRead
	}
	return api.ClaimWrite
}

// Capability is the volume's first one with the modes of the request, of which either may be open; nil when it has
// none.
func Capability(v *api.Volume, r Request) *api.VolumeCapability {
	for _, c := range v.RequestedCapabilities {
		if c != nil && (r.AccessMode == "" || c.AccessMode == r.AccessMode) && (r.AttachmentMode == "" || c.AttachmentMode == r.AttachmentMode) {
			return c
		}
	}
	return nil
}

func incapable(v *api.Volume, r Request) string {
	var has []string
	for _, c := range v.RequestedCapabilities {
		if c != nil {
			has = append(has, fmt.Sprintf("%s %s", c.AccessMode, c.AttachmentMode))
		}
	}
	return fmt.Sprintf("volume %q cannot be used as %s %s: its capabilities are %s",
		v.ID, r.AccessMode, r.AttachmentMode, strings.Join(has, ", "))
}

// excludes returns why two users cannot have a volume at once; "" when they can. a is the attachment of the request's
// node, or nil.
func excludes(held *api.VolumeClaim, r Request, a *api.VolumeAttachment) string {
	was, is := held.AccessMode, r.AccessMode
	switch {
	case siblings(held, r):
		return ""
	case held.AttachmentMode != "" && r.AttachmentMode != "" && held.AttachmentMode != r.AttachmentMode:
		return "as " + string(held.AttachmentMode)
	case was.SingleUser():
		return "as " + string(was)
	case is.SingleUser():
		return "and " + string(is) + " allows one user"
	case (was.SingleNode() || is.SingleNode()) && held.NodeID != r.NodeID:
		return "on another node"
	case !shareable(was, is):
		return "as " + string(was)
	case held.Mode == api.ClaimWrite && !r.ReadOnly && (was == api.AccessMultiNodeSingleWriter || is == api.AccessMultiNodeSingleWriter):
		return "for writing"
	case held.NodeID == r.NodeID:
		return onOneNode(held, r, a)
	}
	return ""
}

// siblings are claims of one allocation on one volume: a group may use a volume in several ways, as far as
// [api.VolumeUse.Contradicts] allows.
func siblings(held *api.VolumeClaim, r Request) bool {
	return held.AllocID == r.AllocID && held.Namespace == r.Namespace && held.VolumeID == r.VolumeID
}

// onOneNode returns why a node cannot serve two users that may otherwise share the volume: it stages a volume once,
// and an attachment serves only what it was published for.
func onOneNode(held *api.VolumeClaim, r Request, a *api.VolumeAttachment) string {
	h := RequestOf(held)
	switch {
	case r.AttachmentMode != api.AttachmentBlock && !h.MountOptions.SameFileSystem(r.MountOptions):
		return "with " + differs(h.MountOptions, r.MountOptions)
	case a != nil && a.State != api.AttachmentUnpublishing && serves(a, h) != serves(a, r):
		return fmt.Sprintf("as %s on a node that is attached as %s,", held.AccessMode, a.AccessMode)
	}
	return ""
}

// differs returns what keeps the first options from sharing a mount with the others. Flags may be secret.
func differs(m, o *api.MountOptions) string {
	if m != nil && o != nil && m.FSType != "" && o.FSType != "" && m.FSType != o.FSType {
		return "file system " + m.FSType
	}
	return "other mount flags"
}

// shareable reports whether users in two modes can share a node's attachment. It keeps the mode of the first: attached
// for a single node, it blocks the second's users elsewhere.
func shareable(a, b api.AccessMode) bool { return a == b || !a.SingleNode() && !b.SingleNode() }

// serves reports whether an attachment was published for what the request needs: drivers must not be asked for
// more of a volume than it was attached for.
func serves(a *api.VolumeAttachment, r Request) bool {
	same := a.AttachmentMode == "" || r.AttachmentMode == "" || a.AttachmentMode == r.AttachmentMode
	return same && covers(a.AccessMode, r.AccessMode) && (r.AttachmentMode == api.AttachmentBlock || a.MountOptions.SameFileSystem(r.MountOptions))
}

// covers reports whether what is attached in one mode may be used in the other.
func covers(attached, used api.AccessMode) bool {
	return attached == "" || attached == used || shareable(attached, used) && allows(attached) >= allows(used)
}

// allows orders the modes for many nodes by what they allow.
func allows(m api.AccessMode) int {
	switch m {
	case api.AccessMultiNodeSingleWriter:
		return 1
	case api.AccessMultiNodeMultiWriter:
		return 2
	}
	return 0
}

// yields reports that a claim has nothing on the node of another request, as the node reported, and that the other can
// continue with its attachment.
func yields(held *api.VolumeClaim, r Request, a *api.VolumeAttachment) bool {
	return held.State == api.ClaimUnmounted && !held.Presumed && held.NodeID == r.NodeID &&
		shareable(held.AccessMode, r.AccessMode) && (a == nil || serves(a, r)) &&
		(held.AttachmentMode == "" || r.AttachmentMode == "" || held.AttachmentMode == r.AttachmentMode)
}
