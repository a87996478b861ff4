package secrets

import (
	"context"
	"iter"
	"maps"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Used counts the values of the state that a root key has sealed. Such a key must stay.
func Used(tx *state.Txn, key string) (n int) {
	for set := range sets(tx) {
		for name, value := range set {
			if name != variable && keyOf(value) == key {
				n++
			}
		}
	}
	return n
}

// sets are all sets of secrets in the state.
func sets(tx *state.Txn) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		for v := range tx.Volumes(api.AllNamespaces) {
			for _, set := range ofVolume(v) {
				if !yield(*set) {
					return
				}
			}
		}
		for _, rows := range []iter.Seq[*api.VolumeAttachment]{tx.Attachments(), tx.WrittenOff()} {
			for a := range rows {
				if !yield(a.Secrets) {
					return
				}
			}
		}
		for i := range tx.SnapshotIntents() {
			if !yield(i.Secrets) {
				return
			}
		}
		for t := range tx.ACLTokens() {
			if !yield(map[string]string{ofToken(t): t.SecretID}) {
				return
			}
		}
	}
}

// ofVolume points to the sets of a volume.
func ofVolume(v *api.Volume) []*map[string]string {
	p := &v.Provision
	list := []*map[string]string{&v.Secrets, &p.IntentSecrets, &p.FormerSecrets}
	if p.Replaces != nil {
		list = append(list, &p.Replaces.Secrets)
	}
	return list
}

// Older returns up to limit values that other root keys than the active one have sealed, each with what the active one
// makes of it. Values that cannot be opened stay, and failed is why.
func (b *Box) Older(ctx context.Context, tx *state.Txn, limit int) (values map[string]string, failed error) {
	active := tx.ActiveRootKey()
	if active == nil {
		return nil, nil
	}
	values = map[string]string{}
	for set := range sets(tx) {
		for name, old := range set {
			if id := keyOf(old); name == variable || id == "" || id == active.KeyID || values[old] != "" {
				continue
			}
			plain, err := b.open(name, old)
			if err != nil {
				failed = err
				continue
			}
			if values[old], err = b.seal(ctx, name, plain); err != nil {
				return nil, err
			}
			if len(values) == limit {
				return values, failed
			}
		}
	}
	return values, failed
}

// Replace puts other sealed values in the place of those that map to them, wherever the state has them. A value whose
// root key was removed meanwhile replaces nothing.
func Replace(tx *state.Txn, values map[string]string) {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(_, next string) bool { return tx.RootKey(keyOf(next)) == nil })
	var volumes []*api.Volume
	for v := range tx.Volumes(api.AllNamespaces) {
		next, changed := *v, false
		if p := &next.Provision; p.Replaces != nil {
			earlier := *p.Replaces
			p.Replaces = &earlier
		}
		for _, set := range ofVolume(&next) {
			changed = replace(set, values) || changed
		}
		if changed {
			volumes = append(volumes, &next)
		}
	}
	var attachments []*api.VolumeAttachment
	for _, rows := range []iter.Seq[*api.VolumeAttachment]{tx.Attachments(), tx.WrittenOff()} {
		for a := range rows {
			if next := *a; replace(&next.Secrets, values) {
				attachments = append(attachments, &next)
			}
		}
	}
	var intents []*api.SnapshotIntent
	for i := range tx.SnapshotIntents() {
		if next := *i; replace(&next.Secrets, values) {
			intents = append(intents, &next)
		}
	}
	var tokens []*api.ACLToken
	for t := range tx.ACLTokens() {
		if secret := values[t.SecretID]; secret != "" {
			next := *t
			next.SecretID = secret
			tokens = append(tokens, &next)
		}
	}
	for _, t := range tokens {
		tx.PutACLToken(t)
	}
	for _, v := range volumes {
		tx.PutVolume(v)
	}
	for _, a := range attachments {
		tx.PutAttachment(a)
	}
	for _, i := range intents {
		tx.PutSnapshotIntent(i)
	}
}

// replace exchanges values of a set for a copy of it.
func replace(set *map[string]string, values map[string]string) (changed bool) {
	next := make(map[string]string, len(*set))
	for name, value := range *set {
		if other := values[value]; other != "" && name != variable {
			value, changed = other, true
		}
		next[name] = value
	}
	if changed {
		*set = next
	}
	return changed
}
