package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// phase is how far the use of the volume by an allocation of a node has come.
type phase int

// A claim passes these in order; it may end after unmounted, and after evicted only the mount is left.
const (
	none phase = iota
	waiting
	taken
	ready
	releasing
	unmounted
	evicted
	onlyMount
)

func (p phase) uses() bool    { return p >= taken && p <= evicted }
func (p phase) mounted() bool { return p == ready || p == releasing || p == evicted || p == onlyMount }

// put writes the rows of a phase.
func (p phase) put(tx *state.Txn, node, alloc string, fence uint64) {
	state := map[phase]api.ClaimState{
		waiting: api.ClaimWaiting, taken: api.ClaimTaken, ready: api.ClaimReady, releasing: api.ClaimReleasing, unmounted: api.ClaimUnmounted, evicted: api.ClaimUnmounted,
	}[p]
	if state != "" {
		run := api.AllocDesiredStatusRun
		if p > ready {
			run = api.AllocDesiredStatusStop
		}
		tx.PutAlloc(&api.Allocation{ID: alloc, Namespace: "default", NodeID: node, DesiredStatus: run})
		tx.PutClaim(with(held(state), func(c *api.VolumeClaim) { c.AllocID, c.NodeID, c.Presumed = alloc, node, p == evicted }))
	}
	if p.uses() {
		a := attached(api.AttachmentPublished, fence)
		a.NodeID, a.AccessMode = node, api.AccessSingleNodeWriter
		if p == taken {
			a.State = api.AttachmentPublishing
		} else if p >= unmounted {
			a.State = api.AttachmentUnpublishing
		}
		tx.PutAttachment(a)
	}
	if p >= evicted {
		n := *tx.Node(node)
		n.StaleMounts = mounts(alloc)
		tx.PutNode(&n)
	}
}

// world is what nodes and the provider have, whatever the servers' state is.
type world struct {
	*book
	name string
	// newCluster is set for a restore into a new cluster, which has no present state.
	newCluster bool
	attached   map[string]bool
	mounts     map[string]string // node to allocation
	cut        map[string]bool   // given up already in the older state, or without what its mount was made of
}

// TestNoRestoreLetsTwoNodesWrite replaces every state of two nodes by every older one, lets the nodes report, and carries
// out all that follows. Whatever the states are: no volume is attached or mounted while another node has it mounted, no mount
// that was cut off gets its path back, nothing is detached below a mount, and nothing is mounted that is not attached.
func TestNoRestoreLetsTwoNodesWrite(t *testing.T) {
	t.Parallel()
	var all [][2]phase
	for a := none; a <= onlyMount; a++ {
		for b := none; b <= onlyMount; b++ {
			if !(a.uses() && b.uses()) && (a != waiting || b.uses()) && (b != waiting || a.uses()) {
				all = append(all, [2]phase{a, b})
			}
		}
	}
	between := func(p phase) bool { return p == taken || p == unmounted || p == evicted } // calls are under way
	for _, older := range all {
		for _, now := range all {
			if older[0] > older[1] { // the nodes are alike
				continue
			}
			play(t, older, now, false, false)
			play(t, older, now, false, true)
			if between(now[0]) || between(now[1]) {
				play(t, older, now, true, false)
			}
		}
	}
}

// play carries out one restore, of the same cluster or into a new one that knows nothing of the present state. Calls of that
// are done, or have not begun.
func play(t *testing.T, older, now [2]phase, done, newCluster bool) {
	t.Helper()
	w := &world{newCluster: newCluster, name: fmt.Sprintf("%v restored over %v, done %t, new cluster %t", older, now, done, newCluster), attached: map[string]bool{}, mounts: map[string]string{}, cut: map[string]bool{}}
	nodes := []string{"n1", "n2"}
	alloc := func(i int) string { // one that has gone further is the same
		if now[i] >= older[i] && (older[i] != unmounted || now[i] < evicted) {
			return "a-" + nodes[i]
		}
		return "b-" + nodes[i]
	}
	w.book = restored(t, func(tx *state.Txn) {
		for i, n := range nodes {
			older[i].put(tx, n, "a-"+n, 1)
		}
	}, func(tx *state.Txn) {
		if newCluster {
			tx.PutClusterID("new")
			return
		}
		for i, n := range nodes {
			now[i].put(tx, n, alloc(i), 7)
		}
	})
	for i, n := range nodes {
		w.attached[n] = now[i] == ready || now[i] == releasing || now[i].uses() && (now[i] == taken) == done
		if now[i].mounted() {
			w.mounts[n] = alloc(i)
			if !w.attached[n] || older[i] == evicted && now[i] == evicted {
				w.cut[n] = true
			}
		}
	}
	w.attaches(true)
	for _, n := range nodes {
		w.step() // nothing may happen before all have reported
		var m []*api.StaleMount
		if a := w.mounts[n]; a != "" {
			m = mounts(a)
		}
		w.reports(n, m)
	}
	w.must(ledger.EndHold)
	for range 30 {
		if !w.step() {
			break
		}
	}
	for n := range w.cut {
		if !newCluster {
			t.Errorf("%s: an allocation of %s goes on above a mount that was cut off", w.name, n)
		}
	}
	tx := w.state.Read()
	claims := slices.Collect(tx.Claims())
	if len(claims) > 0 && !slices.ContainsFunc(claims, func(c *api.VolumeClaim) bool { return c.State == api.ClaimReady }) {
		t.Errorf("%s: the volume is stuck: %+v", w.name, *claims[0])
	}
	if len(claims) == 0 && len(slices.Collect(tx.Attachments())) > 0 {
		t.Errorf("%s: it stays attached", w.name)
	}
}

// step carries out what the state intends, and reports whether there was anything.
func (w *world) step() (did bool) {
	tx := w.state.Read()
	holds := ledger.Held(tx, "p", "x") != ""
	for a := range tx.AttachmentsOf("p", "x") {
		switch {
		case a.State == api.AttachmentUnpublishing && !holds:
			if w.mounts[a.NodeID] != "" && !w.cut[a.NodeID] {
				w.t.Errorf("%s: detached below the mount of %s", w.name, a.NodeID)
			}
			w.attached[a.NodeID] = false
			w.must(func(tx *state.Txn) error { return ledger.UnpublishDone(tx, ledger.IntentOf(a)) })
			return true
		case a.State == api.AttachmentPublishing && !ledger.AttachHeld(tx, a):
			w.exclusive("attached to", a.NodeID)
			if !w.newCluster && w.attached[map[string]string{"n1": "n2", "n2": "n1"}[a.NodeID]] {
				w.t.Errorf("%s: attached to %s while it is attached elsewhere", w.name, a.NodeID)
			}
			if w.mounts[a.NodeID] != "" {
				w.t.Errorf("%s: the old mount of %s gets its path back", w.name, a.NodeID)
			}
			w.attached[a.NodeID] = true
			w.must(func(tx *state.Txn) error { return ledger.PublishDone(tx, ledger.IntentOf(a), nil) })
			return true
		}
	}
	for c := range tx.Claims() {
		switch {
		case c.State == api.ClaimReleasing && !ledger.Unreported(tx, c.NodeID):
			w.unmount(c.NodeID, c.AllocID)
			return true
		case c.State == api.ClaimReady && !ledger.ClaimHeld(tx, c) && w.mounts[c.NodeID] != c.AllocID:
			w.exclusive("mounted on", c.NodeID)
			if !w.attached[c.NodeID] || w.mounts[c.NodeID] != "" {
				w.t.Errorf("%s: %s mounts what is not attached, or over another mount", w.name, c.NodeID)
			}
			w.mounts[c.NodeID] = c.AllocID
			return true
		}
	}
	for n := range tx.Nodes() {
		if len(n.StaleMounts) > 0 && !ledger.Unreported(tx, n.ID) {
			w.unmount(n.ID, n.StaleMounts[0].AllocID)
			return true
		}
	}
	return false
}

func (w *world) exclusive(what, node string) {
	for n, alloc := range w.mounts {
		if n != node && alloc != "" && w.attached[n] {
			w.t.Errorf("%s: %s %s while %s has it mounted", w.name, what, node, n)
		}
	}
}

func (w *world) unmount(node, alloc string) {
	if w.mounts[node] == alloc {
		delete(w.mounts, node)
		delete(w.cut, node)
	}
	w.must(func(tx *state.Txn) error { return ledger.Released(tx, hold("v", alloc, node)) })
}
