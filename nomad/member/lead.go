package member

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

const (
	// reconcileEvery lies between looks at the members without news.
	reconcileEvery = 10 * time.Second
	// strangersFor is how long a new leader gives Raft peers that gossip does not know; a restarted
	// cluster finds itself again in that time.
	strangersFor = 10 * time.Minute
)

// Lead keeps the Raft peers in step with the members for one term.
func (m *Members) Lead(ctx context.Context) error {
	if err := m.name(ctx); err != nil {
		return err
	}
	for {
		news, pause := m.news(), reconcileEvery
		if err := m.reconcile(ctx); err != nil {
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

// reconcile takes new servers in and drops those that left. It does what it can and answers the first
// failure.
func (m *Members) reconcile(ctx context.Context) error {
	var first error
	for _, s := range m.servers(m.conf.Region) {
		if s.id == m.conf.ID {
			continue
		}
		peers, err := m.peers()
		if err == nil {
			err = m.settle(ctx, s, peers)
		}
		if err != nil && first == nil {
			first = fmt.Errorf("server %s: %w", s.name, err)
		}
	}
	for _, also := range []func(context.Context) error{m.dropForgotten, m.agree} {
		if err := also(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// settle makes the Raft peers right about one server.
func (m *Members) settle(ctx context.Context, s server, peers map[string]*api.RaftServer) error {
	known := peers[s.id]
	switch s.status {
	case statusLeft:
		if known == nil {
			return nil
		}
		m.log.Info("removing a server that left", "server", s.name, "id", s.id)
		return m.conf.Raft.RemoveServer(ctx, s.id)
	case statusAlive:
		if known != nil && known.Address == s.rpc {
			return nil
		}
		return m.admit(ctx, s, peers)
	}
	return nil
}

// admit takes a server in, or records its new address, if it has no log of another cluster.
func (m *Members) admit(ctx context.Context, s server, peers map[string]*api.RaftServer) error {
	info, err := m.ask(ctx, s)
	switch {
	case err != nil:
		return fmt.Errorf("ask at %s: %w", s.rpc, err)
	case info.ID != s.id:
		m.once("id "+s.id+info.ID, "gossip names a server that another one answers for: it is not taken in", "server", s.name, "rpc", s.rpc, "id", s.id, "answers", info.ID)
		return nil
	case m.foreign(s, info), m.tooOld(s):
		return nil
	case peers[s.id] == nil && info.Bootstrapped && info.Cluster == "":
		m.once("nameless "+s.id, "a server has a log but cannot say of which cluster: it is not taken in before it can", "server", s.name, "rpc", s.rpc)
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

// dropForgotten removes Raft peers that gossip has forgotten.
func (m *Members) dropForgotten(ctx context.Context) error {
	peers, err := m.peers()
	if err != nil {
		return err
	}
	m.mu.Lock()
	var drop []string
	for id := range m.gone {
		if peers[id] != nil && id != m.conf.ID {
			drop = append(drop, id)
		}
	}
	m.mu.Unlock()
	for _, id := range drop {
		m.log.Info("removing a server that is forgotten", "id", id)
		if err := m.conf.Raft.RemoveServer(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// oversight answers the autopilot's questions during one term.
type oversight struct {
	m     *Members
	since time.Time
}

func (o *oversight) AutopilotConfig() *api.AutopilotConfiguration { return o.m.conf.Autopilot() }

// Peers are the members of the region, and for a while the Raft peers that gossip does not know yet.
func (o *oversight) Peers() []fsm.Peer {
	var out []fsm.Peer
	seen := map[string]bool{}
	for _, s := range o.m.servers(o.m.conf.Region) {
		if s.status == statusLeaving {
			s.status = statusAlive
		}
		seen[s.id] = true
		out = append(out, fsm.Peer{ID: s.id, Name: s.name, Address: s.rpc, Version: s.build, Status: s.status})
	}
	if time.Since(o.since) > strangersFor {
		return out
	}
	peers, err := o.m.peers()
	if err != nil {
		return out
	}
	for id, p := range peers {
		if !seen[id] {
			out = append(out, fsm.Peer{ID: id, Name: o.m.Name(id), Address: p.Address})
		}
	}
	return out
}

// PeerInfo asks a server, or tells of this one.
func (o *oversight) PeerInfo(ctx context.Context, p fsm.Peer) (*api.PeerInfoResponse, error) {
	if p.ID == o.m.conf.ID {
		return o.m.PeerInfo(ctx, &api.Empty{})
	}
	return o.m.ask(ctx, server{rpc: p.Address})
}

func (o *oversight) Evict(p fsm.Peer) {
	o.m.log.Warn("a server is dead: removing it", "server", p.Name, "id", p.ID)
	select {
	case o.m.evict <- p.Name:
	default: // the autopilot asks again
	}
}
