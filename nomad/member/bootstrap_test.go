package member_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/state"
)

func (h *host) did(action string) bool { return slices.Contains(h.raft.all(), action) }

func TestOneServerWritesTheFirstConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 3).start()
	b := w.host(t, "b", 3, a).start()
	until(t, "two know each other", func() bool { return a.alive() == 2 && b.alive() == 2 })
	if len(a.raft.all())+len(b.raft.all()) > 0 {
		t.Fatal("two servers did not wait for the third")
	}
	c := w.host(t, "c", 3, a).start()
	until(t, "the lowest makes the cluster", func() bool { return a.did("bootstrap a b c") })
	until(t, "the others see that", func() bool {
		return b.log.count("making a new cluster") == 0 && c.log.count("making a new cluster") == 0 && c.alive() == 3
	})
	if len(b.raft.all())+len(c.raft.all()) > 0 {
		t.Errorf("b did %v, c did %v", b.raft.all(), c.raft.all())
	}
}

// A server that comes while the others answer is part of the new cluster, or there is none yet.
func TestServerThatComesWhileOthersAnswerIsNotLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld()
	asked, came := make(chan struct{}, 100), make(chan struct{})
	of := func(answer func() error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answered = func(asker string) error {
			if asker != "a" {
				return nil
			}
			return answer()
		}
	}
	of(func() error { return errors.New("busy") })
	a := w.host(t, "a", 3).start()
	b := w.host(t, "b", 3, a).start()
	c := w.host(t, "c", 3, a).start()
	until(t, "all know each other", func() bool { return a.alive() == 3 && b.alive() == 3 && c.alive() == 3 })
	of(func() error { asked <- struct{}{}; <-came; return nil })
	<-asked
	<-asked // both answers are given
	of(func() error { return nil })
	w.host(t, "d", 3, a).start()
	until(t, "the lowest sees all", func() bool { return a.alive() == 4 })
	close(came)
	until(t, "the lowest makes the cluster", func() bool { return len(a.raft.all()) > 0 })
	if !a.did("bootstrap a b c d") {
		t.Errorf("a did %v", a.raft.all())
	}
}

func TestNoSecondClusterBesideALog(t *testing.T) {
	t.Parallel()
	w := newWorld()
	old := w.host(t, "z", 3)
	old.raft.had = true
	old.start()
	a := w.host(t, "a", 3, old).start()
	b := w.host(t, "b", 3, old).start()
	until(t, "a knows why it waits", func() bool { return a.log.count("already belongs to a cluster") == 1 })
	if len(a.raft.all())+len(b.raft.all()) > 0 {
		t.Errorf("a did %v, b did %v", a.raft.all(), b.raft.all())
	}
}

func TestDifferentExpectationsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 2).start()
	b := w.host(t, "b", 2).start()
	c := w.host(t, "c", 3, a, b).start()
	until(t, "they meet", func() bool { return c.alive() >= 2 })
	until(t, "it is told", func() bool {
		return a.log.count("bootstrap_expect differs") == 1 || c.log.count("bootstrap_expect differs") >= 1
	})
	if slices.ContainsFunc([]*host{a, b, c}, func(h *host) bool { return len(h.raft.all()) > 0 }) {
		t.Error("somebody made a cluster")
	}
}

// lead has a server do the leader's loop until the test ends.
func (h *host) lead() *host {
	h.t.Helper()
	h.raft.put(h.conf.ID, h.conf.RPC, true)
	h.raft.mu.Lock()
	h.raft.had = true
	h.raft.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Lead(ctx) }()
	h.t.Cleanup(func() { cancel(); <-done })
	return h
}

func TestLeaderTakesServersIn(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 2).start()
	a.raft.put("ghost", "c.test:4647", false)
	a.lead()
	until(t, "the cluster has a name", func() bool { return a.conf.State.Read().ClusterID() != "" })
	b := w.host(t, "b", 0, a).start()
	until(t, "b votes at once, since two are expected", func() bool { return a.did("voter b b.test:4647") })
	c := w.host(t, "c", 0, a).start()
	until(t, "c has to prove itself", func() bool { return a.did("nonvoter c c.test:4647") })
	if !a.did("remove ghost") {
		t.Error("the peer that had the address of c is still there")
	}
	b.stop()
	b.conf.RPC = "b.elsewhere:4647"
	b.start()
	until(t, "the new address of b is recorded", func() bool { return a.did("voter b b.elsewhere:4647") })
	until(t, "c knows whom to tell", func() bool { return c.alive() > 1 })
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "c is removed", func() bool { return a.did("remove c") })
}

func TestLeaderRefusesOtherLogs(t *testing.T) {
	t.Parallel()
	w := newWorld()
	a := w.host(t, "a", 3).start().lead()
	until(t, "the cluster has a name", func() bool { return a.conf.State.Read().ClusterID() != "" })
	foreign := w.host(t, "f", 0, a)
	foreign.raft.had = true
	name(t, foreign.conf.State, "another cluster")
	foreign.start()
	nameless := w.host(t, "n", 0, a)
	nameless.raft.had = true
	nameless.start()
	liar := w.host(t, "l", 0, a)
	liar.conf.RPC = "f.test:4647"
	liar.start()
	const line = "belongs to another cluster"
	until(t, "all are told", func() bool {
		return a.log.count(line) == 1 && foreign.log.count(line) >= 1 &&
			a.log.count("does not report the cluster of its log") == 1 && a.log.count("another server replies at") == 1
	})
	own := w.host(t, "o", 0, a)
	own.raft.had = true
	name(t, own.conf.State, a.conf.State.Read().ClusterID())
	own.start()
	until(t, "a server with our log is taken in again", func() bool { return a.did("voter o o.test:4647") })
	if actions := a.raft.all(); len(actions) != 1 {
		t.Errorf("the leader did %v", actions)
	}
}

func name(t *testing.T, s *state.Store, id string) {
	t.Helper()
	tx := s.Write(1, epoch)
	tx.PutClusterID(id)
	tx.Commit()
}
