package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

const (
	// reconcileEvery lies between looks at the members without news.
	reconcileEvery = 10 * time.Second
	// silentFor is how long a server that gossip reports as failed must not reply before it counts as dead.
	silentFor = 3 * time.Second
	// strangersFor is the default of [Config.StrangersFor]; a restarted cluster finds itself again in that time.
	strangersFor = 10 * time.Minute
)

// Lead keeps the Raft peers in step with the members for one term.
func (m *Members) Lead(ctx context.Context) error {
	if err := m.name(ctx); err != nil {
		return err
	}
	for {
		news, pause := m.news(), reconcileEvery
		began := time.Now()
		err := m.reconcile(ctx)
		m.conf.Metrics.Since("nomad.leader.reconcile", began)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			m.log.Warn("the raft peers are not in step with the servers yet", "error", err)
			pause = tick
		}
		if !await(ctx, news, pause) {
			return nil
		}
	}
}

// Oversee runs the autopilot for one term.
func (m *Members) Oversee(ctx context.Context) error {
	return m.conf.Raft.Oversee(ctx, &oversight{m, time.Now()})
}

// peers are the Raft peers by id.
func (m *Members) peers() (map[string]*api.RaftServer, error) {
	conf, err := m.conf.Raft.Configuration()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	out := map[string]*api.RaftServer{}
	for _, p := range conf.Servers {
		out[p.ID] = p
	}
	return out, nil
}

// reconcile takes new servers in and drops those that left. It does what it can and returns the first
// failure.
func (m *Members) reconcile(ctx context.Context) error {
	var first error
	for _, n := range m.byID() {
		if n[0].id == m.conf.ID {
			continue
		}
		began := time.Now()
		err := m.settle(ctx, n)
		m.conf.Metrics.Since("nomad.leader.reconcileMember", began)
		if err != nil && first == nil {
			first = fmt.Errorf("server %s: %w", n.best().name, err)
		}
	}
	for _, also := range []func(context.Context) error{m.dropForgotten, m.agree} {
		if err := also(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// settle makes the Raft peers right about one server. The living names of an id decide.
func (m *Members) settle(ctx context.Context, n names) error {
	living, id := n.alive(), n[0].id
	if len(living) > 1 {
		m.duplicateServers(living)
	}
	var first error
	for _, s := range living {
		peers, err := m.peers()
		if err != nil {
			return err
		}
		if known := peers[id]; known != nil && slices.ContainsFunc(living, func(s server) bool { return s.rpc == known.Address }) {
			m.confirmContact(id)
			return nil
		}
		if err := m.admit(ctx, s, peers); err != nil && first == nil {
			first = err
		}
	}
	if len(living) > 0 || !n.left() {
		return first
	}
	peers, err := m.peers()
	if err != nil || peers[id] == nil {
		return err
	}
	return m.dismiss(ctx, peers[id], "left")
}

// duplicateServers logs when several living servers have one id.
func (m *Members) duplicateServers(living names) {
	var all []string
	for _, s := range living {
		all = append(all, s.name+" at "+s.rpc)
	}
	slices.Sort(all)
	key := "twins " + living[0].id + fmt.Sprint(all)
	m.mu.Lock()
	said := m.refused[key]
	m.refused[key] = true
	m.mu.Unlock()
	if !said {
		m.log.Error("several living servers have one id: was a data directory copied? Only the one that is a raft peer already counts",
			"id", living[0].id, "servers", all)
	}
}

// dismiss removes a Raft peer that gossip reports as failed or left. Gossip proves nothing: the peer itself is asked.
// A peer that does not reply is removed when an operator or the autopilot requests it.
func (m *Members) dismiss(ctx context.Context, p *api.RaftServer, how string) error {
	info, err := m.ask(ctx, server{rpc: p.Address})
	switch {
	case err == nil && info.ID == p.ID && !info.Leaving:
		m.confirmContact(p.ID)
		m.once("lives "+p.ID, "gossip reports that a server "+how+", and the server denies it: it stays a raft peer",
			"id", p.ID, "rpc", p.Address)
		return nil
	case err != nil && !m.unwanted(p.ID):
		m.once("kept "+p.ID, "a server "+how+" and is kept as a raft peer, since dead servers are not to be cleaned up", "id", p.ID, "rpc", p.Address)
		return nil
	case err != nil && !m.lost(p.ID):
		return fmt.Errorf("a server that %s is not removed yet: ask it at %s: %w", how, p.Address, err)
	}
	m.log.Info("removing a server that "+how, "server", m.Name(p.ID), "id", p.ID)
	return m.conf.Raft.RemoveServer(ctx, p.ID)
}

// unwanted reports whether a dead server is to be removed, because an operator requested it or the autopilot is
// configured so.
func (m *Members) unwanted(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given[id] || m.conf.Autopilot().CleanupDeadServers
}

// lost reports whether a peer has not replied for long enough.
func (m *Members) lost(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, silent := m.silent[id]
	if !silent {
		since = time.Now()
		m.silent[id] = since
	}
	return time.Since(since) >= silentFor
}

// confirmContact clears the records that a server is silent or to be removed.
func (m *Members) confirmContact(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.silent, id)
	delete(m.given, id)
}

// admit takes a server in, or records its new address, if it has no log of another cluster.
func (m *Members) admit(ctx context.Context, s server, peers map[string]*api.RaftServer) error {
	info, err := m.ask(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("ask at %s: %w", s.rpc, err)
	case info.ID != s.id:
		m.once("id "+s.id+info.ID, "another server replies at the address that gossip has for a server: it is not added", "server", s.name, "rpc", s.rpc, "id", s.id, "answers", info.ID)
		return nil
	case m.foreign(s, info), m.tooOld(s):
		return nil
	case peers[s.id] == nil && info.Bootstrapped && info.Cluster == "":
		m.once("nameless "+s.id, "a server does not report the cluster of its log: it is not added until it does", "server", s.name, "rpc", s.rpc)
		return nil
	}
	for _, p := range peers {
		if p.Address == s.rpc && p.ID != s.id {
			m.log.Info("removing the raft peer whose address a new server has", "id", p.ID, "address", p.Address)
			if err := m.conf.Raft.RemoveServer(ctx, p.ID); err != nil {
				return err
			}
		}
	}
	return m.add(ctx, s, peers)
}

// add makes the server a voter at once where the cluster still has fewer than it is meant to have;
// otherwise it has to prove itself stable first.
func (m *Members) add(ctx context.Context, s server, peers map[string]*api.RaftServer) error {
	voters := 0
	for _, p := range peers {
		if p.Voter {
			voters++
		}
	}
	known := peers[s.id]
	if known != nil && known.Voter || known == nil && voters < max(m.conf.Expect, s.expect) {
		m.log.Info("adding a voter", "server", s.name, "id", s.id, "rpc", s.rpc)
		return m.conf.Raft.AddVoter(ctx, s.id, s.rpc)
	}
	m.log.Info("adding a server that may vote when it is stable", "server", s.name, "id", s.id, "rpc", s.rpc)
	return m.conf.Raft.AddNonvoter(ctx, s.id, s.rpc)
}

// dropForgotten removes Raft peers that gossip has forgotten under all their names.
func (m *Members) dropForgotten(ctx context.Context) error {
	peers, err := m.peers()
	if err != nil {
		return err
	}
	listed := map[string]bool{m.conf.ID: true}
	for _, s := range m.servers(m.conf.Region) {
		listed[s.id] = true
	}
	m.mu.Lock()
	var drop []*api.RaftServer
	for id := range m.gone {
		if peers[id] != nil && !listed[id] {
			drop = append(drop, peers[id])
		}
	}
	m.mu.Unlock()
	for _, p := range drop {
		if err := m.dismiss(ctx, p, "is forgotten"); err != nil {
			return err
		}
	}
	return nil
}

// oversight serves the autopilot during one term.
type oversight struct {
	m     *Members
	since time.Time
}

func (o *oversight) AutopilotConfig() *api.AutopilotConfiguration { return o.m.conf.Autopilot() }

// Peers are the members of the region, and the Raft peers that gossip does not know: none is missing, as the autopilot
// removes those that are without asking. After a while they count as failed.
func (o *oversight) Peers() []consensus.Peer {
	var out []consensus.Peer
	seen := map[string]bool{}
	for _, n := range o.m.byID() {
		s := n.best()
		if s.status == statusLeaving {
			s.status = statusAlive
		}
		seen[s.id] = true
		out = append(out, consensus.Peer{ID: s.id, Name: s.name, Address: s.rpc, Version: s.build, Status: s.status})
	}
	strangers := ""
	if time.Since(o.since) > cmp.Or(o.m.conf.StrangersFor, strangersFor) {
		strangers = statusFailed
	}
	peers, err := o.m.peers()
	if err != nil {
		return out
	}
	for id, p := range peers {
		if !seen[id] {
			out = append(out, consensus.Peer{ID: id, Name: o.m.Name(id), Address: p.Address, Status: strangers})
		}
	}
	return out
}

// PeerInfo asks a server for its state, or returns that of this server.
func (o *oversight) PeerInfo(ctx context.Context, p consensus.Peer) (*api.PeerInfoResponse, error) {
	if p.ID == o.m.conf.ID {
		return o.m.PeerInfo(ctx, &api.Empty{})
	}
	return o.m.ask(ctx, server{rpc: p.Address})
}

// Evict removes a failed server unless the server itself replies.
func (o *oversight) Evict(p consensus.Peer) {
	if p.Status != statusFailed && p.Status != statusLeft {
		return // the library takes what is not known for failed
	}
	select {
	case o.m.evict <- p:
	default: // the autopilot asks again
	}
}
