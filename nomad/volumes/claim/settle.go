package claim

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// Book is all claims and attachments of one external volume.
type Book struct {
	// Specs are all rows that name the external volume.
	Specs       []*api.Volume
	Claims      []*api.VolumeClaim
	Attachments []*api.VolumeAttachment
	// Stale are nodes that may still have the volume mounted for evicted claims.
	Stale map[string]bool
	// Moved are nodes that the driver knows by another id now than the one that they were attached by.
	Moved map[string]bool
	// Held is set after a restore, while nodes that have not reported their mounts may have the volume mounted.
	Held bool
	// Holding describes who holds a claim, for messages; nil where that is not known.
	Holding func(*api.VolumeClaim) Holding

	// nodes are the positions of attachments by node, allocs those of claims by allocation, while the book is settled: a
	// volume may have as many of both as there are nodes.
	nodes  map[string]int
	allocs map[string][]int
}

// Held is why no user gets a volume then.
const Held = "the servers were restored to an older state, and the volume waits until all nodes have reported their mounts"

// held reports whether the volume may be mounted for a user that the claim excludes.
func (b *Book) held(c *api.VolumeClaim) bool { return b.Held && Contested(c, b.Specs) }

// Moment is the command in which something happens: its raft index and its time in Unix nanoseconds.
type Moment struct {
	Index uint64
	Now   int64
}

// Settle returns the book after every transition that follows automatically. Changed rows are copies and removed rows
// are missing; new attachments have no driver parameters, only their key.
func Settle(b Book, at Moment) Book {
	b.Claims, b.Attachments = slices.Clone(b.Claims), slices.Clone(b.Attachments)
	b.index()
	for {
		changed := b.promote(at)
		changed = b.attach(at) || changed
		changed = b.ready(at) || changed
		changed = b.free() || changed
		if !changed {
			b.nodes, b.allocs = nil, nil
			return b
		}
	}
}

func (b *Book) index() {
	b.nodes, b.allocs = make(map[string]int, len(b.Attachments)), make(map[string][]int, len(b.Claims))
	for i, a := range b.Attachments {
		if _, known := b.nodes[a.NodeID]; !known {
			b.nodes[a.NodeID] = i
		}
	}
	for i, c := range b.Claims {
		b.allocs[c.AllocID] = append(b.allocs[c.AllocID], i)
	}
}

// promote gives the volume to the claims that have waited longest and no longer exclude another claim.
func (b *Book) promote(at Moment) bool {
	if !slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool { return c.State == api.ClaimWaiting }) {
		return false
	}
	changed := false
	order := queued(b.Claims)
	for i, c := range order {
		if c.State != api.ClaimWaiting {
			continue
		}
		next := *c
		if p := b.blocker(order[:i], c); p != nil {
			next.Predecessor = p.AllocID
		} else {
			next.State, next.Since, next.Predecessor = api.ClaimTaken, at.Now, ""
		}
		if next.State == c.State && next.Predecessor == c.Predecessor {
			continue
		}
		b.replace(c, &next)
		order[i], changed = &next, true
	}
	return changed
}

// blocker is the claim among those before that c waits for, or that another use of its allocation waits for: one that
// began alone would keep what is attached, and so the other waiting.
func (b *Book) blocker(before []*api.VolumeClaim, c *api.VolumeClaim) *api.VolumeClaim {
	a := b.on(c.NodeID)
	for _, use := range b.pending(c) {
		r := RequestOf(use)
		for _, held := range before {
			if excludes(held, r, a) != "" && !yields(held, r, a) {
				return held
			}
		}
	}
	return nil
}

// pending are the uses of the claim's allocation, its own included, that are not ready yet.
func (b *Book) pending(c *api.VolumeClaim) []*api.VolumeClaim {
	var uses []*api.VolumeClaim
	for _, i := range b.allocs[c.AllocID] {
		o := b.Claims[i]
		if (o.State == api.ClaimWaiting || o.State == api.ClaimTaken) && siblings(o, RequestOf(c)) {
			uses = append(uses, o)
		}
	}
	return uses
}

// served reports whether the attachment serves all pending uses of the claim's allocation. One to the machine that the
// node was before serves those that have it only.
func (b *Book) served(a *api.VolumeAttachment, c *api.VolumeClaim) bool {
	if b.Moved[c.NodeID] && !b.used(c.NodeID) {
		return false
	}
	return !slices.ContainsFunc(b.pending(c), func(o *api.VolumeClaim) bool { return !serves(a, RequestOf(o)) })
}

// used reports whether the volume may be mounted on the node.
func (b *Book) used(node string) bool {
	return slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool {
		return c.NodeID == node && (c.State == api.ClaimReady || c.State == api.ClaimReleasing)
	})
}

// RequestOf returns the request that a claim was taken for.
func RequestOf(c *api.VolumeClaim) Request {
	return Request{
		AllocID: c.AllocID, JobID: c.JobID, Namespace: c.Namespace, TaskGroup: c.TaskGroup, NodeID: c.NodeID,
		VolumeID: c.VolumeID, Use: c.Use, ReadOnly: c.Mode == api.ClaimRead,
		AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode, MountOptions: c.MountOptions,
	}
}

// attach starts the attachments that live claims need and ends those that no claim needs. A stale node is not
// attached, because an evicted user there would write again. Nothing is attached during an offline expansion.
func (b *Book) attach(at Moment) bool {
	changed, grows := false, slices.ContainsFunc(b.Specs, GrowsOutOfUse)
	for _, c := range b.Claims {
		if !grows && c.Attach && c.State == api.ClaimTaken && b.on(c.NodeID) == nil && !b.Stale[c.NodeID] && !b.held(c) {
			most := b.strongest(c)
			b.nodes[c.NodeID] = len(b.Attachments)
			b.Attachments = append(b.Attachments, &api.VolumeAttachment{
				PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID,
				AccessMode: most.AccessMode, AttachmentMode: most.AttachmentMode, MountOptions: most.MountOptions,
				State: api.AttachmentPublishing, Since: at.Now, Fence: at.Index,
			})
			changed = true
		}
	}
	for i, kept := 0, b.keepers(); i < len(b.Attachments); i++ {
		a := b.Attachments[i]
		if a.State == api.AttachmentUnpublishing || slices.ContainsFunc(kept[a.NodeID], b.keeps) {
			continue
		}
		next := *a
		next.State, next.Since, next.Fence = api.AttachmentUnpublishing, at.Now, at.Index
		next.LastError, next.Refused, next.NextRetry, next.Attempts = "", 0, 0, 0
		b.Attachments[i], changed = &next, true
	}
	return changed
}

// strongest returns the claim on c's node whose mode allows the most, c included: the attachment serves all that begin
// with it, and those that wait there for another claim and would also wait for c if it did not serve them.
func (b *Book) strongest(c *api.VolumeClaim) *api.VolumeClaim {
	most := c
	for _, o := range b.Claims {
		joins := Live(o.State) || o.State == api.ClaimWaiting && excludes(c, RequestOf(o), nil) == ""
		if o.Attach && o.NodeID == c.NodeID && joins && allows(o.AccessMode) > allows(most.AccessMode) {
			most = o
		}
	}
	return most
}

func (b *Book) on(node string) *api.VolumeAttachment {
	if b.nodes != nil {
		if i, known := b.nodes[node]; known {
			return b.Attachments[i]
		}
		return nil
	}
	i := slices.IndexFunc(b.Attachments, func(a *api.VolumeAttachment) bool { return a.NodeID == node })
	if i < 0 {
		return nil
	}
	return b.Attachments[i]
}

// keepers are the claims by node that may keep it attached: a volume may have as many of them as there are nodes.
func (b *Book) keepers() map[string][]*api.VolumeClaim {
	on := make(map[string][]*api.VolumeClaim, len(b.Attachments))
	for _, c := range b.Claims {
		if c.Attach && Live(c.State) {
			on[c.NodeID] = append(on[c.NodeID], c)
		}
	}
	return on
}

// keeps reports whether a live claim keeps its node attached. One that is not ready yet waits for another attachment
// where this one does not serve it, or is that of a stale mount, which may have been detached.
func (b *Book) keeps(c *api.VolumeClaim) bool {
	if c.State != api.ClaimTaken {
		return true
	}
	a := b.on(c.NodeID)
	return a == nil || a.State == api.AttachmentUnpublishing || !b.Stale[c.NodeID] && b.served(a, c)
}

// ready lets claims use what is attached; on a stale node they would share the old mounts. Nobody uses what is being
// expanded out of use.
func (b *Book) ready(at Moment) bool {
	if slices.ContainsFunc(b.Specs, GrowsOutOfUse) {
		return false
	}
	changed := false
	for _, c := range slices.Clone(b.Claims) {
		if c.State != api.ClaimTaken || b.Stale[c.NodeID] || b.held(c) {
			continue
		}
		if a := b.on(c.NodeID); c.Attach && (a == nil || a.State != api.AttachmentPublished || !b.served(a, c)) {
			continue
		}
		next := *c
		next.State, next.Since, next.LastError, next.NextRetry = api.ClaimReady, at.Now, "", 0
		b.replace(c, &next)
		changed = true
	}
	return changed
}

// GrowsOutOfUse reports whether the volume is being expanded by a plugin that expands only unused volumes.
func GrowsOutOfUse(v *api.Volume) bool {
	return v.Provision.State == api.VolumeExpanding && v.Provision.OutOfUse
}

// free drops claims that have nothing on their node once that node is detached or kept by another claim. For a node
// with evicted claims the latter proves nothing: while it is attached it may still write.
func (b *Book) free() bool {
	if !slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool { return c.State == api.ClaimUnmounted }) {
		return false
	}
	before, kept := len(b.Claims), b.keepers()
	for node, claims := range kept { // before claims change their positions
		kept[node] = slices.DeleteFunc(claims, func(c *api.VolumeClaim) bool { return !b.keeps(c) })
	}
	b.Claims = slices.DeleteFunc(b.Claims, func(c *api.VolumeClaim) bool {
		return c.State == api.ClaimUnmounted && (!c.Attach || b.on(c.NodeID) == nil || !c.Presumed && len(kept[c.NodeID]) > 0)
	})
	if len(b.Claims) == before {
		return false
	}
	b.index()
	return true
}

func (b *Book) replace(old, next *api.VolumeClaim) {
	for _, i := range b.allocs[old.AllocID] {
		if b.Claims[i] == old {
			b.Claims[i] = next
			return
		}
	}
}
