package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

const (
	// eventsMax are the events of gossip that may wait before [Members.Run] takes them.
	eventsMax = 2048
	// reconnectInterval lies between tries to reach a failed member again.
	reconnectInterval = 10 * time.Second
	// forgetAfter is how long members that failed or left are remembered.
	forgetAfter = 24 * time.Hour
	// broadcastTimeout bounds how long news may take to reach other members; one that is pruned stays for that long.
	broadcastTimeout = 3 * time.Second
	infoTimeout      = 3 * time.Second
	tick             = time.Second
)

// Members are the servers of all regions.
type Members struct {
	conf   Config
	log    hclog.Logger
	pool   *serf.Serf
	events chan serf.Event
	evict  chan consensus.Peer
	// known are the addresses of the servers, by name, that this one gossiped with before it was restarted.
	known map[string]string

	mu      sync.Mutex
	changed chan struct{}
	gone    map[string]string
	refused map[string]bool
	named   string
	trying  bool
	leaving bool
	// givenUp are the servers that an operator or the autopilot wants removed; silent is since when a peer that gossip
	// reports as failed does not reply. Both are by id.
	given  map[string]bool
	silent map[string]time.Time
}

// Open binds the gossip port. [Members.Run] must be called, or [Members.Close].
func Open(c Config) (*Members, error) {
	if c.Autopilot == nil {
		c.Autopilot = api.DefaultAutopilot
	}
	m := &Members{
		conf: c, log: c.Log, events: make(chan serf.Event, eventsMax), evict: make(chan consensus.Peer, 16),
		changed: make(chan struct{}), gone: map[string]string{}, refused: map[string]bool{},
		given: map[string]bool{}, silent: map[string]time.Time{},
	}
	if err := m.readName(); err != nil {
		return nil, err
	}
	if c.Bind == "" {
		return m, nil
	}
	conf, err := m.gossip()
	if err != nil {
		return nil, err
	}
	if m.pool, err = serf.Create(conf); err != nil {
		return nil, fault.New(fault.Unavailable, "gossip on %s: %w", c.Bind, err)
	}
	return m, nil
}

// gossip is the configuration of the library.
func (m *Members) gossip() (*serf.Config, error) {
	host, port, err := hostPort(m.conf.Bind)
	if err != nil {
		return nil, fault.New(fault.Invalid, "gossip address: %w", err)
	}
	conf := serf.DefaultConfig()
	conf.Init()
	conf.NodeName = m.ownName()
	conf.Tags = m.tags()
	conf.EventCh = m.events
	conf.EnableNameConflictResolution = false
	conf.ReconnectInterval, conf.ReconnectTimeout, conf.TombstoneTimeout = reconnectInterval, forgetAfter, forgetAfter
	conf.BroadcastTimeout = broadcastTimeout
	conf.RejoinAfterLeave = m.conf.RejoinAfterLeave
	conf.LogOutput = nil
	conf.Logger = m.log.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
	ml := memberlist.DefaultLANConfig()
	ml.BindAddr, ml.BindPort, ml.AdvertisePort = host, port, port
	ml.AdvertiseAddr = routable(host)
	ml.LogOutput, ml.Logger = nil, conf.Logger
	if m.conf.Advertise != "" {
		if ml.AdvertiseAddr, ml.AdvertisePort, err = resolved(m.conf.Advertise, port); err != nil {
			return nil, err
		}
	}
	conf.MemberlistConfig = ml
	if m.conf.Dir == "" {
		return conf, m.keys(conf, "")
	}
	dir := filepath.Join(m.conf.Dir, "serf")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("gossip directory: %w", err)
	}
	conf.SnapshotPath = filepath.Join(dir, "members.snapshot")
	m.known = remembered(conf.SnapshotPath, conf.RejoinAfterLeave)
	return conf, m.keys(conf, filepath.Join(m.conf.Dir, "serf.keyring"))
}

func hostPort(address string) (string, int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not a port", text)
	}
	return host, int(port), nil
}

// resolved finds the IP address of what is to be advertised; without a port it is the bound one.
func resolved(address string, port int) (string, int, error) {
	host := address
	if h, p, err := hostPort(address); err == nil {
		host, port = h, p
	}
	ip, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return "", 0, fault.New(fault.Invalid, "gossip address %q to advertise: %w", address, err)
	}
	return ip.String(), port, nil
}

// routable is an address that others can reach for one that means all: the first one that is not
// loopback, else loopback.
func routable(host string) string {
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return host
	}
	return HostAddress()
}

// HostAddress is the address of this host that other hosts reach it at: the first global one, or
// loopback where there is none.
func HostAddress() string {
	all, _ := net.InterfaceAddrs()
	for _, four := range []bool{true, false} {
		for _, a := range all {
			n, ok := a.(*net.IPNet)
			if ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil) == four {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

func (m *Members) ownName() string { return m.conf.Name + "." + m.conf.Region }

// Close stops gossiping without leaving.
func (m *Members) Close() error {
	if m.pool == nil {
		return nil
	}
	if err := m.pool.Shutdown(); err != nil {
		return fmt.Errorf("stop gossip: %w", err)
	}
	return nil
}

// Run follows the members until ctx ends, and stops gossiping.
func (m *Members) Run(ctx context.Context) error {
	m.advise()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.keepName(ctx) })
	if m.pool != nil {
		group.Go(func() error { m.drain(); return nil })
		group.Go(func() error { return m.join(ctx) })
		group.Go(func() error { m.rejoin(ctx); return nil })
		group.Go(func() error { return m.bootstrap(ctx) })
		group.Go(func() error { m.meet(ctx); return nil })
		group.Go(func() error { m.evictions(ctx); return nil })
		group.Go(func() error {
			<-ctx.Done()
			return m.Close()
		})
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// drain takes all events and records which servers left.
func (m *Members) drain() {
	for {
		select {
		case e := <-m.events:
			if e, ok := e.(serf.MemberEvent); ok {
				m.happened(e)
			}
		case <-m.pool.ShutdownCh():
			return
		}
	}
}

func (m *Members) happened(e serf.MemberEvent) {
	words := map[serf.EventType]string{
		serf.EventMemberJoin: "server joined", serf.EventMemberLeave: "server left",
		serf.EventMemberFailed: "server failed", serf.EventMemberReap: "server forgotten",
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range e.Members {
		s, ok := parse(x)
		if !ok {
			continue
		}
		if word := words[e.Type]; word != "" && s.id != m.conf.ID {
			m.log.Info(word, "server", s.name, "region", s.region, "rpc", s.rpc, "id", s.id)
		}
		if s.id == m.conf.ID && s.name != m.ownName() && s.status == statusAlive {
			m.log.Error("another living server has the id of this one: was its data directory copied? Give one of them a directory of its own",
				"id", s.id, "server", s.name, "rpc", s.rpc)
		}
		switch e.Type {
		case serf.EventMemberReap:
			m.gone[s.id] = s.name
		case serf.EventMemberJoin:
			delete(m.gone, s.id)
		}
	}
	m.wake()
}

// wake wakes the waiters; the mutex is held.
func (m *Members) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// news is closed at the next change of the members.
func (m *Members) news() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// await waits for news, at most d, and reports whether ctx lives.
func await(ctx context.Context, news <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-news:
	case <-t.C:
	}
	return ctx.Err() == nil
}

func (m *Members) evictions(ctx context.Context) {
	for {
		select {
		case p := <-m.evict:
			m.evicted(ctx, p)
		case <-ctx.Done():
			return
		}
	}
}

// evicted gives up a server that the autopilot wants removed. Gossip may not have noticed that it is back, or may not reach
// it. A server that replies stays, also in gossip, which does not contact servers that left.
func (m *Members) evicted(ctx context.Context, p consensus.Peer) {
	if info, err := m.ask(ctx, server{rpc: p.Address}); err == nil && info.ID == p.ID && !info.Leaving {
		m.confirmContact(p.ID)
		m.once("back "+p.ID, "gossip reports a server as dead, but it replies: it stays", "server", p.Name, "id", p.ID, "rpc", p.Address)
		return
	}
	m.log.Warn("a server is dead: removing it", "server", p.Name, "id", p.ID)
	m.giveUp(p.ID)
	if !slices.ContainsFunc(m.listed(), func(x serf.Member) bool { return x.Name == p.Name }) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.gone[p.ID] = p.Name
		m.wake()
		return
	}
	if err := m.pool.RemoveFailedNode(p.Name); err != nil {
		m.log.Warn("a failed server was not removed from gossip", "server", p.Name, "error", err)
	}
}

// Join asks the servers at the gossip addresses to take this one into their pool, and counts those
// that did.
func (m *Members) Join(addresses []string) (int, error) {
	if m.pool == nil {
		return 0, fault.New(fault.Unavailable, "this server does not gossip")
	}
	n, err := m.pool.Join(withPort(addresses), true)
	if err != nil {
		return n, fault.New(fault.Unavailable, "join %v: %w", addresses, err)
	}
	return n, nil
}

// ForceLeave ejects a failed server from the pool, by its name with or without the region; prune also
// forgets it.
func (m *Members) ForceLeave(name string, prune bool) error {
	if m.pool == nil {
		return fault.New(fault.Unavailable, "this server does not gossip")
	}
	all := m.pool.Members()
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(x serf.Member) bool { return x.Name == name })
	}
	if full := name + "." + m.conf.Region; !known(name) && known(full) {
		name = full
	}
	if !known(name) {
		return fault.New(fault.NotFound, "no server is called %q", name)
	}
	for _, s := range m.servers(m.conf.Region) {
		if s.name == name {
			m.giveUp(s.id)
		}
	}
	remove := m.pool.RemoveFailedNode
	if prune {
		remove = m.pool.RemoveFailedNodePrune
	}
	if err := remove(name); err != nil {
		return fmt.Errorf("force server %q to leave: %w", name, err)
	}
	return nil
}

// giveUp records an authorized request to remove a server.
func (m *Members) giveUp(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given[id] = true
}

// Health is how the servers of the region are, on the leader; nil elsewhere.
func (m *Members) Health() *api.OperatorHealthReply { return m.conf.Raft.Health() }
