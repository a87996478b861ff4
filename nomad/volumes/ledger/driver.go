package ledger

import (
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Learn records on the specs of an external volume whose driver is not known the name of the one that has answered about it.
func Learn(tx *state.Txn, plugin, external, driver string) {
	if driver == "" {
		return
	}
	for _, v := range Gather(tx, plugin, external).Specs {
		if v.Provision.Provider == "" {
			next := *v
			next.Provision.Provider = driver
			tx.PutVolume(&next)
		}
	}
}

// Renamed moves everything that the state keeps under a former name of a plugin's driver to the present name: the
// driver of volumes, attachments and snapshots. It is an operator override. It is refused while the former name has
// controllers, because two drivers exist then, and while the present one does not run, because no driver has that name
// then. Nodes may be updated later. What came after the index seen is not affected; 0 means the present index.
func Renamed(tx *state.Txn, plugin, former, present string, seen uint64) error {
	switch {
	case former == "" || present == "" || former == present:
		return fault.New(fault.Invalid, "the former and the present name of the driver are missing, or the same")
	case !runs(tx, plugin, present):
		return fault.New(fault.Conflict, "no healthy instance of CSI plugin %q is driver %q: see `nomad plugin status`", plugin, present)
	case slices.Contains(Drivers(tx, plugin), former):
		return fault.New(fault.Conflict, "CSI plugin %q has controllers of driver %q too, and one that was renamed has one name: ask again when all controllers are updated", plugin, former)
	}
	found := false
	meant := func(of string, created uint64) bool {
		is := of == former && (seen == 0 || created <= seen)
		found = found || is
		return is
	}
	for _, v := range slices.Collect(tx.VolumesByPlugin(plugin)) {
		if meant(v.Provision.Provider, v.CreateIndex) {
			next := *v
			next.Provision.Provider = present
			tx.PutVolume(&next)
		}
	}
	for _, a := range slices.Concat(slices.Collect(tx.Attachments()), slices.Collect(tx.WrittenOff())) {
		if a.PluginID == plugin && meant(a.Provider, a.CreateIndex) {
			next := *a
			next.Provider = present
			if a.State != api.AttachmentPublished && a.Refused == 0 {
				next.LastError, next.NextRetry, next.Attempts = "", 0, 0
			}
			tx.PutAttachment(&next)
		}
	}
	for _, i := range slices.Collect(tx.SnapshotIntents()) {
		if i.PluginID == plugin && meant(i.Provider, i.CreateIndex) {
			next := *i
			next.Provider = present
			tx.PutSnapshotIntent(&next)
		}
	}
	if !found {
		return fault.New(fault.NotFound, "nothing of CSI plugin %q is of driver %q", plugin, former)
	}
	return nil
}

// runs reports whether a healthy instance of the plugin is that driver.
func runs(tx *state.Txn, plugin, driver string) bool {
	for n := range tx.NodesByPlugin(plugin) {
		c, i := n.CSIControllerPlugins[plugin], n.CSINodePlugins[plugin]
		if n.Status == api.NodeStatusReady && (c != nil && c.Healthy && c.Provider == driver || i != nil && i.Healthy && i.Provider == driver) {
			return true
		}
	}
	return false
}
