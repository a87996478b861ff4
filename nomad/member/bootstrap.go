package member

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// advise logs advice about the number of servers.
func (m *Members) advise() {
	switch expect := m.conf.Expect; {
	case expect == 0:
		if had, err := m.conf.Raft.Bootstrapped(); err == nil && !had {
			m.log.Info("bootstrap_expect is 0: this server makes no cluster and waits to be taken in by one")
		}
	case expect == 2:
		m.log.Warn("bootstrap_expect is 2: such a cluster does not survive the loss of a server; use 3 or 5")
	case expect%2 == 0:
		m.log.Warn("bootstrap_expect is even: one server less survives the loss of as many", "expect", expect)
	}
}

// PeerInfo describes the log of this server to other servers.
func (m *Members) PeerInfo(context.Context, *api.Empty) (*api.PeerInfoResponse, error) {
	had, err := m.conf.Raft.Bootstrapped()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	had = had || m.trying
	leaving := m.leaving
	m.mu.Unlock()
	return &api.PeerInfoResponse{
		ID: m.conf.ID, Cluster: m.cluster(), Bootstrapped: had, Seen: ids(m.waiting()),
		LastIndex: m.conf.Raft.LastIndex(), LastTerm: m.conf.Raft.LastTerm(), LastContactNS: int64(m.lastContact()),
		Applied: m.conf.State.Read().Index(), Leaving: leaving, Version: fsm.Version,
	}, nil
}

// lastContact returns the time since the last contact with the leader; negative when there was none.
func (m *Members) lastContact() time.Duration {
	if m.conf.Raft.IsLeader() {
		return 0
	}
	last := m.conf.Raft.LastContact()
	if last.IsZero() {
		return -1
	}
	return time.Since(last)
}

// waiting are the living servers of the region that expect as many servers as this one, by id.
func (m *Members) waiting() []server {
	var out []server
	for _, s := range m.servers(m.conf.Region) {
		if s.status == statusAlive && s.expect == m.conf.Expect && s.expect > 1 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b server) int { return cmp.Compare(a.id, b.id) })
	return out
}

func ids(servers []server) []string {
	var out []string
	for _, s := range servers {
		out = append(out, s.id)
	}
	return out
}

// bootstrap waits until this server belongs to a cluster, and writes the first configuration of a new
// one when that is its part.
func (m *Members) bootstrap(ctx context.Context) error {
	if m.conf.Expect < 2 {
		return nil
	}
	for {
		news := m.news()
		had, err := m.conf.Raft.Bootstrapped()
		if err != nil {
			return err
		}
		if had {
			return nil
		}
		if err := m.tryBootstrap(ctx); err != nil {
			return err
		}
		if !await(ctx, news, tick) {
			return nil
		}
	}
}

// tryBootstrap writes the first configuration when enough servers wait for one, all of them see the
// same, and this is the one with the lowest id. So at most one server does, and none by mistake.
func (m *Members) tryBootstrap(ctx context.Context) error {
	for _, s := range m.servers(m.conf.Region) {
		if s.status == statusAlive && s.expect > 0 && s.expect != m.conf.Expect {
			m.once("expect "+s.id, "bootstrap_expect differs: no new cluster is made with this server", "server", s.name, "expects", s.expect, "here", m.conf.Expect)
			return nil
		}
	}
	all := m.waiting()
	if len(all) < m.conf.Expect || all[0].id != m.conf.ID {
		return nil
	}
	m.try(true)
	defer m.try(false)
	if !m.agreed(ctx, all) {
		return nil
	}
	var servers []api.RaftServer
	for _, s := range all {
		servers = append(servers, api.RaftServer{ID: s.id, Address: s.rpc})
	}
	m.log.Info("making a new cluster", "servers", ids(all))
	return m.conf.Raft.Bootstrap(servers)
}

func (m *Members) try(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trying = on
}

// agreed asks all others whether they have no log and see the same servers.
func (m *Members) agreed(ctx context.Context, all []server) bool {
	answers := make(chan bool, len(all))
	for _, s := range all {
		if s.id == m.conf.ID {
			answers <- true
			continue
		}
		go func() {
			info, err := m.ask(ctx, s)
			switch {
			case err != nil:
				m.log.Info("waiting for a server to reply before a new cluster is created", "server", s.name, "rpc", s.rpc, "error", err)
			case info.Bootstrapped:
				m.once("has "+s.id, "a server already belongs to a cluster, or makes one: waiting to be taken in", "server", s.name)
			}
			answers <- err == nil && !info.Bootstrapped && slices.Equal(info.Seen, ids(all))
		}()
	}
	yes := true
	for range all {
		yes = <-answers && yes
	}
	return yes && slices.Equal(ids(m.waiting()), ids(all))
}

// ask asks a server about its log.
func (m *Members) ask(ctx context.Context, s server) (*api.PeerInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	return m.conf.Info(ctx, s.rpc)
}

// once warns about something the first time.
func (m *Members) once(key, message string, args ...any) {
	m.mu.Lock()
	said := m.refused[key]
	m.refused[key] = true
	m.mu.Unlock()
	if !said {
		m.log.Warn(message, args...)
	}
}
