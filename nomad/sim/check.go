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
	if at := tx.Index(); at != w.checked {
		w.checked = at
		read := map[string]bool{} // the specs of one volume share its book
		for v := range tx.Volumes(api.AllNamespaces) {
			if external := v.PluginID + " " + v.RemoteID(); !read[external] {
				read[external] = true
				w.checkBook(tx, v, ledger.Read(tx, v.PluginID, v.RemoteID()))
			}
		}
	}
	for _, external := range slices.Sorted(maps.Keys(w.leader.inFlight)) {
		if calls := w.leader.inFlight[external]; calls > 1 {
			w.fail("%d calls are in flight for %s", calls, external)
		}
	}
}

// user is somebody who has an external volume, by a mount or by a claim.
type user struct {
	who, node string
	// alloc and volume are of whom: several uses of one volume by one allocation are its own business.
	alloc, volume string
	writes, block bool
	mode          api.AccessMode
}

// clash says why two users must never have an external volume at once. It is the specification's
// rule, written apart from the one that is tested.
func clash(a, b user) string {
	one := func(m api.AccessMode) bool {
		return m == api.AccessSingleNodeWriter || m == api.AccessSingleNodeReader || m == api.AccessSingleNodeSingle
	}
	switch {
	case a.alloc == b.alloc && a.volume == b.volume:
	case a.block != b.block:
		return "users of a file system and of a block device"
	case one(a.mode) || one(b.mode):
		return "two users"
	case (a.mode == api.AccessSingleNodeMulti || b.mode == api.AccessSingleNodeMulti) && a.node != b.node:
		return "users on two nodes"
	case (a.mode == api.AccessMultiNodeSingleWriter || b.mode == api.AccessMultiNodeSingleWriter) && a.writes && b.writes:
		return "two writers"
	}
	return ""
}

// checkUsers looks at those who can really use each external volume now: a mount whose volume is
// detached is dead.
func (w *World) checkUsers() {
	users := map[string][]user{}
	w.eachMount(func(n *node, _ string, m mount) {
		if m.plugin == "attach" && !w.driver.has(m.external, n.id) {
			return
		}
		u := user{m.alloc + " on " + n.id, n.id, m.alloc, m.volume, m.writes, m.block, m.mode}
		for _, other := range users[m.external] {
			if why := clash(u, other); why != "" {
				w.fail("%s has %s: %s and %s", m.external, why, other.who, u.who)
			}
		}
		users[m.external] = append(users[m.external], u)
	})
}

func (w *World) eachMount(do func(n *node, k string, m mount)) {
	for _, n := range w.nodes {
		for _, k := range slices.Sorted(maps.Keys(n.mounts)) {
			do(n, k, n.mounts[k])
		}
	}
}

// checkMounts asserts that a mount has its volume attached, and for what it does, unless its node was given up.
func (w *World) checkMounts() {
	w.eachMount(func(n *node, k string, m mount) {
		if m.plugin == "attach" && !w.driver.has(m.external, n.id) && !w.outcast[k] {
			w.fail("%s is mounted for %s on %s and not attached", m.volume, m.alloc, n.id)
		}
		use := api.VolumeCapability{AccessMode: m.mode, AttachmentMode: api.AttachmentFileSystem}
		if m.block {
			use.AttachmentMode = api.AttachmentBlock
		}
		if m.plugin == "attach" && !w.outcast[k] && !w.driver.serves(m.external, n.id, use) {
			as := w.driver.attached[m.external][n.id]
			w.fail("%s is used for %s on %s as %s %s and attached there as %s %s",
				m.volume, m.alloc, n.id, use.AccessMode, use.AttachmentMode, as.AccessMode, as.AttachmentMode)
		}
	})
}

// checkEffects asserts that everything outside is recorded or intended.
func (w *World) checkEffects(tx *state.Txn) {
	for _, external := range slices.Sorted(maps.Keys(w.driver.attached)) {
		for _, node := range w.driver.nodes(external) {
			if tx.Attachment("attach", external, node) == nil {
				w.fail("%s is attached to %s and nothing is recorded", external, node)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.driver.volumes)) {
		if tx.Volume("default", name) == nil && !w.disowned["x-"+name] {
			w.fail("the provider has volume %s without a row or an intent", name)
		}
	}
}

// checkBook asserts the invariants of the records of one external volume.
func (w *World) checkBook(tx *state.Txn, v *api.Volume, b claim.Book) {
	again := w.rules.Settle(b, claim.Moment{Index: tx.Index(), Now: w.now.UnixNano()})
	if !slices.Equal(again.Claims, b.Claims) || !slices.Equal(again.Attachments, b.Attachments) {
		w.fail("settling %s again changes it", v.ID)
	}
	w.checkClaims(v, b)
	w.checkAttachments(v, b)
}

// checkClaims asserts that no two claims past waiting clash, except that one with nothing on its
// node yields to another there.
func (w *World) checkClaims(v *api.Volume, b claim.Book) {
	for i, x := range b.Claims {
		for _, y := range b.Claims[:i] {
			yields := x.NodeID == y.NodeID && (x.State == api.ClaimUnmounted || y.State == api.ClaimUnmounted)
			if x.State == api.ClaimWaiting || y.State == api.ClaimWaiting || yields {
				continue
			}
			if why := clash(holder(x), holder(y)); why != "" {
				w.fail("%s has %s: %s (%s) and %s (%s)", v.ExternalID, why, x.AllocID, x.State, y.AllocID, y.State)
			}
		}
	}
}

func holder(c *api.VolumeClaim) user {
	return user{c.AllocID, c.NodeID, c.AllocID, c.VolumeID, c.Mode == api.ClaimWrite, c.AttachmentMode == api.AttachmentBlock, c.AccessMode}
}

func (w *World) checkAttachments(v *api.Volume, b claim.Book) {
	state := map[string]api.AttachmentState{}
	for _, a := range b.Attachments {
		state[a.NodeID] = a.State
		// A late answer of an attach that was ended is undone though nobody has a claim.
		if a.State != api.AttachmentUnpublishing && !slices.ContainsFunc(b.Claims, func(c *api.VolumeClaim) bool { return c.NodeID == a.NodeID && c.State != api.ClaimWaiting }) {
			w.fail("%s is attached to %s (%s) without a claim there", v.ID, a.NodeID, a.State)
		}
	}
	for _, c := range b.Claims {
		mounted := c.State == api.ClaimReady || c.State == api.ClaimReleasing
		if mounted && c.Attach && state[c.NodeID] != api.AttachmentPublished {
			w.fail("%s of %s is %s while %s is %q there", v.ID, c.AllocID, c.State, v.ID, state[c.NodeID])
		}
	}
}

// settle ends all faults, asserts that everybody is served, stops everything, and asserts that
// nothing is left.
func (w *World) settle() {
	w.calm = true
	w.tell("all faults end")
	for _, n := range w.nodes {
		n.heal(w)
	}
	w.until(w.unserved, "unserved in the end")
	for _, a := range w.allocs(func(a *api.Allocation) bool { return !a.Terminal() }) {
		w.stop(a)
	}
	w.until(w.left, "left in the end")
}

// until lets everybody do their work until nothing is amiss.
func (w *World) until(amiss func() string, what string) {
	for round := 0; round < 200 && amiss() != "" && w.broken == ""; round++ {
		w.now = w.now.Add(10 * time.Second)
		for len(w.mail) > 0 && w.broken == "" {
			w.story.Events++
			w.deliver(0)
			w.check()
		}
		for _, n := range w.nodes {
			n.act(w)
		}
		w.leader.act(w)
		w.resolveFaults()
		w.check()
	}
	if a := amiss(); a != "" {
		w.fail("%s: %s", what, a)
	}
}

// unserved is a claim of a living allocation that did not get its turn, or is not mounted.
func (w *World) unserved() string {
	tx := w.store.Read()
	for c := range tx.Claims() {
		a := tx.Alloc(c.AllocID)
		if a == nil || a.Terminal() {
			continue
		}
		if c.State != api.ClaimReady {
			return fmt.Sprintf("claim of %s on %s, %s", c.AllocID, c.VolumeID, c.State)
		}
		for _, n := range w.nodes {
			if _, mounted := n.mounts[mountKey(ledger.HoldOf(c))]; n.id == c.NodeID && !mounted {
				return fmt.Sprintf("%s of %s is not mounted on %s", c.VolumeID, c.AllocID, n.id)
			}
		}
	}
	return ""
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
	for a := range tx.WrittenOff() {
		return fmt.Sprintf("attachment of %s to %s, %s", a.ExternalID, a.NodeID, a.State)
	}
	for _, n := range w.nodes {
		for _, m := range tx.Node(n.id).StaleMounts {
			return fmt.Sprintf("%s may still be mounted for %s on %s", m.VolumeID, m.AllocID, n.id)
		}
		for k := range n.mounts {
			return fmt.Sprintf("mount of %s on %s", k, n.id)
		}
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if v.Provision.State != api.VolumeAvailable {
			return fmt.Sprintf("volume %s, %s", v.ID, v.Provision.State)
		}
	}
	return w.ungrown()
}
