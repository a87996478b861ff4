package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// node is one machine as it really is.
type node struct {
	id  string
	cut time.Time // since when it reaches no server; zero while it does
	// silent is since when no heartbeat of it was answered; zero while they are. A node that is marked
	// down by mistake is silent without being cut off.
	silent time.Time
	// mounts are live mounts by allocation and volume.
	mounts map[string]mount
	// owed are unmounts that the servers were not told of yet.
	owed map[string]ledger.Hold
}

type mount struct {
	hold                            ledger.Hold
	alloc, volume, plugin, external string
	mode                            api.AccessMode
	writes, leased, block           bool
}

// mountKey names a mount; one allocation may have a volume in several ways.
func mountKey(h ledger.Hold) string {
	return strings.TrimSpace(h.AllocID + " " + h.VolumeID + " " + h.Use)
}

// owes reports whether the servers are to be told of an unmount.
func (n *node) owes(k string) bool { _, owed := n.owed[k]; return owed }

// act lets the agent do one round of its work.
func (n *node) act(w *World) {
	if !n.cut.IsZero() {
		return
	}
	tx := w.store.Read()
	for _, a := range slices.Collect(tx.AllocsByNode(n.id)) {
		if !a.Terminal() {
			n.start(w, tx, a)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(n.mounts)) {
		if a := tx.Alloc(n.mounts[k].alloc); a == nil || a.Terminal() {
			n.unmount(w, n.mounts[k])
		}
	}
	n.forgotten(w, tx)
	for _, k := range slices.Sorted(maps.Keys(n.owed)) {
		n.report(w, k)
	}
	for _, a := range slices.Collect(tx.AllocsByNode(n.id)) {
		if a.ServerTerminal() && !a.ClientTerminal() && !n.uses(a.ID) {
			n.ended(w, a.ID, api.AllocClientStatusComplete)
		}
	}
}

func (n *node) uses(alloc string) bool {
	for _, m := range n.mounts {
		if m.alloc == alloc {
			return true
		}
	}
	return false
}

// start mounts what is ready and starts the tasks when all is mounted.
func (n *node) start(w *World, tx *state.Txn, a *api.Allocation) {
	waiting := false
	for c := range tx.ClaimsByAlloc(a.ID) {
		k := mountKey(ledger.HoldOf(c))
		if _, mounted := n.mounts[k]; mounted {
			continue
		}
		at := tx.Attachment(c.PluginID, c.ExternalID, n.id)
		if n.owes(k) || c.State == api.ClaimTaken && at != nil && at.Refused != 0 { // given back, or never to be had
			n.ended(w, a.ID, api.AllocClientStatusFailed)
			return
		}
		if !w.mayMount(c) || n.occupied(c) || w.chance(10) {
			waiting = true
			continue
		}
		w.tell("%s mounts %s for %s", n.id, c.VolumeID, a.ID)
		n.mounts[k] = mount{
			hold: ledger.HoldOf(c), alloc: a.ID, volume: c.VolumeID, plugin: c.PluginID, external: c.ExternalID, writes: c.Mode == api.ClaimWrite,
			leased: c.Lease > 0, block: c.AttachmentMode == api.AttachmentBlock, mode: c.AccessMode,
		}
	}
	switch {
	case w.chance(5):
		n.ended(w, a.ID, api.AllocClientStatusFailed)
	case !waiting && w.chance(20):
		n.ended(w, a.ID, api.AllocClientStatusComplete)
	}
}

// mayMount is what the agent waits for.
func (w *World) mayMount(c *api.VolumeClaim) bool {
	return c.State == api.ClaimReady || w.bug == BugEarlyMount && c.State == api.ClaimTaken
}

// occupied reports whether a volume of one user is still mounted for another allocation: its claim was given
// up while the node was away.
func (n *node) occupied(c *api.VolumeClaim) bool {
	for _, m := range n.mounts {
		if m.plugin == c.PluginID && m.external == c.ExternalID && m.alloc != c.AllocID && (alone(m.mode) || alone(c.AccessMode)) {
			return true
		}
	}
	return false
}

// alone reports whether the servers let one user at a time have a volume in this mode.
func alone(m api.AccessMode) bool {
	return m == api.AccessSingleNodeSingle || m == api.AccessSingleNodeWriter || m == api.AccessSingleNodeReader
}

func (n *node) ended(w *World, alloc, status string) {
	w.send(fmt.Sprintf("%s reports %s %s", n.id, alloc, status), func() {
		_ = w.propose(alloc+" is "+status, func(tx *state.Txn) error {
			a := tx.Alloc(alloc)
			if a == nil || a.ClientTerminal() {
				return errors.New("it is over already")
			}
			return w.over(tx, alloc, func(a *api.Allocation) { a.ClientStatus = status })
		})
	})
}

func (n *node) unmount(w *World, m mount) {
	k := mountKey(m.hold)
	if w.faulty(25) {
		w.tell("%s fails to unmount %s for %s", n.id, m.volume, m.alloc)
		w.send(fmt.Sprintf("%s reports a failed unmount of %s", n.id, m.volume), func() {
			_ = w.propose("note the failed unmount", func(tx *state.Txn) error {
				return w.rules.ReleaseFailed(tx, m.hold, "busy", 0)
			})
		})
		return
	}
	if w.bug == BugEarlyReport && w.faulty(50) {
		w.tell("%s says that it unmounted %s for %s", n.id, m.volume, m.alloc)
		n.owed[k] = m.hold
		return
	}
	w.tell("%s unmounts %s for %s", n.id, m.volume, m.alloc)
	delete(n.mounts, k)
	n.owed[k] = m.hold
}

// forgotten reports claims that the servers want back, or gave up, and of which nothing is mounted.
func (n *node) forgotten(w *World, tx *state.Txn) {
	for _, m := range tx.Node(n.id).StaleMounts {
		h := ledger.Hold{Namespace: m.Namespace, VolumeID: m.VolumeID, AllocID: m.AllocID, Use: m.Use, NodeID: n.id}
		if _, mounted := n.mounts[mountKey(h)]; !mounted {
			n.owed[mountKey(h)] = h
		}
	}
	for c := range tx.ClaimsByNode(n.id) {
		h := ledger.HoldOf(c)
		k := mountKey(h)
		if _, mounted := n.mounts[k]; c.State == api.ClaimReleasing && !mounted && !n.owes(k) {
			n.owed[k] = h
		}
	}
}

// report tells the servers of an unmount until they confirm; letters are lost and doubled.
func (n *node) report(w *World, k string) {
	h := n.owed[k]
	letters := 1
	switch {
	case w.faulty(20):
		letters = 0
	case w.faulty(20):
		letters = 2
	}
	for range letters {
		w.send(fmt.Sprintf("%s reports %s of %s unmounted", n.id, h.VolumeID, h.AllocID), func() {
			err := w.propose(fmt.Sprintf("release %s of %s", h.VolumeID, h.AllocID), func(tx *state.Txn) error {
				return w.rules.Released(tx, h)
			})
			if err == nil || errors.Is(err, fault.NotFound) || errors.Is(err, fault.Conflict) {
				delete(n.owed, k)
			}
		})
	}
}

// enforce keeps the promise of the lease: a node that was silent for that long has unmounted
// exclusive volumes that nothing else would fence.
func (n *node) enforce(w *World) {
	if n.silent.IsZero() || w.now.Sub(n.silent) < lease {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(n.mounts)) {
		if m := n.mounts[k]; m.leased {
			w.tell("%s ends its lease of %s for %s", n.id, m.volume, m.alloc)
			delete(n.mounts, k)
			n.owed[k] = m.hold
		}
	}
}
