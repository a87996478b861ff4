package cluster

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// An operator saves the state now and then, and restores it later. Rows may vanish, or come back; nodes and the storage
// stay as they are. In the log it is one entry with the state that all servers have from then on: what may become of it
// before a majority has it is for the tests of package fsm.

// archives is what an operator has saved, and what must be known after a restore.
type archives struct {
	saved []byte
	// restores counts what was begun to be put in the place of the present state.
	restores int
	// busy is set while a leader takes no commands, because it restores.
	busy bool
	// settling is set from a restore on until no two claims of the records are in each other's way: what either state
	// says that a node has is there.
	settling bool
	// forgotten are volumes by name whose rows, or what those name, went with a restore: they are the operator's to compare.
	forgotten map[string]bool
	// spared are external volumes that only the restored state was to delete.
	spared map[string]bool
	// doomed are those that the present one was to delete: that may be asked of the storage at the moment of the restore.
	doomed map[string]bool
}

// archive saves the state, or restores what was saved before.
func (w *World) archive(r *rand.Rand) {
	w.mu.Lock()
	s := w.log.leader
	idle := s == nil || !s.ready || w.archives.busy
	if !idle && (w.archives.saved == nil || r.IntN(3) == 0) {
		w.archives.saved = s.dumped()
		w.tell("an operator saves the state of %s", s.id)
		idle = true
	}
	if idle {
		w.mu.Unlock()
		return
	}
	w.archives.busy = true
	term := w.log.term
	w.archives.restores++
	w.mu.Unlock()
	go w.restore(s, term)
}

// restore has a leader put the saved state in the place of its own, once everything is committed that it has begun.
func (w *World) restore(s *server, term int) {
	r := w.dice.roll("restore " + s.id)
	for {
		if !w.sleep(w.root, w.some(r, 5*time.Millisecond)) {
			return
		}
		w.mu.Lock()
		if w.log.leader != s || w.log.term != term {
			w.mu.Unlock()
			return
		}
		if len(w.log.pending) == 0 {
			break
		}
		w.mu.Unlock()
	}
	p := w.propose(entry{restored: w.merged(s), by: s.id}, w.some(r, 9*time.Millisecond))
	w.mu.Unlock()
	_, _ = p.wait(context.Background())
}

// merged is the saved state with what the present one says of the world; the lock is held.
func (w *World) merged(s *server) []byte {
	older := state.New()
	if err := older.Restore(bytes.NewReader(w.archives.saved)); err != nil {
		w.fail("what was saved cannot be read: %v", err)
		return s.dumped()
	}
	now, before := s.store.Read(), older.Read()
	w.spare(before, now)
	tx := older.Write(now.Index()+1, time.Now().Add(s.clock))
	if w.bug != BugBareRestore {
		ledger.RollBack(tx, now)
	}
	tx.Commit()
	var b bytes.Buffer
	if err := older.Read().Dump(&b); err != nil {
		w.fail("the restored state cannot be written: %v", err)
	}
	return b.Bytes()
}

// spare notes what the restore must not destroy, and what it forgets; the lock is held.
func (w *World) spare(before, now *state.Txn) {
	deleting := func(v *api.Volume) bool { return v != nil && v.Provision.State == api.VolumeDeleting }
	for v := range now.Volumes(api.AllNamespaces) {
		old := before.Volume(v.Namespace, v.ID)
		forgotten := old == nil || old.CreateIndex != v.CreateIndex || old.RemoteID() != v.RemoteID()
		w.archives.forgotten[v.ID] = w.archives.forgotten[v.ID] || forgotten
		w.disowned[v.RemoteID()] = w.disowned[v.RemoteID()] || forgotten
		w.archives.doomed[v.RemoteID()] = w.archives.doomed[v.RemoteID()] || deleting(v)
	}
	for v := range before.Volumes(api.AllNamespaces) {
		if deleting(v) && !deleting(now.Volume(v.Namespace, v.ID)) {
			w.archives.spared[v.RemoteID()] = true
		}
	}
}

// tookBack begins what follows a restore that is committed; the lock is held.
func (w *World) tookBack() {
	w.archives.busy, w.archives.settling = false, true
	w.tally.Restores++
	if s := w.log.leader; s != nil && s.ready {
		s.begin()
	}
}

// clashing reports whether the records may be in each other's way still; the lock is held.
func (w *World) clashing(clashes int, tx *state.Txn) bool {
	w.archives.settling = w.archives.settling && (clashes > 0 || tx.Rollback() != nil)
	return w.archives.settling
}

// lost are volumes that the records know again, and the provider does not have.
func (w *World) lost(tx *state.Txn) (ids []string) {
	known := w.storage.Known()
	for v := range tx.Volumes(api.AllNamespaces) {
		there := slices.ContainsFunc(known, func(k fake.Known) bool { return k.ID == realID(v.RemoteID()) })
		if v.Provision.State == api.VolumeAvailable && v.RemoteID() != "" && !there {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// forget forgets a volume, as operators do with one that is gone.
func (w *World) forget(id string) {
	_ = w.user(&api.VolumeDeregisterRequest{VolumeID: id, Force: true, WriteRequest: api.WriteRequest{Namespace: home(id)}},
		wire.VolumeDeregister.Name, &api.WriteMeta{})
}

// restoring refuses commands while the leader restores; the lock is held.
func (w *World) restoring() error {
	if !w.archives.busy {
		return nil
	}
	return fault.New(fault.Unavailable, "a snapshot is being restored")
}
