package member_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

// oversight is what the autopilot of a server asks.
func (h *host) oversight(t *testing.T) consensus.Oversight {
	t.Helper()
	if err := h.Oversee(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h.raft.oversight
}

// seen is how the autopilot sees a server.
func seen(o consensus.Oversight, id string) (consensus.Peer, bool) {
	all := o.Peers()
	i := slices.IndexFunc(all, func(p consensus.Peer) bool { return p.ID == id })
	if i < 0 {
		return consensus.Peer{}, false
	}
	return all[i], true
}

func (h *host) removed(id string) bool { return slices.Contains(h.raft.all(), "remove "+id) }

// A server is back before gossip has noticed, or gossip cannot reach it.
func TestADeadServerThatAnswersIsNotRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld()
	real := w.host(t, "b", 1).start() // b itself, which this gossip does not reach
	a := w.host(t, "a", 1).start()
	silent := w.host(t, "b", 0, a).start()
	until(t, "a knows b", func() bool { return a.status("b") == "alive" })
	a.leads(t, peer("a"), peer("b"))
	silent.stop()
	until(t, "gossip takes b for dead", func() bool { return a.status("b") == "failed" })
	o := a.oversight(t)
	dead, ok := seen(o, "b")
	if !ok || dead.Status != "failed" {
		t.Fatalf("the autopilot sees %+v", dead)
	}
	o.Evict(dead)
	until(t, "b was asked", func() bool { return a.log.count("but it replies") == 1 })
	a.looked(t, w, "d")
	if status := a.status("b"); status != "failed" || a.removed("b") {
		t.Errorf("b is %s in gossip, which tries to reach only those that failed: %q", status, a.raft.all())
	}
	real.stop()
	o.Evict(dead)
	until(t, "b is removed when it is dead", func() bool { return a.removed("b") })
}

// Raft peers that gossip does not know are never missing from what the autopilot is told: it would remove them unasked.
func TestPeersUnknownToGossipAreAskedBeforeTheyAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld()
	c := w.host(t, "c", 1).start() // alive, and not in the gossip of a
	a := w.host(t, "a", 1).start()
	a.leads(t, peer("a"), peer("c"))
	o := a.oversight(t)
	p, ok := seen(o, "c")
	if !ok || p.Status != "" {
		t.Fatalf("at the begin of a term the autopilot sees %+v", p)
	}
	o.Evict(p) // the library takes what is unknown for failed

	b := w.host(t, "b", 1)
	b.conf.StrangersFor = time.Nanosecond
	b.start()
	b.leads(t, peer("b"), peer("c"))
	o = b.oversight(t)
	if p, ok = seen(o, "c"); !ok || p.Status != "failed" {
		t.Fatalf("later the autopilot sees %+v", p)
	}
	o.Evict(p)
	until(t, "c was asked", func() bool { return b.log.count("but it replies") == 1 })
	c.stop()
	o.Evict(p)
	until(t, "c is removed when it is dead", func() bool { return b.removed("c") })
	if n := a.log.count("is dead"); n > 0 || a.removed("c") {
		t.Errorf("what is only unknown was given up: %q", a.raft.all())
	}
}

func TestGossipFilesAreClosedByThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1)
	if err := os.Chmod(a.conf.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a.start()
	if st, err := os.Stat(filepath.Join(a.conf.Dir, "serf")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory of gossip: %v, error %v", st, err)
	}
}
