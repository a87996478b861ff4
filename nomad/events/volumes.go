package events

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// volume adds the event on a volume: what /v1/volume/csi/:id shows, without what follows from its plugin and its
// allocations.
func (w *builder) volume(v *api.Volume, kind string) {
	if key := "volume " + v.Namespace + "\x00" + v.ID; kind != "CSIVolumeClaim" || !w.seen[key] {
		w.seen[key] = true
		w.add(api.TopicCSIVolume, kind, v.ID, v.Namespace, map[string]any{"Volume": w.detail(v)}, v.ID, v.Name, v.PluginID)
	}
}

func (w *builder) detail(v *api.Volume) *api.VolumeDetail {
	d := ledger.Detail(w.tx, v)
	d.Allocations = []*api.AllocStub{}
	return d
}

// ended is the phase of claims and attachments whose row was deleted.
const ended = "ended"

func claimEvent(w *builder, c state.Change) {
	claim, deleted := row[api.VolumeClaim](c)
	before, _ := c.Before.(*api.VolumeClaim)
	phase, previous := string(claim.State), ""
	if before != nil {
		previous = string(before.State)
	}
	if deleted {
		phase = ended
	}
	w.add(api.TopicVolumeClaim, "VolumeClaim"+title(phase), claim.VolumeID+"/"+claim.AllocID, claim.Namespace,
		map[string]any{"Claim": ledger.Shown(w.tx, claim), "Phase": phase, "Previous": previous},
		claim.VolumeID, claim.AllocID, claim.NodeID, claim.JobID, claim.PluginID)
}

// attachmentEvent adds one event per namespace that has a volume of the external volume.
func attachmentEvent(w *builder, c state.Change) {
	a, deleted := row[api.VolumeAttachment](c)
	before, _ := c.Before.(*api.VolumeAttachment)
	phase, previous := string(a.State), ""
	if before != nil {
		previous = string(before.State)
	}
	if deleted {
		phase = ended
	}
	names := map[string][]string{}
	if w.tx != nil {
		for v := range w.tx.VolumesByExternal(a.PluginID, a.ExternalID) {
			names[v.Namespace] = append(names[v.Namespace], v.ID)
		}
	}
	if len(names) == 0 {
		names[""] = nil // its volumes are deregistered
	}
	for _, namespace := range slices.Sorted(maps.Keys(names)) {
		w.add(api.TopicVolumeAttachment, "VolumeAttachment"+title(phase), a.ExternalID+"/"+a.NodeID, namespace,
			map[string]any{"Attachment": mask.Redacted(a), "Phase": phase, "Previous": previous, "Volumes": names[namespace]},
			append([]string{a.ExternalID, a.NodeID, a.PluginID}, names[namespace]...)...)
	}
}

// title makes the name of a type from a phase: "written off" becomes WrittenOff.
func title(phase string) string {
	var b strings.Builder
	for _, word := range strings.Fields(phase) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
