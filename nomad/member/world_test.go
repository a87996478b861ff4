package member_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/member"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// patience bounds every wait; other tests share the processors.
const patience = 60 * time.Second

// epoch is the time of commands in tests.
var epoch = time.Unix(1_700_000_000, 0)

// cluster is a log in memory of one server, with a record of what was asked of it.
type cluster struct {
	*fsm.Local
	mu      sync.Mutex
	had     bool
	peers   []*api.RaftServer
	actions []string
	// oversight is what the autopilot was given.
	oversight consensus.Oversight
}

func (c *cluster) did(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.actions = append(c.actions, fmt.Sprintf(format, args...))
}

func (c *cluster) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.actions)
}

func (c *cluster) IsLeader() bool         { return false }
func (c *cluster) LastContact() time.Time { return time.Time{} }
func (c *cluster) LastIndex() uint64      { return 7 }
func (c *cluster) LastTerm() uint64       { return 1 }
func (c *cluster) Bootstrapped() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.had, nil
}

func (c *cluster) Bootstrap(servers []api.RaftServer) error {
	var ids []string
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	c.did("bootstrap %s", strings.Join(ids, " "))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.had = true
	return nil
}

func (c *cluster) Configuration() (*api.RaftConfiguration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &api.RaftConfiguration{Servers: slices.Clone(c.peers)}, nil
}

func (c *cluster) put(id, address string, voter bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers = slices.DeleteFunc(c.peers, func(p *api.RaftServer) bool { return p.ID == id })
	if address != "" {
		c.peers = append(c.peers, &api.RaftServer{ID: id, Address: address, Voter: voter})
	}
}

func (c *cluster) AddVoter(_ context.Context, id, address string) error {
	c.did("voter %s %s", id, address)
	c.put(id, address, true)
	return nil
}

func (c *cluster) AddNonvoter(_ context.Context, id, address string) error {
	c.did("nonvoter %s %s", id, address)
	c.put(id, address, false)
	return nil
}

func (c *cluster) RemoveServer(_ context.Context, id string) error {
	c.did("remove %s", id)
	c.put(id, "", false)
	return nil
}
func (c *cluster) TransferLeadership(context.Context, string, string) error { return nil }
func (c *cluster) Health() *api.OperatorHealthReply                         { return nil }

// Oversee hands the autopilot's way to the server to the test.
func (c *cluster) Oversee(_ context.Context, o consensus.Oversight) error {
	c.oversight = o
	return nil
}

// world is where servers find each other's RPC ports.
type world struct {
	mu  sync.Mutex
	rpc map[string]*member.Members
	// answered is called with each answer that is under way, and who asked; nil for none.
	answered func(asker string) error
}

func (w *world) info(ctx context.Context, asker, address string) (*api.PeerInfoResponse, error) {
	w.mu.Lock()
	m, answered := w.rpc[address], w.answered
	w.mu.Unlock()
	if m == nil {
		return nil, fault.New(fault.Unavailable, "nobody listens on %s", address)
	}
	info, err := m.PeerInfo(ctx, &api.Empty{})
	if err == nil && answered != nil {
		err = answered(asker)
	}
	return info, err
}

// host is one server of a test.
type host struct {
	*member.Members
	t     *testing.T
	world *world
	conf  member.Config
	raft  *cluster
	log   *lines
	stop  func()
	ended chan error
}

type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func newWorld() *world { return &world{rpc: map[string]*member.Members{}} }

// host prepares a server whose id is its name.
func (w *world) host(t *testing.T, name string, expect int, join ...*host) *host {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(member.Commands)
	h := &host{t: t, world: w, raft: &cluster{Local: fsm.NewLocal(s, r)}, log: &lines{}, conf: member.Config{
		ID: name, Name: name, Region: "global", Datacenter: "dc1", Build: "1.0", RPC: name + ".test:4647",
		Bind: "127.0.0.1:0", Expect: expect, Dir: t.TempDir(), State: s,
		Info: func(ctx context.Context, address string) (*api.PeerInfoResponse, error) {
			return w.info(ctx, name, address)
		},
		Join: member.Join{Interval: 50 * time.Millisecond},
	}}
	h.conf.Raft = h.raft
	for _, other := range join {
		h.conf.Join.Retry = append(h.conf.Join.Retry, other.address())
	}
	return h
}

func (h *host) address() string {
	self := h.Self()
	return net.JoinHostPort(self.Addr, strconv.Itoa(int(self.Port)))
}

// start opens and runs the server until the test ends or stop is called.
func (h *host) start() *host {
	h.t.Helper()
	h.conf.Log = hclog.New(&hclog.LoggerOptions{Output: h.log, Level: hclog.Info})
	var err error
	h.Members, err = member.Open(h.conf)
	for end := time.Now().Add(patience); err != nil && strings.Contains(err.Error(), "address already in use") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // a connection has got the port meanwhile
		h.Members, err = member.Open(h.conf)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.conf.Bind = h.address()
	members := h.Members
	h.world.mu.Lock()
	if h.world.rpc[h.conf.RPC] == nil {
		h.world.rpc[h.conf.RPC] = members
	}
	h.world.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	h.ended = make(chan error, 1)
	ended := h.ended
	go func() { ended <- members.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		h.world.mu.Lock()
		if h.world.rpc[h.conf.RPC] == members {
			delete(h.world.rpc, h.conf.RPC)
		}
		h.world.mu.Unlock()
		if err := <-ended; err != nil {
			h.t.Errorf("%s: %v", h.conf.Name, err)
		}
	})
	h.t.Cleanup(h.stop)
	return h
}

func (h *host) status(name string) string {
	for _, m := range h.Members.Members() {
		if m.Name == name+"."+h.conf.Region {
			return m.Status
		}
	}
	return "unknown"
}

func (h *host) alive() int {
	n := 0
	for _, m := range h.Members.Members() {
		if m.Status == "alive" {
			n++
		}
	}
	return n
}

// until waits for a fact.
func until(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !fact(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}
