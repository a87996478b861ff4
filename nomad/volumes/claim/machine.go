package claim

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// gone is the absence of a row as a state.
const gone api.ClaimState = ""

// next lists the moves that an outside event may ask for. What follows by itself is in Settle.
var next = map[api.ClaimState][]api.ClaimState{
	gone:               {api.ClaimTaken, api.ClaimWaiting},
	api.ClaimWaiting:   {gone},
	api.ClaimTaken:     {api.ClaimUnmounted},
	api.ClaimReady:     {api.ClaimReleasing, api.ClaimUnmounted},
	api.ClaimReleasing: {api.ClaimUnmounted},
	api.ClaimUnmounted: {},
}

// Legal reports whether an outside event may move a claim. The absence of a row is "".
func Legal(from, to api.ClaimState) bool { return slices.Contains(next[from], to) }

// Holds reports whether a claim in the state counts against the access mode.
func Holds(s api.ClaimState) bool { return s != api.ClaimWaiting }

// Live reports whether a claim in the state wants its node attached.
func Live(s api.ClaimState) bool {
	return s == api.ClaimTaken || s == api.ClaimReady || s == api.ClaimReleasing
}

// World is one external volume with everything that hangs on it. Rows are read-only: Settle replaces.
type World struct {
	Claims      []*api.VolumeClaim
	Attachments []*api.VolumeAttachment
	// Attach is set when the driver attaches volumes to nodes.
	Attach bool
	// Now is the time of the command in Unix nanoseconds.
	Now int64
	// Index is the raft index of the command; it becomes the fence of new intents.
	Index uint64
	// ProviderNode gives the driver's id of a node, or "".
	ProviderNode func(node string) string
	// Volume gives the volume of a claim, or nil.
	Volume func(c *api.VolumeClaim) *api.Volume
}

// Settle computes everything that follows by itself. The rows of w that stay as they are keep their
// pointers; rows that are missing from the answer are to be deleted.
func Settle(w World) (claims []*api.VolumeClaim, attachments []*api.VolumeAttachment) {
	s := settling{World: w, claims: slices.Clone(w.Claims), attachments: slices.Clone(w.Attachments)}
	slices.SortStableFunc(s.claims, older)
	for s.pass() {
	}
	return s.claims, s.attachments
}

type settling struct {
	World
	claims      []*api.VolumeClaim
	attachments []*api.VolumeAttachment
}

// pass applies each rule once and reports whether anything changed.
func (s *settling) pass() bool {
	return s.dropUnmounted() || s.wake() || s.attach() || s.detach() || s.makeReady()
}

// older orders claims by when they were made: first come, first served.
func older(a, b *api.VolumeClaim) int {
	switch {
	case a.CreateIndex != b.CreateIndex && a.CreateIndex != 0 && b.CreateIndex != 0:
		if a.CreateIndex < b.CreateIndex {
			return -1
		}
		return 1
	case a.CreateIndex == 0 && b.CreateIndex != 0:
		return 1
	case b.CreateIndex == 0 && a.CreateIndex != 0:
		return -1
	}
	return compare(a.AllocID, b.AllocID)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (s *settling) setState(i int, to api.ClaimState) {
	c := *s.claims[i]
	c.State, c.Since, c.LastError, c.NextRetry = to, s.Now, "", 0
	if to != api.ClaimWaiting {
		c.Predecessor = ""
	}
	s.claims[i] = &c
}

func (s *settling) wants(node string) bool {
	return slices.ContainsFunc(s.claims, func(c *api.VolumeClaim) bool { return c.NodeID == node && Live(c.State) })
}

func (s *settling) attachment(node string) int {
	return slices.IndexFunc(s.attachments, func(a *api.VolumeAttachment) bool { return a.NodeID == node })
}

// dropUnmounted frees claims whose node is detached, or kept attached by another claim.
func (s *settling) dropUnmounted() bool {
	for i, c := range s.claims {
		if c.State == api.ClaimUnmounted && (s.wants(c.NodeID) || s.attachment(c.NodeID) < 0) {
			s.claims = slices.Delete(s.claims, i, i+1)
			return true
		}
	}
	return false
}

// wake takes the volume for the first waiting claim that fits now.
func (s *settling) wake() bool {
	for i, c := range s.claims {
		if c.State != api.ClaimWaiting {
			continue
		}
		v := s.Volume(c)
		if v == nil {
			return false
		}
		others := slices.DeleteFunc(slices.Clone(s.claims), func(o *api.VolumeClaim) bool { return o.State == api.ClaimWaiting })
		if Fits(v, others, requestOf(c), nil).Verdict == Fit {
			s.setState(i, api.ClaimTaken)
			return true
		}
		return false
	}
	return false
}

// attach begins to publish where a claim wants it.
func (s *settling) attach() bool {
	if !s.Attach {
		return false
	}
	for _, c := range s.claims {
		if !Live(c.State) || s.attachment(c.NodeID) >= 0 {
			continue
		}
		v := s.Volume(c)
		if v == nil {
			continue
		}
		s.attachments = append(s.attachments, s.intent(c, v))
		return true
	}
	return false
}

func (s *settling) intent(c *api.VolumeClaim, v *api.Volume) *api.VolumeAttachment {
	a := &api.VolumeAttachment{
		PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID,
		State: api.AttachmentPublishing, ReadOnly: c.Mode == api.ClaimRead,
		AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode, MountOptions: c.MountOptions,
		Secrets: v.Secrets, Context: ContextOf(v), Fence: s.Index, Since: s.Now,
	}
	if s.ProviderNode != nil {
		a.ProviderNodeID = s.ProviderNode(c.NodeID)
	}
	return a
}

// detach begins to unpublish where no claim wants it any more. A publish of unknown outcome is undone too.
func (s *settling) detach() bool {
	for i, a := range s.attachments {
		if a.State == api.AttachmentUnpublishing || s.wants(a.NodeID) {
			continue
		}
		next := *a
		next.State, next.Fence, next.Since = api.AttachmentUnpublishing, s.Index, s.Now
		next.LastError, next.NextRetry, next.Attempts = "", 0, 0
		s.attachments[i] = &next
		return true
	}
	return false
}

// makeReady lets claims through whose node is attached, or needs no attaching.
func (s *settling) makeReady() bool {
	for i, c := range s.claims {
		if c.State != api.ClaimTaken {
			continue
		}
		at := s.attachment(c.NodeID)
		attached := at >= 0 && s.attachments[at].State == api.AttachmentPublished
		if attached || at < 0 && !s.Attach {
			s.setState(i, api.ClaimReady)
			return true
		}
	}
	return false
}

// ContextOf is the volume context that drivers get: theirs for created volumes, else the user's.
func ContextOf(v *api.Volume) map[string]string {
	if len(v.Provision.Context) > 0 {
		return v.Provision.Context
	}
	return v.Context
}
