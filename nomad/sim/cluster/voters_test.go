package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// A server may be destroyed: it votes no more, a fresh one without a disk gets the state from the leader, and then
// votes in its place. The voters are those of the newest entry that says so.

// change is an entry that says who votes.
type change struct {
	at     int // entries of the log with it
	voters *api.Voters
}

// votersAt are the voters as of so many entries; World.mu is held.
func (w *World) votersAt(n int) (v *api.Voters) {
	for _, c := range w.log.changes {
		if c.at <= n {
			v = c.voters
		}
	}
	return v
}

// changed takes note of the newest entry; World.mu is held.
func (w *World) changed(ids map[string]string) {
	at := len(w.log.entries)
	w.log.changes = append(w.log.changes, change{at, &api.Voters{Index: uint64(at) + 1, Servers: ids}})
}

// votes reports whether the server is among the newest voters; World.mu is held.
func (s *server) votes() bool { return s.w.votersAt(len(s.w.log.entries)).Servers[s.id] != "" }

// voters are the newest ones that the server's log has, and whether it knows that they are committed.
func (s *server) voters() (v *api.Voters, settled bool, err error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.has == 0 {
		return nil, false, nil // it is fresh
	}
	v = s.w.votersAt(s.has)
	return v, v.Index <= uint64(s.applied)+1, nil
}

// list are the servers now.
func (w *World) list() []*server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.servers)
}

// destroy ends a server for good when the others have all that it has.
func (w *World) destroy(s *server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	safe := !w.replacing && w.log.leader != nil && w.log.leader != s && w.log.leader.ready
	for _, o := range w.servers {
		safe = safe && o.up && o.votes() && !o.alone && (o == s || o.has == len(w.log.entries))
	}
	if !safe {
		return
	}
	w.tell("%s is destroyed", s.id)
	w.tally.Faults++
	w.tally.Replaced++
	s.crash()
	s.gone, w.replacing = true, true
	go w.replace(s)
}

// replace takes a server from the voters and adds a fresh one.
func (w *World) replace(old *server) {
	r := w.dice.roll("replace " + old.id)
	again := func() bool { return w.sleep(w.root, time.Second+w.some(r, time.Second)) }
	ids := func(without, with string) map[string]string {
		w.mu.Lock()
		defer w.mu.Unlock()
		next := maps.Clone(w.votersAt(len(w.log.entries)).Servers)
		delete(next, without)
		if with != "" {
			next[with] = with
		}
		return next
	}
	for !w.vote(ids(old.id, "")) {
		if !again() {
			return
		}
	}
	if !w.sleep(w.root, w.some(r, 10*time.Second)) {
		return
	}
	w.mu.Lock()
	fresh := w.newServer(old.id + "'")
	w.servers = slices.Clone(w.servers)
	w.servers[slices.Index(w.servers, old)] = fresh
	w.tell("%s is there in the place of %s", fresh.id, old.id)
	w.follow()
	w.mu.Unlock()
	for ready := false; !ready; {
		if !again() {
			return
		}
		w.mu.Lock()
		ready = fresh.up && !fresh.alone && fresh.applied > 0 && fresh.applied+10 > len(w.log.entries)
		w.mu.Unlock()
	}
	for !w.vote(ids("", fresh.id)) {
		if !again() {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replacing = false
}

// vote has the leader write who votes, and reports whether that is committed.
func (w *World) vote(ids map[string]string) bool {
	w.mu.Lock()
	s := w.log.leader
	if v := w.votersAt(len(w.log.entries) - len(w.log.carried)); maps.Equal(v.Servers, ids) {
		w.mu.Unlock()
		return true
	}
	if s == nil || !s.ready || w.archives.busy {
		w.mu.Unlock()
		return false
	}
	p := w.propose(entry{voters: ids, by: s.id}, w.some(w.dice.roll("voters of "+s.id), 9*time.Millisecond))
	w.mu.Unlock()
	_, err := p.wait(context.Background())
	return err == nil
}

// what tells of an entry.
func (e entry) what() string {
	switch {
	case e.restored != nil:
		return "an older state is restored"
	case e.voters != nil:
		return "the voters are " + strings.Join(sorted(e.voters), ", ")
	}
	return brief(e.cmd)
}
