package ledger

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Secrets lists the sets of secrets to call the driver with for an attachment: those of the specs as they are now,
// those from before their last change, and those that were recorded when the last spec was removed. Each set is there
// once; there is at least one, which may be empty.
func Secrets(tx *state.Txn, a *api.VolumeAttachment) (sets []map[string]string) {
	var former []map[string]string
	for _, v := range Gather(tx, a.PluginID, a.ExternalID).Specs {
		sets = withSecrets(sets, v.Secrets)
		former = append(former, v.Provision.FormerSecrets)
	}
	for _, s := range append(former, a.Secrets) {
		if len(s) > 0 {
			sets = withSecrets(sets, s)
		}
	}
	if len(sets) == 0 {
		return []map[string]string{nil}
	}
	return sets
}

func withSecrets(sets []map[string]string, s map[string]string) []map[string]string {
	for _, known := range sets {
		if maps.Equal(known, s) {
			return sets
		}
	}
	return append(sets, s)
}

// KeepFormer keeps the secrets from before a change for as long as something is attached or claimed with them.
func KeepFormer(tx *state.Txn, old, next *api.Volume) {
	if e := ExternalOf(tx, old); len(old.Secrets) == 0 || maps.Equal(old.Secrets, next.Secrets) || len(e.Claims)+len(e.Attachments)+len(e.WrittenOff) == 0 {
		return
	}
	next.Provision.FormerSecrets = old.Secrets
}

// Adopt lets a new spec take over the secrets that the attachments of its external volume were left with.
func Adopt(tx *state.Txn, v *api.Volume) {
	e := ExternalOf(tx, v)
	for _, a := range slices.Concat(e.Attachments, e.WrittenOff) {
		if len(a.Secrets) == 0 {
			continue
		}
		if !maps.Equal(a.Secrets, v.Secrets) {
			v.Provision.FormerSecrets = a.Secrets
		}
		next := *a
		next.Secrets = nil
		tx.PutAttachment(&next)
	}
}

// Orphan leaves the secrets of the last spec of an external volume to its attachments, which still have to be
// undone. Attachments that have secrets already, from before a restore, keep them, and snapshots that have to be deleted
// get the secrets that their requests did not bring. It is called before the spec is forgotten.
func Orphan(tx *state.Txn, v *api.Volume) {
	e := ExternalOf(tx, v)
	if e.other(v, func(*api.Volume) bool { return true }) != nil {
		return
	}
	for _, a := range slices.Concat(e.Attachments, e.WrittenOff) {
		if len(a.Secrets) > 0 {
			continue
		}
		next := *a
		next.Secrets = v.Secrets
		tx.PutAttachment(&next)
	}
	if len(v.Secrets) > 0 {
		leaveToSnapshots(tx, v)
	}
}

func leaveToSnapshots(tx *state.Txn, v *api.Volume) {
	for _, i := range slices.Collect(tx.SnapshotIntents()) {
		if i.PluginID != v.PluginID || i.ExternalID != v.RemoteID() {
			continue
		}
		next := *i
		next.Secrets = maps.Clone(v.Secrets)
		maps.Copy(next.Secrets, i.Secrets)
		tx.PutSnapshotIntent(&next)
	}
}

// forgetFormer drops former secrets once nothing is attached or claimed with them.
func forgetFormer(tx *state.Txn, plugin, external string) {
	e := Gather(tx, plugin, external)
	for _, v := range e.Specs {
		if len(e.WrittenOff) == 0 && len(v.Provision.FormerSecrets) > 0 {
			next := *v
			next.Provision.FormerSecrets = nil
			tx.PutVolume(&next)
		}
	}
}
