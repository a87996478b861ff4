package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// check asserts what must hold after every step.
func (w *World) check() {
	tx := w.store.Read()
	w.checkUsers()
	w.checkMounts()
	w.checkEffects(tx)
	for _, v := range slices.Collect(tx.Volumes(api.AllNamespaces)) {
		w.checkBook(v, ledger.Read(tx, v.PluginID, v.RemoteID()))
	}
	for _, external := range slices.Sorted(maps.Keys(w.leader.inFlight)) {
		if calls := w.leader.inFlight[external]; calls > 1 {
			w.fail("%d calls are in flight for %s", calls, external)
		}
	}
}

// checkUsers counts those who can really use each volume now: a mount whose volume is detached is dead.
func (w *World) checkUsers() {
	writers, users := map[string][]string{}, map[string][]string{}
	w.eachMount(func(n *node, _ string, m mount) {
		if m.plugin == "attach" && !w.driver.attached[m.external][n.id] {
			return
		}
		if m.alone {
			users[m.volume] = append(users[m.volume], m.alloc+" on "+n.id)
		}
		if m.writes && m.single {
			writers[m.volume] = append(writers[m.volume], m.alloc+" on "+n.id)
		}
	})
	for _, v := range slices.Sorted(maps.Keys(users)) {
		if len(users[v]) > 1 {
			w.fail("%s has two users: %v", v, users[v])
		}
	}
	for _, v := range slices.Sorted(maps.Keys(writers)) {
		if len(writers[v]) > 1 {
			w.fail("%s has two writers: %v", v, writers[v])
		}
	}
}

func (w *World) eachMount(do func(n *node, k string, m mount)) {
	for _, n := range w.nodes {
		for _, k := range slices.Sorted(maps.Keys(n.mounts)) {
			do(n, k, n.mounts[k])
		}
	}
}

// checkMounts asserts that a mount has its volume attached, unless its node was given up.
func (w *World) checkMounts() {
	w.eachMount(func(n *node, k string, m mount) {
		if m.plugin == "attach" && !w.driver.attached[m.external][n.id] && !w.outcast[k] {
			w.fail("%s is mounted for %s on %s and not attached", m.volume, m.alloc, n.id)
		}
	})
}

// checkEffects asserts that everything outside is recorded or intended.
func (w *World) checkEffects(tx *state.Txn) {
	for _, external := range slices.Sorted(maps.Keys(w.driver.attached)) {
		for _, node := range slices.Sorted(maps.Keys(w.driver.attached[external])) {
			if tx.Attachment("attach", external, node) == nil {
				w.fail("%s is attached to %s and nothing is recorded", external, node)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.driver.volumes)) {
		if tx.Volume("default", name) == nil {
			w.fail("the provider has volume %s without a row or an intent", name)
		}
	}
}

// checkBook asserts the invariants of the records of one external volume.
func (w *World) checkBook(v *api.Volume, b claim.Book) {
	again := w.rules.Settle(b, claim.Moment{Index: w.store.Read().Index(), Now: w.now.UnixNano()})
	if !slices.Equal(again.Claims, b.Claims) || !slices.Equal(again.Attachments, b.Attachments) {
		w.fail("settling %s again changes it", v.ID)
	}
	mode := v.RequestedCapabilities[0].AccessMode
	var held []*api.VolumeClaim
	for _, c := range b.Claims {
		if c.State != api.ClaimWaiting && (claim.Alone(mode) || mode == api.AccessMultiNodeSingleWriter && c.Mode == api.ClaimWrite) {
			held = append(held, c)
		}
	}
	for _, a := range held {
		for _, c := range held {
			if a != c && a.State != api.ClaimUnmounted && (c.State != api.ClaimUnmounted || c.NodeID != a.NodeID) {
				w.fail("%s is held by %s (%s) and %s (%s)", v.ID, a.AllocID, a.State, c.AllocID, c.State)
			}
		}
	}
	w.checkAttachments(v, b)
}

func (w *World) checkAttachments(v *api.Volume, b claim.Book) {
	state := map[string]api.AttachmentState{}
	for _, a := range b.Attachments {
		state[a.NodeID] = a.State
		if !slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool { return c.NodeID == a.NodeID && c.State != api.ClaimWaiting }) {
			w.fail("%s is attached to %s (%s) without a claim there", v.ID, a.NodeID, a.State)
		}
	}
	if claim.Alone(v.RequestedCapabilities[0].AccessMode) && len(b.Attachments) > 1 {
		w.fail("%s has %d attachments", v.ID, len(b.Attachments))
	}
	for _, c := range b.Claims {
		mounted := c.State == api.ClaimReady || c.State == api.ClaimReleasing
		if mounted && c.Attach && state[c.NodeID] != api.AttachmentPublished {
			w.fail("%s of %s is %s while %s is %q there", v.ID, c.AllocID, c.State, v.ID, state[c.NodeID])
		}
	}
}

// settle ends all faults, stops everything, and asserts that nothing is left.
func (w *World) settle() {
	w.calm = true
	w.tell("all faults end, everything stops")
	for _, n := range w.nodes {
		n.heal(w)
	}
	for _, a := range w.allocs(func(a *api.Allocation) bool { return !a.Terminal() }) {
		w.stop(a)
	}
	for round := 0; round < 200 && w.left() != "" && w.broken == ""; round++ {
		w.now = w.now.Add(10 * time.Second)
		for len(w.mail) > 0 && w.broken == "" {
			w.deliver(0)
			w.check()
		}
		for _, n := range w.nodes {
			n.act(w)
		}
		w.leader.act(w)
		w.check()
	}
	if left := w.left(); left != "" {
		w.fail("left in the end: %s", left)
	}
}

// left is what nobody needs any more and is still there.
func (w *World) left() string {
	tx := w.store.Read()
	for c := range tx.Claims() {
		return fmt.Sprintf("claim of %s on %s, %s", c.AllocID, c.VolumeID, c.State)
	}
	for a := range tx.Attachments() {
		return fmt.Sprintf("attachment of %s to %s, %s", a.ExternalID, a.NodeID, a.State)
	}
	for _, n := range w.nodes {
		for k := range n.mounts {
			return fmt.Sprintf("mount of %s on %s", k, n.id)
		}
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if v.Provision.State != api.VolumeAvailable {
			return fmt.Sprintf("volume %s, %s", v.ID, v.Provision.State)
		}
	}
	return ""
}
