package volumes

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// underWay lists the snapshots of a plugin, or of one of its volumes where external is given, that are being created
// or deleted, each with the command that ends it. Forgotten intents block nothing and are left out.
func underWay(tx *state.Txn, plugin, external string) (list []*api.SnapshotUnderWay) {
	for i := range tx.SnapshotIntents() {
		if i.PluginID != plugin || i.Forgotten || external != "" && i.ExternalID != external {
			continue
		}
		s := &api.SnapshotUnderWay{
			Name: i.Name, SnapshotID: i.SnapshotID, Source: i.ExternalID, State: "being made", Since: i.Since, LastError: i.LastError,
			Remedy: commandtext.Snapshot(i),
		}
		switch {
		case i.Delete:
			s.SnapshotID, s.State, s.Remedy = i.Name, "being deleted", commandtext.ForgetSnapshot(plugin, i.Name)
		case i.Unwanted:
			s.State, s.Remedy = "given up", commandtext.ForgetSnapshot(plugin, i.Name)
		case i.SnapshotID != "":
			s.State = "not ready"
		}
		list = append(list, s)
	}
	return list
}
