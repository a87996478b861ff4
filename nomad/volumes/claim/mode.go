package claim

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Alone reports whether a volume in this mode has at most one user. Drivers must refuse a second
// publish in these modes and some do not, so we never ask for one.
func Alone(m api.AccessMode) bool {
	switch m {
	case api.AccessSingleNodeReader, api.AccessSingleNodeWriter, api.AccessSingleNodeSingle:
		return true
	}
	return false
}

// Exclusive reports whether a second user elsewhere could do harm: such volumes move only on proof
// that the old node is off.
func Exclusive(m api.AccessMode, mode api.ClaimMode) bool {
	return singleNode(m) || m == api.AccessMultiNodeSingleWriter && mode == api.ClaimWrite
}

func singleNode(m api.AccessMode) bool { return Alone(m) || m == api.AccessSingleNodeMulti }

// ReaderOnly reports whether nobody may write in this mode.
func ReaderOnly(m api.AccessMode) bool {
	return m == api.AccessSingleNodeReader || m == api.AccessMultiNodeReader
}

// Known reports whether the mode is one that we can ask a driver for.
func Known(m api.AccessMode) bool {
	switch m {
	case api.AccessSingleNodeReader, api.AccessSingleNodeWriter, api.AccessSingleNodeSingle, api.AccessSingleNodeMulti,
		api.AccessMultiNodeReader, api.AccessMultiNodeSingleWriter, api.AccessMultiNodeMultiWriter:
		return true
	}
	return false
}

// ModeOf is the claim mode of a request.
func ModeOf(readOnly bool, m api.AccessMode) api.ClaimMode {
	if readOnly || ReaderOnly(m) {
		return api.ClaimRead
	}
	return api.ClaimWrite
}

// Capable reports whether the volume has a capability for the modes of the request. Modes that the
// request leaves open are filled with those of the first capability that fits.
func Capable(v *api.Volume, r Request) (Request, bool) {
	for _, c := range v.RequestedCapabilities {
		if c != nil && (r.AccessMode == "" || c.AccessMode == r.AccessMode) &&
			(r.AttachmentMode == "" || c.AttachmentMode == r.AttachmentMode) {
			r.AccessMode, r.AttachmentMode = c.AccessMode, c.AttachmentMode
			return r, true
		}
	}
	return r, false
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

// excludes says why two users cannot have a volume at once; empty when they can.
func excludes(held *api.VolumeClaim, r Request) string {
	a, b := held.AccessMode, r.AccessMode
	switch {
	case held.AttachmentMode != "" && r.AttachmentMode != "" && held.AttachmentMode != r.AttachmentMode:
		return "as " + string(held.AttachmentMode)
	case Alone(a):
		return "as " + string(a)
	case Alone(b):
		return "and " + string(b) + " allows one user"
	case (singleNode(a) || singleNode(b)) && held.NodeID != r.NodeID:
		return "on another node"
	case !shareable(a, b):
		return "as " + string(a)
	case held.Mode == api.ClaimWrite && !r.ReadOnly && (a == api.AccessMultiNodeSingleWriter || b == api.AccessMultiNodeSingleWriter):
		return "for writing"
	}
	return ""
}

// shareable reports whether users in two modes can share a node's attachment. It keeps the mode of
// the first: attached for a single node, it is in the way of the second's users elsewhere.
func shareable(a, b api.AccessMode) bool { return a == b || !singleNode(a) && !singleNode(b) }

// yields reports that a claim has nothing on the node where another is asked for, by the node's word,
// and that the other can go on with its attachment.
func yields(held *api.VolumeClaim, r Request) bool {
	same := held.AttachmentMode == "" || r.AttachmentMode == "" || held.AttachmentMode == r.AttachmentMode
	return held.State == api.ClaimUnmounted && !held.Presumed && held.NodeID == r.NodeID && same && shareable(held.AccessMode, r.AccessMode)
}
