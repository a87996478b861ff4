package feasible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// book is what counts of one external volume for an evaluation: what the snapshot has, and the claims that the plan
// takes.
type book struct {
	specs       []*api.Volume
	attachments []*api.VolumeAttachment
	all         []*api.VolumeClaim
	holding     func(*api.VolumeClaim) claim.Holding
	// stale are the nodes that may have it mounted for claims that were given up.
	stale []*api.Node
	// matter are the claims that keep somebody out, per kind of request: a volume that many share has many
	// claims, but hardly one that matters.
	matter map[askKind][]*api.VolumeClaim
}

// askKind is what of a request decides whom it can share a volume with: the use of a volume by a group, which may be
// another one in each version of the job.
type askKind struct {
	group, volume, use string
	access             api.AccessMode
	attachment         api.AttachmentMode
	readOnly           bool
	options            string
}

func kindOf(r claim.Request) askKind {
	k := askKind{group: r.TaskGroup, volume: r.VolumeID, use: r.Use, access: r.AccessMode, attachment: r.AttachmentMode, readOnly: r.ReadOnly}
	if m := r.MountOptions; m != nil {
		k.options = m.FSType + "\x00" + strings.Join(m.MountFlags, "\x00")
	}
	return k
}

func (vs *Volumes) book(v *api.Volume) *book {
	ext := external{v.PluginID, v.RemoteID()}
	b := vs.books[ext]
	if b == nil {
		b = &book{
			specs:       slices.Collect(vs.view.VolumesByExternal(ext.plugin, ext.id)),
			attachments: slices.Collect(vs.view.AttachmentsOf(ext.plugin, ext.id)),
			all:         slices.Collect(vs.view.ClaimsByExternal(ext.plugin, ext.id)),
			stale:       slices.Collect(vs.view.NodesByStaleMount(ext.plugin, ext.id)),
			matter:      map[askKind][]*api.VolumeClaim{},
			holding: func(c *api.VolumeClaim) claim.Holding {
				return claim.Holding{Alloc: vs.view.Alloc(c.AllocID), Node: vs.view.Node(c.NodeID)}
			},
		}
		vs.books[ext] = b
	}
	return b
}

// against returns the book with those claims that may keep the request out.
func (b *book) against(w want) claim.Book {
	v, r, kind := w.volume, w.request, w.kind
	list, known := b.matter[kind]
	if !known {
		list = slices.DeleteFunc(slices.Clone(b.all), func(c *api.VolumeClaim) bool { return !b.excludes(v, c, r) })
		b.matter[kind] = list
	}
	return claim.Book{Claims: list, Attachments: b.attachments, Holding: b.holding}
}

// add notes a claim that the plan takes; its kind was asked for before.
func (b *book) add(w want, c *api.VolumeClaim, r claim.Request) {
	b.all = append(b.all, c)
	if _, known := b.matter[w.kind]; !known {
		return
	}
	for kind := range b.matter {
		if kind != w.kind {
			delete(b.matter, kind)
		} else if b.excludes(w.volume, c, r) {
			b.matter[kind] = append(b.matter[kind], c)
		}
	}
}

// excludes reports whether the claim alone would keep such a request out, on its node or on another.
func (b *book) excludes(v *api.Volume, c *api.VolumeClaim, r claim.Request) bool {
	r.AllocID = ""
	alone := claim.Book{Claims: []*api.VolumeClaim{c}, Attachments: b.attachments}
	for _, node := range []string{c.NodeID, ""} {
		r.NodeID = node
		if verdict := claim.Fits(v, alone, r, nil).Verdict; verdict == claim.Refused || verdict == claim.Waits {
			return true
		}
	}
	return false
}

// claimable is why the volume's claims leave no capacity for the allocation on the node, or "".
func (vs *Volumes) claimable(n *api.Node, w want) string {
	answer := claim.Fits(w.volume, vs.book(w.volume).against(w), w.on(n), vs.stopping)
	if answer.Verdict == claim.Refused {
		return "CSI " + answer.Reason + vs.closedTo(n, w)
	}
	return ""
}

// closedTo says of a volume that one node may use, and that could be shared there, that this node takes nothing new; or "".
func (vs *Volumes) closedTo(n *api.Node, w want) string {
	if w.request.AccessMode != api.AccessSingleNodeMulti {
		return ""
	}
	for _, c := range vs.book(w.volume).all {
		at := vs.view.Node(c.NodeID)
		if c.NodeID == n.ID || c.State != api.ClaimReady || at == nil || at.Status != api.NodeStatusReady || Available(at) {
			continue
		}
		if at.DrainStrategy != nil {
			return fmt.Sprintf("; node %s, where it is shared, is being drained", at.ID)
		}
		return fmt.Sprintf("; node %s, where it is shared, is not eligible: `nomad node eligibility -enable %s` lets others come there", at.ID, at.ID)
	}
	return ""
}

// on asks for the volume on that node.
func (w want) on(n *api.Node) claim.Request {
	r := w.request
	r.NodeID = n.ID
	return r
}

// Take plans the claims of the allocation on the node, so that what follows in the plan sees them.
func (a *VolumeAsk) Take(n *api.Node) {
	for _, w := range a.wants {
		r, b := w.on(n), a.all.book(w.volume)
		state := api.ClaimTaken
		if claim.Fits(w.volume, b.against(w), r, a.all.stopping).Verdict == claim.Waits {
			state = api.ClaimWaiting
		}
		ext := w.external()
		b.add(w, &api.VolumeClaim{
			Namespace: w.volume.Namespace, VolumeID: w.volume.ID, AllocID: r.AllocID, Use: r.Use, NodeID: r.NodeID,
			JobID: r.JobID, TaskGroup: r.TaskGroup, PluginID: ext.plugin, ExternalID: ext.id,
			Mode: claim.ModeOf(r.ReadOnly, r.AccessMode), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode,
			MountOptions: r.MountOptions, State: state,
		}, r)
		a.all.onNode[n.ID] = appendUnique(a.all.volumesOn(n.ID), ext)
	}
}
