package keyring

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// late is how long after a rotation a server that has not applied it yet may sign with the former key.
const late = 10 * time.Minute

// uses describes what needs a former root key; it is empty when the key can be deleted.
func uses(tx *state.Txn, k *api.RootKey) (used []string) {
	count := func(n int, what string) {
		if n > 0 {
			used = append(used, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(variablesOf(tx, k.KeyID), "variables are encrypted with it")
	count(secrets.Used(tx, k.KeyID), "secrets of volumes and tokens are encrypted with it")
	if k.State == api.RootKeyPrepublished {
		return used
	}
	n := 0
	for node := range tx.Nodes() {
		// A node that has used an identity of an earlier key only may have received one of this key.
		if used := tx.RootKey(node.IdentitySigningKeyID); used != nil && (used.KeyID == k.KeyID || used.ActiveTime < k.ActiveTime) {
			n++
		}
	}
	count(n, "nodes have or may have identities that it signed")
	n = 0
	for a := range tx.Allocs(api.AllNamespaces) {
		if !a.ClientTerminal() && (k.RetireTime == 0 || a.CreateTime <= k.RetireTime+int64(late)) {
			n++
		}
	}
	count(n, "allocations may have identities that it signed")
	return used
}

func variablesOf(tx *state.Txn, id string) (n int) {
	for range tx.VariablesOfRootKey(id) {
		n++
	}
	return n
}

// shown is the metadata of a key as users see it: a former key that data is still encrypted with is being replaced.
func shown(tx *state.Txn, k *api.RootKey) *api.RootKeyMeta {
	meta := k.RootKeyMeta
	if meta.State == api.RootKeyInactive && variablesOf(tx, k.KeyID)+secrets.Used(tx, k.KeyID) > 0 {
		meta.State = api.RootKeyRekeying
	}
	return &meta
}
