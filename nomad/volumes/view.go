package volumes

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/allocs/row"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// detail is a volume with what follows from claims, plugin and nodes, and without secrets.
func detail(tx *state.Txn, v *api.Volume) *api.VolumeDetail {
	d := ledger.Detail(tx, v)
	for _, uses := range []map[string]*api.Allocation{d.ReadAllocs, d.WriteAllocs} {
		for id := range uses {
			a := tx.Alloc(id)
			if a != nil && !slices.ContainsFunc(d.Allocations, func(o *api.AllocStub) bool { return o.ID == a.ID }) {
				d.Allocations = append(d.Allocations, row.Of(a))
			}
			uses[id] = a
		}
	}
	slices.SortFunc(d.Allocations, newest)
	if external := v.RemoteID(); external != "" {
		d.Snapshots = underWay(tx, v.PluginID, external)
	}
	if p := pluginview.Of(tx, v.PluginID); p != nil {
		d.Provider, d.ProviderVersion, d.ControllerRequired = p.Provider, p.Version, controllerRequired(v, p)
		d.ControllersHealthy, d.ControllersExpected = p.ControllersHealthy, p.ControllersExpected
		d.NodesHealthy, d.NodesExpected = p.NodesHealthy, p.NodesExpected
		d.Schedulable = schedulable(v, p)
	}
	return d
}

func newest(a, b *api.AllocStub) int {
	return cmp.Or(cmp.Compare(b.ModifyIndex, a.ModifyIndex), cmp.Compare(a.ID, b.ID))
}

// controllerRequired reports whether the volume needs a controller: to be attached, or for an operation under way.
func controllerRequired(v *api.Volume, p *api.Plugin) bool {
	//exhaustive:enforce
	switch v.Provision.State {
	case api.VolumeCreating, api.VolumeExpanding, api.VolumeDeleting:
		return true
	case api.VolumeAvailable, api.VolumeFailed:
	}
	return p.ControllerRequired
}

func schedulable(v *api.Volume, p *api.Plugin) bool {
	usable := v.Provision.State == api.VolumeAvailable || v.Provision.State == api.VolumeExpanding
	return usable && p.NodesHealthy > 0 && (!p.ControllerRequired || p.ControllersHealthy > 0)
}

// stub is the row of a volume in lists.
func stub(tx *state.Txn, v *api.Volume, p *api.Plugin) *api.VolumeStub {
	s := &api.VolumeStub{
		ID: v.ID, Namespace: v.Namespace, Name: v.Name, ExternalID: v.RemoteID(), Topologies: v.Provision.Topologies,
		PluginID: v.PluginID, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex,
		CreateTime: v.CreateTime, ModifyTime: v.ModifyTime,
	}
	if v.Provision.ExternalID == "" {
		s.ExternalID = v.ExternalID
	}
	for _, c := range ledger.ClaimsOf(tx, v) {
		switch {
		case c.State == api.ClaimWaiting:
			continue
		case c.Mode == api.ClaimWrite:
			s.CurrentWriters++
		default:
			s.CurrentReaders++
		}
		s.AccessMode, s.AttachmentMode = cmp.Or(s.AccessMode, c.AccessMode), cmp.Or(s.AttachmentMode, c.AttachmentMode)
	}
	if p != nil {
		s.Provider, s.ControllerRequired = p.Provider, controllerRequired(v, p)
		s.ControllersHealthy, s.ControllersExpected = p.ControllersHealthy, p.ControllersExpected
		s.NodesHealthy, s.NodesExpected = p.NodesHealthy, p.NodesExpected
		s.Schedulable = schedulable(v, p)
	}
	return s
}
