package ledger

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Replacement is a change of a job that replaces instances of a CSI plugin under its users.
type Replacement struct {
	PluginID string
	// Mounts counts the volumes that may be mounted through the plugin, Nodes where, Attached what is attached.
	Mounts, Nodes, Attached int
}

// Replacements lists, by plugin, whose instances of old change under their users when next is registered, as
// replaced says of groups. Both jobs may be nil.
func Replacements(tx *state.Txn, old, next *api.Job, replaced func(group string) bool) (list []Replacement) {
	if old == nil || old.Stop || next == nil {
		return nil
	}
	ids := map[string]bool{}
	for _, g := range old.TaskGroups {
		for id := range groupOffers(g) {
			ids[id] = ids[id] || replaced(g.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if r := replacement(tx, id); ids[id] && r.Mounts+r.Attached > 0 {
			list = append(list, r)
		}
	}
	return list
}

func replacement(tx *state.Txn, plugin string) Replacement {
	volumes, nodes, attached := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for c := range tx.Claims() {
		if c.PluginID == plugin && Mounted(c) {
			volumes[c.ExternalID], nodes[c.NodeID] = true, true
		}
	}
	for a := range tx.Attachments() {
		if a.PluginID == plugin {
			attached[a.ExternalID] = true
		}
	}
	return Replacement{PluginID: plugin, Mounts: len(volumes), Nodes: len(nodes), Attached: len(attached)}
}
