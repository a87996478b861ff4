package ledger_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Hosts of controllers have seen the intents of the state before; callers wait for the operation that they have begun.
func TestOperationsOfVolumesAreRenewedWhenTheWaitAfterARestoreEnds(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	states := map[string]api.VolumeState{
		"creating": api.VolumeCreating, "deleting": api.VolumeDeleting, "expanding": api.VolumeExpanding, "available": api.VolumeAvailable,
		"failed": api.VolumeFailed,
	}
	b.must(func(tx *state.Txn) error {
		for id, s := range states {
			v := &api.Volume{VolumeSpec: api.VolumeSpec{Namespace: "default", ID: id, PluginID: "p"}}
			v.Provision.State, v.Provision.Intent = s, 3
			if s == api.VolumeDeleting {
				v.Provision.Began = 2
			}
			tx.PutVolume(v)
		}
		tx.PutRollback(&api.Rollback{At: 1, Untold: []string{"n1"}})
		return nil
	})
	for range 5 {
		b.must(func(*state.Txn) error { return nil })
	}
	b.must(ledger.RollbackOver)
	tx := b.state.Read()
	for id, s := range states {
		p, operation, intent, uncertain := tx.Volume("default", id).Provision, uint64(3), tx.Index(), false
		switch s {
		case api.VolumeDeleting:
			operation, uncertain = 2, true
		case api.VolumeCreating: // a call with the intent of before may be under way
			uncertain = true
		case api.VolumeAvailable, api.VolumeFailed:
			intent = 3
		}
		if p.Intent != intent || p.Operation() != operation || p.Uncertain != uncertain {
			t.Errorf("the operation %d of a volume that is %s has the intent %d at index %d, uncertain: %t", p.Operation(), s, p.Intent, tx.Index(), p.Uncertain)
		}
	}
}
