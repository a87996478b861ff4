package ledger

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/mask"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Detail is a volume with its claims and attachments, without secrets, and without what follows from its plugin. Each
// allocation that uses it is a key of ReadAllocs or WriteAllocs; the value is nil.
func Detail(tx *state.Txn, v *api.Volume) *api.VolumeDetail {
	d := &api.VolumeDetail{
		Volume: *mask.Redacted(v), ExternalID: v.RemoteID(), Context: v.Context, Topologies: v.Provision.Topologies,
		Capacity: v.Provision.CapacityBytes, State: v.Provision.State, LastError: v.Provision.LastError,
		NotValidated: v.Provision.NotValidated, SlowestWriteBack: v.Provision.SlowestWriteBack, NodeExpansion: v.Provision.NodeExpansion,
		ReadAllocs: map[string]*api.Allocation{}, WriteAllocs: map[string]*api.Allocation{},
		Attachments: slices.Collect(tx.AttachmentsOf(v.PluginID, v.RemoteID())),
	}
	if v.Provision.ExternalID == "" {
		d.ExternalID = v.ExternalID
	}
	if len(v.Provision.Context) > 0 {
		d.Context = v.Provision.Context
	}
	for _, c := range ClaimsOf(tx, v) {
		d.Claims = append(d.Claims, Shown(tx, c))
		if c.State == api.ClaimWaiting {
			continue
		}
		d.AccessMode, d.AttachmentMode = cmp.Or(d.AccessMode, c.AccessMode), cmp.Or(d.AttachmentMode, c.AttachmentMode)
		if c.Mode == api.ClaimWrite {
			d.WriteAllocs[c.AllocID] = nil
		} else {
			d.ReadAllocs[c.AllocID] = nil
		}
	}
	return d
}

// Shown is a claim without an allocation of another namespace, which readers of the claim may not see.
func Shown(tx *state.Txn, c *api.VolumeClaim) *api.VolumeClaim {
	if c.Predecessor == "" {
		return c
	}
	if before := tx.Alloc(c.Predecessor); before != nil && before.Namespace != c.Namespace {
		own := *c
		own.Predecessor, c = "", &own
	}
	return c
}
