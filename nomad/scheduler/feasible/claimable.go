package feasible

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

func (vs *Volumes) claimsOn(v *api.Volume) []*api.VolumeClaim {
	ext := external{v.PluginID, v.RemoteID()}
	if _, known := vs.stored[ext]; !known {
		vs.stored[ext] = slices.Collect(vs.view.ClaimsByExternal(ext.plugin, ext.id))
	}
	return slices.Concat(vs.stored[ext], vs.planned[ext])
}

// claimable is why the volume's claims leave no room for the allocation on the node, or "".
func (vs *Volumes) claimable(n *api.Node, w want) string {
	answer := claim.Fits(w.volume, vs.claimsOn(w.volume), w.on(n), vs.stopping)
	if answer.Verdict == claim.Refused {
		return "CSI " + answer.Reason
	}
	return ""
}

// on is the wish for the volume on that node.
func (w want) on(n *api.Node) claim.Request {
	r := w.request
	r.NodeID = n.ID
	return r
}

func modeOf(r claim.Request) api.ClaimMode {
	if r.ReadOnly {
		return api.ClaimRead
	}
	return api.ClaimWrite
}

// Take plans the claims of the allocation on the node, so that what follows in the plan sees them.
func (a *VolumeAsk) Take(n *api.Node) {
	for _, w := range a.wants {
		r := w.on(n)
		state := api.ClaimTaken
		if claim.Fits(w.volume, a.all.claimsOn(w.volume), r, a.all.stopping).Verdict == claim.Waits {
			state = api.ClaimWaiting
		}
		ext := external{w.volume.PluginID, w.volume.RemoteID()}
		a.all.planned[ext] = append(a.all.planned[ext], &api.VolumeClaim{
			Namespace: w.volume.Namespace, VolumeID: w.volume.ID, AllocID: r.AllocID, NodeID: r.NodeID,
			JobID: r.JobID, TaskGroup: r.TaskGroup, PluginID: ext.plugin, ExternalID: ext.id,
			Mode: modeOf(r), AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode, State: state,
		})
		a.all.volumesOn(n.ID)[ext] = true
	}
}
