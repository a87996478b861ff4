package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// What this file asserts is written apart from what the services do.

// checkOutside asserts what must hold of storage and machines at each moment; the lock is held.
func (w *World) checkOutside() {
	writers := map[string]string{}
	for _, n := range w.nodes {
		for _, m := range n.live() {
			attach := m.plugin == "attach"
			if attach && !w.has(m.external, n.id) {
				if !w.outcast[m.key()] {
					w.fail("%s is mounted on %s and not attached there", m.key(), n.id)
				}
				continue // dead
			}
			if !exclusive(m.mode, m.writes) || !attach && !n.runs(m.alloc) {
				continue
			}
			if other := writers[m.external]; other != "" {
				w.fail("%s has two writers: %s and %s on %s", m.external, other, m.key(), n.id)
			}
			writers[m.external] = m.key() + " on " + n.id
		}
	}
}

// checkRecords asserts what must hold between the newest records and the world; the lock is held.
func (w *World) checkRecords() {
	tx := w.newest().store.Read()
	for _, v := range w.storage.Known() {
		for _, on := range v.Attached {
			node := on[len("provider-"):]
			known := tx.Attachment("attach", v.ID, node) != nil || tx.WrittenOffTo("attach", v.ID, node) != nil
			if !known && tx.Attachment("attach", v.ID+alias, node) == nil && tx.WrittenOffTo("attach", v.ID+alias, node) == nil {
				w.fail("%s is attached to %s and nothing is recorded", v.ID, on)
			}
		}
		if v.Name != v.ID && !recorded(tx, v) && !w.archives.forgotten[v.Name] && !w.disowned[v.ID] {
			w.fail("the provider has %s (%s) without a row or an intent", v.ID, v.Name)
		}
	}
	for _, n := range w.nodes {
		for _, m := range n.live() {
			if !w.outcast[m.key()] && !ledger.Unreported(tx, n.id) && tx.Claim(home(m.volume), m.volume, m.alloc, m.use) == nil {
				w.fail("%s is mounted on %s and has no claim", m.key(), n.id)
			}
		}
	}
	w.checkClaims(tx)
}

// recorded reports whether a volume that was made has a row, of its name or of its id: a second spec of what an uncertain
// creation made stays when that is given up.
func recorded(tx *state.Txn, k fake.Known) bool {
	for range tx.VolumesByExternal("attach", k.ID) {
		return true
	}
	return tx.Volume("default", k.Name) != nil
}

// checkClaims asserts that nobody is attached elsewhere before the old node is proven off, and that
// claims past waiting do not clash.
func (w *World) checkClaims(tx *state.Txn) {
	held := map[string][]*api.VolumeClaim{}
	var clashes []string
	for c := range tx.Claims() {
		if c.State == api.ClaimUnmounted && c.Proof == "" && c.Presumed {
			w.fail("the claim of %s on %s was given up without a proof", c.AllocID, c.VolumeID)
		}
		if c.State != api.ClaimWaiting {
			held[realID(c.ExternalID)] = append(held[realID(c.ExternalID)], c)
		}
	}
	for _, external := range sorted(held) {
		for i, x := range held[external] {
			for _, y := range held[external][:i] {
				gone := x.NodeID == y.NodeID && (x.State == api.ClaimUnmounted && !x.Presumed || y.State == api.ClaimUnmounted && !y.Presumed)
				both := exclusive(x.AccessMode, x.Mode == api.ClaimWrite) && exclusive(y.AccessMode, y.Mode == api.ClaimWrite)
				if both && !gone {
					clashes = append(clashes, fmt.Sprintf("%s is claimed by %s (%s) and %s (%s)", external, x.AllocID, x.State, y.AllocID, y.State))
				}
			}
		}
	}
	for a := range tx.Attachments() {
		if !slices.ContainsFunc(held[realID(a.ExternalID)], func(c *api.VolumeClaim) bool { return c.NodeID == a.NodeID }) {
			clashes = append(clashes, fmt.Sprintf("%s is %s to %s without a claim there", a.ExternalID, a.State, a.NodeID))
		}
	}
	if !w.clashing(len(clashes), tx) && len(clashes) > 0 {
		w.fail("%s", clashes[0])
	}
}

// check asserts everything, between two actions.
func (w *World) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkOutside()
	w.checkRecords()
}

// digest tells states apart.
func digest(s *state.Store) string {
	tx, sum := s.Read(), sha256.New()
	enc := json.NewEncoder(sum)
	put := func(row any) { _ = enc.Encode(row) }
	put(tx.Index())
	for n := range tx.Nodes() {
		put(n)
	}
	for a := range tx.Allocs(api.AllNamespaces) {
		bare := *a
		bare.Job = nil
		put(&bare)
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		put(v)
	}
	for c := range tx.Claims() {
		put(c)
	}
	for a := range tx.Attachments() {
		put(a)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// checkAlike asserts that servers which applied as much have the same state; the lock is held.
func (w *World) checkAlike(s *server) {
	d := digest(s.store)
	if known := w.digests[s.applied]; known == "" {
		w.digests[s.applied] = d
	} else if known != d {
		w.fail("%s has another state than others after %d entries", s.id, s.applied)
	}
}

// finish ends all faults, asserts that everybody is served, stops everything, and asserts that nothing
// is left: all within a bound of virtual time.
func (w *World) finish() {
	w.mu.Lock()
	w.calm = true
	w.tell("all faults end")
	for _, s := range w.servers {
		if !s.up && !s.gone {
			w.restart(s)
		}
		if s.alone {
			s.alone, s.knows = false, w.log.leader
			w.catchUp(s)
		}
	}
	if w.rnd.IntN(3) == 0 {
		w.dead = w.nodes[w.rnd.IntN(len(w.nodes))]
		w.tell("%s is dead for good, and what is asked of its volumes hangs", w.dead.id)
		if w.dead.os.Err() == nil {
			w.dead.cutPower()
		}
	}
	for _, n := range w.all() {
		w.revive(n)
	}
	w.mu.Unlock()
	for _, j := range w.jobs {
		j.wanted = j.wanted && !j.rival
	}
	w.until("is not served", w.patience(), w.unserved)
	for _, j := range w.jobs {
		j.wanted = false
	}
	w.say("all jobs end")
	w.until("is left", w.patience(), w.left)
	if n := w.dead; n != nil {
		w.mu.Lock()
		w.tell("%s boots after all", n.id)
		w.dead = nil
		w.revive(n)
		w.mu.Unlock()
		w.until("is left", w.patience(), w.left)
	}
	time.Sleep(10 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		if !s.gone {
			_, _ = s.applyAll()
			w.checkAlike(s)
		}
	}
}

// revive makes a machine good again; the lock is held.
func (w *World) revive(n *node) {
	if n == w.dead {
		return
	}
	w.heal(n)
	if n.os.Err() != nil {
		n.power()
	}
	n.start()
}

// kept reports whether the dead machine keeps an external volume.
func (w *World) kept(tx *state.Txn, external string) bool {
	if w.dead == nil {
		return false
	}
	for c := range tx.ClaimsByNode(w.dead.id) {
		if c.ExternalID == external {
			return true
		}
	}
	for a := range tx.AttachmentsByNode(w.dead.id) {
		if a.ExternalID == external {
			return true
		}
	}
	return false
}

// keptFrom reports whether an allocation waits for a volume that the dead machine keeps.
func (w *World) keptFrom(tx *state.Txn, alloc string) bool {
	for c := range tx.ClaimsByAlloc(alloc) {
		if w.kept(tx, c.ExternalID) {
			return true
		}
	}
	return false
}

// patience is the time within which everything is served again when faults have ceased.
func (w *World) patience() time.Duration { return w.lease + 5*time.Minute }

// until plays on, without faults, until nothing is amiss.
func (w *World) until(what string, bound time.Duration, amiss func() string) {
	begun := time.Now()
	for !w.failed() {
		w.mu.Lock()
		leader := w.log.leader
		w.mu.Unlock()
		if leader == nil {
			w.elect(w.rnd)
		}
		for _, j := range w.jobs {
			w.schedule(j, false)
		}
		w.amend()
		w.forgo()
		time.Sleep(time.Second + w.some(w.rnd, time.Second))
		w.quiet()
		w.check()
		bad := amiss()
		if bad == "" {
			w.mu.Lock()
			w.tally.Healing = max(w.tally.Healing, time.Since(begun))
			w.mu.Unlock()
			return
		}
		if time.Since(begun) > bound {
			w.mu.Lock()
			w.fail("%s %s after %s without faults", bad, what, bound)
			w.mu.Unlock()
		}
	}
}

// unserved is a claim of a living allocation that is not mounted, or a job that has not all it wants.
func (w *World) unserved() string {
	tx := w.truth().Read()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		live := 0
		for a := range tx.AllocsByJob(home(j.id), j.id) {
			if a.Terminal() {
				continue
			}
			live++
			for _, u := range a.VolumeUses() {
				if tx.Claim(a.Namespace, u.VolumeID, a.ID, u.Name) == nil && (w.dead == nil || a.NodeID != w.dead.id) {
					return fmt.Sprintf("the claim that %s has not on %s", a.ID, u.VolumeID)
				}
			}
		}
		able := !j.rival
		for _, u := range j.uses {
			v := tx.Volume(home(u.volume), u.volume)
			able = able && v != nil && v.Provision.State == api.VolumeAvailable && !w.kept(tx, v.RemoteID())
		}
		if j.wanted && able && live < j.count {
			return "job " + j.id
		}
	}
	for c := range tx.Claims() {
		a := tx.Alloc(c.AllocID)
		if a == nil || a.Terminal() || w.keptFrom(tx, c.AllocID) {
			continue
		}
		if c.State != api.ClaimReady {
			return fmt.Sprintf("the claim of %s on %s, %s: %s", c.AllocID, c.VolumeID, c.State, c.LastError)
		}
		for _, n := range w.nodes {
			if n.id == c.NodeID && (!n.mounted(c) || !n.runs(c.AllocID)) {
				return fmt.Sprintf("%s of %s on %s", c.VolumeID, c.AllocID, n.id)
			}
		}
	}
	return ""
}

// left is what nobody needs any more and is still there.
func (w *World) left() string {
	tx := w.truth().Read()
	for c := range tx.Claims() {
		if w.kept(tx, c.ExternalID) {
			continue
		}
		return fmt.Sprintf("the claim of %s on %s (%s, %s)", c.AllocID, c.VolumeID, c.State, c.LastError)
	}
	for a := range tx.Attachments() {
		if w.dead != nil && a.NodeID == w.dead.id {
			continue
		}
		return fmt.Sprintf("the attachment of %s to %s (%s, %s)", a.ExternalID, a.NodeID, a.State, a.LastError)
	}
	for a := range tx.WrittenOff() {
		if w.dead != nil && a.NodeID == w.dead.id {
			continue
		}
		return fmt.Sprintf("what was written off of %s to %s (%s)", a.ExternalID, a.NodeID, a.LastError)
	}
	for n := range tx.Nodes() {
		if w.dead != nil && n.ID == w.dead.id {
			continue
		}
		for _, m := range n.StaleMounts {
			return fmt.Sprintf("the stale mount of %s for %s on %s (%s)", m.VolumeID, m.AllocID, n.ID, m.LastError)
		}
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if v.Provision.State != api.VolumeAvailable && !w.kept(tx, v.RemoteID()) {
			return fmt.Sprintf("volume %s, %s (%s)", v.ID, v.Provision.State, v.Provision.LastError)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		for _, m := range n.live() {
			return fmt.Sprintf("the mount of %s on %s", m.key(), n.id)
		}
		if on, _ := n.kernel.Below("/state/csi/"); len(on) > 0 {
			return fmt.Sprintf("the mount at %s on %s", on[0].Point, n.id)
		}
		for _, k := range sorted(n.disk.buckets["volumes"]) {
			if n == w.dead {
				continue
			}
			return fmt.Sprintf("the journal's row %s on %s", n.disk.buckets["volumes"][k], n.id)
		}
	}
	for _, v := range w.storage.Known() {
		if v.Name != v.ID && !recorded(tx, v) && !w.archives.forgotten[v.Name] && !w.disowned[v.ID] {
			return "an orphan at the provider: " + v.ID
		}
	}
	return w.unlike(tx)
}
