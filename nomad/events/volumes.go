package events

import (
	"cmp"
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
	d := &api.VolumeDetail{
		Volume: *mask.Redacted(v), ExternalID: v.RemoteID(), Context: v.Context, Topologies: v.Provision.Topologies,
		Capacity: v.Provision.CapacityBytes, State: v.Provision.State, LastError: v.Provision.LastError,
		NotValidated: v.Provision.NotValidated, SlowestWriteBack: v.Provision.SlowestWriteBack, NodeExpansion: v.Provision.NodeExpansion,
		ReadAllocs: map[string]*api.Allocation{}, WriteAllocs: map[string]*api.Allocation{}, Allocations: []*api.AllocStub{},
		Attachments: slices.Collect(w.tx.AttachmentsOf(v.PluginID, v.RemoteID())),
	}
	if v.Provision.ExternalID == "" {
		d.ExternalID = v.ExternalID
	}
	if len(v.Provision.Context) > 0 {
		d.Context = v.Provision.Context
	}
	for _, c := range ledger.ClaimsOf(w.tx, v) {
		d.Claims = append(d.Claims, c)
		if c.State == api.ClaimWaiting {
			continue
		}
		d.AccessMode, d.AttachmentMode = cmp.Or(d.AccessMode, c.AccessMode), cmp.Or(d.AttachmentMode, c.AttachmentMode)
		users := d.ReadAllocs
		if c.Mode == api.ClaimWrite {
			users = d.WriteAllocs
		}
		users[c.AllocID] = nil
	}
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
		map[string]any{"Claim": claim, "Phase": phase, "Previous": previous},
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
