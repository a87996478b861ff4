package commands

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// Twin is a volume of another plugin that has the same driver, and the same id at it: by the CSI specification one driver
// has one volume of an id, and users of different plugins do not exclude each other. It is nil where both may be written
// by all at once, or where one of the drivers is not known.
func Twin(tx *state.Txn, v *api.Volume, external string) *api.Volume {
	driver := v.Provision.Provider
	if driver == "" || external == "" {
		return nil
	}
	for o := range tx.Volumes(api.AllNamespaces) {
		has := cmp.Or(o.Provision.ExternalID, o.ExternalID) == external
		if has && o.PluginID != v.PluginID && o.Provision.Provider == driver && (excludes(o) || excludes(v)) {
			return o
		}
	}
	return nil
}

// excludes reports whether some capability of the volume lets a user keep others out.
func excludes(v *api.Volume) bool {
	return slices.ContainsFunc(v.RequestedCapabilities, func(c *api.VolumeCapability) bool {
		return c != nil && claim.Exclusive(c.AccessMode, api.ClaimWrite)
	})
}

// noTwin refuses a volume, or one that excludes others from now on, whose users would not exclude those of its twin.
func noTwin(tx *state.Txn, old, v *api.Volume) error {
	if old != nil && old.Provision.State != api.VolumeFailed && (excludes(old) || !excludes(v)) {
		return nil
	}
	o := Twin(tx, v, v.RemoteID())
	if o == nil {
		return nil
	}
	return fault.New(fault.Conflict,
		"volume %q: its driver %s has one volume of the external ID %q, which is volume %q in namespace %q, of plugin %q: "+
			"register it with that plugin, for users of different plugins do not exclude each other, or give the driver of another storage a name of its own",
		v.ID, o.Provision.Provider, v.RemoteID(), o.ID, o.Namespace, o.PluginID)
}
