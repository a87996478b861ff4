package member_test

import (
	"context"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// leads runs the leader's loop of a with the peers until the test ends.
func (h *host) leads(t *testing.T, peers ...*api.RaftServer) {
	t.Helper()
	h.raft.mu.Lock()
	h.raft.peers = peers
	h.raft.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	led := make(chan error, 1)
	go func() { led <- h.Lead(ctx) }()
	t.Cleanup(func() { cancel(); <-led })
}

// joined reports whether the server has announced that it joined. One that leaves before announces both at the same time,
// and the others keep it.
func (h *host) joined() bool { return h.log.count("joined other servers") > 0 }

func peer(id string) *api.RaftServer {
	return &api.RaftServer{ID: id, Address: id + ".test:4647", Voter: true}
}

// looked waits until the leader has looked at all servers again, from now on.
func (h *host) looked(t *testing.T, w *world, name string) {
	t.Helper()
	w.host(t, name, 0, h).start()
	until(t, "the leader takes "+name+" in", func() bool {
		return slices.ContainsFunc(h.raft.all(), func(d string) bool {
			return d == "nonvoter "+name+" "+name+".test:4647" || d == "voter "+name+" "+name+".test:4647"
		})
	})
}

func TestARenamedServerStaysAPeer(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a)
	b.start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	a.leads(t, peer("a"), peer("b"))
	b.stop()
	c := w.host(t, "b-renamed", 0, a)
	c.conf.ID, c.conf.RPC = "b", "b.test:4647"
	c.start()
	until(t, "the new name is alive and the old one has failed", func() bool { return a.status("b-renamed") == "alive" && a.status("b") == "failed" })
	for _, prune := range []bool{false, true} {
		if err := a.ForceLeave("b", prune); err != nil {
			t.Fatal(err)
		}
		if prune {
			until(t, "the old name is forgotten", func() bool { return a.status("b") == "unknown" })
			a.looked(t, w, "e")
		} else {
			until(t, "the old name has left", func() bool { return a.status("b") == "left" })
			a.looked(t, w, "d")
		}
	}
	if actions := a.raft.all(); slices.Contains(actions, "remove b") {
		t.Errorf("the living server was taken out of the Raft peers: %q", actions)
	}
}

func TestWhoHasOnlyTheGossipKeyRemovesNoPeer(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a).start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	a.leads(t, peer("a"), peer("b"))
	liar := w.host(t, "old", 0, a)
	liar.conf.ID, liar.conf.RPC = "b", "b.test:4647"
	liar.start()
	until(t, "a and the liar know each other, and the liar has joined", func() bool { return a.status("old") == "alive" && liar.alive() == 3 && liar.joined() })
	if err := liar.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the liar has left", func() bool { return a.status("old") == "left" })
	a.looked(t, w, "d")
	if actions := a.raft.all(); slices.Contains(actions, "remove b") {
		t.Errorf("a living server was taken out of the Raft peers: %q", actions)
	}
}

func TestAPeerIsAskedBeforeItIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld()
	real := w.host(t, "b", 1).start() // b itself, which this gossip does not reach
	a := w.host(t, "a", 1).start()
	liar := w.host(t, "b", 0, a).start()
	_ = real
	until(t, "a and the liar know each other", func() bool { return a.status("b") == "alive" && liar.alive() == 2 && liar.joined() })
	a.leads(t, peer("a"), peer("b"))
	if err := liar.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "b was asked", func() bool { return a.log.count("the server denies it") == 1 })
	a.looked(t, w, "d")
	if actions := a.raft.all(); slices.Contains(actions, "remove b") {
		t.Errorf("b was removed without its word: %q", actions)
	}
}

func TestServersWithOneIDAreToldOnBothSides(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 1).start()
	b := w.host(t, "b", 0, a).start()
	until(t, "both know both", func() bool { return a.alive() == 2 && b.alive() == 2 })
	a.leads(t, peer("a"), peer("b"))
	twin := w.host(t, "twin", 0, a)
	twin.conf.ID = "b"
	twin.start()
	until(t, "the leader names both", func() bool { return a.log.count("several living servers have one id") == 1 })
	until(t, "both are told", func() bool {
		return b.log.count("another living server has the id of this one") >= 1 && twin.log.count("another living server has the id of this one") >= 1
	})
	a.looked(t, w, "d")
	if actions := a.raft.all(); slices.ContainsFunc(actions, func(d string) bool { return d == "voter b twin.test:4647" || d == "remove b" }) {
		t.Errorf("the twin took the place of the peer: %q", actions)
	}
}
