package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// cluster is what a test server knows of raft.
type cluster struct {
	leads atomic.Bool
	// lost says that this one leads no more and does not know it yet.
	lost atomic.Bool
	// committed says that calls bring entries into the log.
	committed atomic.Bool

	term    atomic.Uint64
	address atomic.Value
	asked   func(times int32)
	times   atomic.Int32
}

func (c *cluster) IsLeader() bool {
	if c.asked != nil {
		c.asked(c.times.Add(1))
	}
	return c.leads.Load()
}

func (c *cluster) Term() uint64 { return c.term.Load() }

func (c *cluster) Leads(_ context.Context, term uint64) error {
	if c.lost.Load() || c.term.Load() != term {
		return fault.New(fault.NotLeader, "another one leads")
	}
	return nil
}

func (c *cluster) Commits(ctx context.Context) (context.Context, func() bool) {
	return ctx, c.committed.Load
}

func (c *cluster) LeaderAddress() string {
	a, _ := c.address.Load().(string)
	return a
}
func (c *cluster) LastContact() time.Time { return time.Now().Add(-time.Minute) }

// secretOf verifies a node by a secret that everybody can guess.
func secretOf(_ context.Context, id, secret string) error {
	switch secret {
	case "expired":
		return fault.New(fault.Denied, "node %q: %w", id, identity.ErrExpired)
	case "bound":
		return fault.New(fault.Denied, "node %q: %w", id, identity.ErrBound)
	case "unknown key":
		return fault.New(fault.Denied, "node %q: %w", id, identity.ErrUnknownKey)
	}
	if secret != "secret of "+id {
		return fault.New(fault.Denied, "node %q: wrong secret", id)
	}
	return nil
}

type server struct {
	*rpc.Server
	raft   *cluster
	port   *transport.Port
	dialer transport.Dialer
}

// start runs a server with the handlers on a real port.
func start(t *testing.T, handlers ...wire.Handler) *server {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	port, err := transport.Listen("127.0.0.1:0", id.Server, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	s := &server{raft: &cluster{}, port: port, dialer: transport.Dialer{TLS: id.Client}}
	s.raft.leads.Store(true)
	s.raft.address.Store(port.Addr().String())
	s.Server = rpc.New(rpc.Config{
		Log: hclog.NewNullLogger(), Raft: s.raft, Dialer: s.dialer,
		VerifyNode: secretOf,
	})
	s.Handle(handlers...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = port.Run(ctx); done <- struct{}{} }()
	go func() { _ = s.Run(ctx, port); done <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	return s
}

func (s *server) connect(t *testing.T) *transport.Conn {
	t.Helper()
	c, err := transport.Connect(s.port.Addr().String(), s.dialer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// named answers a node list with the name of the server that served it.
func named(name string) []wire.Handler {
	return []wire.Handler{
		wire.NodeList.Handle(func(context.Context, *api.NodeListRequest) (*api.NodeListResponse, error) {
			return &api.NodeListResponse{Nodes: []*api.NodeStub{{Name: name}}}, nil
		}),
		wire.NodePurge.Handle(func(ctx context.Context, _ *api.NodeWriteRequest) (*api.NodeWriteResponse, error) {
			return &api.NodeWriteResponse{EvalIDs: []string{name}}, nil
		}),
		wire.NodeHeartbeat.Handle(func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
			return &api.NodeUpdateResponse{}, nil
		}),
		wire.StatusMembers.Handle(func(context.Context, *api.QueryOptions) (*api.MembersResponse, error) {
			return &api.MembersResponse{Members: []*api.AgentMember{{Name: name}}}, nil
		}),
	}
}

func TestFollowerForwards(t *testing.T) {
	t.Parallel()
	leader, follower := start(t, named("leader")...), start(t, named("follower")...)
	follower.raft.leads.Store(false)
	follower.raft.address.Store(leader.port.Addr().String())
	for what, c := range map[string]wire.Caller{"in process": follower, "over the network": follower.connect(t)} {
		w, err := wire.NodePurge.Call(t.Context(), c, &api.NodeWriteRequest{})
		if err != nil || w.EvalIDs[0] != "leader" {
			t.Errorf("%s: write: %+v %v", what, w, err)
		}
		r, err := wire.NodeList.Call(t.Context(), c, &api.NodeListRequest{})
		if err != nil || r.Nodes[0].Name != "leader" || !r.KnownLeader || r.LastContact != 0 {
			t.Errorf("%s: read: %+v %v", what, r, err)
		}
		r, err = wire.NodeList.Call(t.Context(), c, &api.NodeListRequest{QueryOptions: api.QueryOptions{Stale: true}})
		if err != nil || r.Nodes[0].Name != "follower" || !r.KnownLeader || r.LastContact < time.Minute {
			t.Errorf("%s: stale read: %+v %v", what, r, err)
		}
		m, err := wire.StatusMembers.Call(t.Context(), c, &api.QueryOptions{})
		if err != nil || m.Members[0].Name != "follower" {
			t.Errorf("%s: local read: %+v %v", what, m, err)
		}
	}
}

func TestForwardingEnds(t *testing.T) {
	t.Parallel()
	a, b := start(t, named("a")...), start(t, named("b")...)
	for _, s := range []*server{a, b} {
		s.raft.leads.Store(false)
	}
	a.raft.address.Store(b.port.Addr().String())
	b.raft.address.Store(a.port.Addr().String())
	if _, err := wire.NodePurge.Call(t.Context(), a, &api.NodeWriteRequest{}); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a ring of followers: %v", err)
	}
	a.raft.address.Store("")
	if _, err := wire.NodePurge.Call(t.Context(), a, &api.NodeWriteRequest{}); !errors.Is(err, fault.NotLeader) || err.Error() != "No cluster leader" {
		t.Errorf("no leader: %v", err)
	}
}

func TestNodesProveThemselves(t *testing.T) {
	t.Parallel()
	s := start(t, named("s")...)
	c := s.connect(t)
	if _, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1"}); err != nil {
		t.Errorf("right secret: %v", err)
	}
	for _, r := range []*api.NodeHeartbeatRequest{{NodeID: "n1", NodeSecret: "secret of n2"}, {NodeID: "n1"}, {}} {
		if _, err := wire.NodeHeartbeat.Call(t.Context(), c, r); !errors.Is(err, fault.Denied) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// A claim or a signature that is refused for good ends an allocation; a node whose identity has expired registers again.
func TestNodesWaitUntilTheyHaveANewIdentity(t *testing.T) {
	t.Parallel()
	s := start(t, append(named("s"), wire.AllocSignIdentities.Handle(func(context.Context, *api.AllocSignIdentitiesRequest) (*api.AllocSignIdentitiesResponse, error) {
		return nil, errors.New("served")
	}))...)
	c := s.connect(t)
	for _, credential := range []string{"expired", "unknown key"} {
		if _, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: credential}); !errors.Is(err, fault.Denied) {
			t.Errorf("%s: heartbeat: %v", credential, err)
		}
		_, err := wire.AllocSignIdentities.Call(t.Context(), c, &api.AllocSignIdentitiesRequest{NodeID: "n1", NodeSecret: credential})
		if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "registers") {
			t.Errorf("%s: %v", credential, err)
		}
	}
	if _, err := wire.AllocSignIdentities.Call(t.Context(), c, &api.AllocSignIdentitiesRequest{NodeID: "n1", NodeSecret: "guess"}); !errors.Is(err, fault.Denied) {
		t.Errorf("a wrong secret: %v", err)
	}
}

// A server that just started has not read its log yet: it knows no node, and must not say so.
func TestAFollowerDeniesNoNode(t *testing.T) {
	s := start(t, wire.NodeHeartbeat.Handle(func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return nil, errors.New("served by a follower")
	}))
	s.raft.leads.Store(false)
	s.raft.address.Store("")
	r := &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "not known here"}
	if _, err := wire.NodeHeartbeat.Call(t.Context(), s.connect(t), r); !errors.Is(err, fault.NotLeader) {
		t.Errorf("error is %v", err)
	}
}

func TestServerMethodsAreClosedToTheNetwork(t *testing.T) {
	t.Parallel()
	s := start(t, wire.ControllerValidate.Handle(func(context.Context, *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error) {
		return &api.ControllerValidateResponse{}, nil
	}))
	if _, err := wire.ControllerValidate.Call(t.Context(), s.connect(t), &api.ControllerValidateRequest{}); !errors.Is(err, fault.Denied) {
		t.Errorf("from outside: %v", err)
	}
	if _, err := wire.ControllerValidate.Call(t.Context(), s, &api.ControllerValidateRequest{}); err != nil {
		t.Errorf("from inside: %v", err)
	}
}

func TestUnknownMethodsAndPanicsInProcess(t *testing.T) {
	t.Parallel()
	s := start(t, wire.NodePurge.Handle(func(context.Context, *api.NodeWriteRequest) (*api.NodeWriteResponse, error) { panic("boom") }))
	if _, err := wire.NodePurge.Call(t.Context(), s, &api.NodeWriteRequest{}); !errors.Is(err, fault.Internal) {
		t.Errorf("panic: %v", err)
	}
	if _, err := wire.NodeList.Call(t.Context(), s, &api.NodeListRequest{}); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("unknown: %v", err)
	}
}

// offer serves as a node until the returned function is called.
func (s *server) offer(t *testing.T, id, secret, name string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- transport.ServeReverse(ctx, s.port.Addr().String(), s.dialer, transport.Hello{NodeID: id, Secret: secret}, []wire.Handler{
			wire.ClientAllocLogs.Handle(func(context.Context, *api.AllocLogsRequest) (*api.AllocLogsResponse, error) {
				return &api.AllocLogsResponse{File: name}, nil
			}),
		}, hclog.NewNullLogger(), func() { close(opened) })
	}()
	select {
	case <-opened:
	case err := <-done:
		t.Fatalf("offer %s: %v", name, err)
	}
	return func() { cancel(); <-done }
}

// reach asks the node until the answer is as wanted; empty means not connected.
func (s *server) reach(t *testing.T, id, want string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		got := ""
		if c, err := s.Node(id); err == nil {
			if r, err := wire.ClientAllocLogs.Call(t.Context(), c, &api.AllocLogsRequest{}); err == nil {
				got = r.File
			}
		} else if !errors.Is(err, fault.Unavailable) {
			t.Fatalf("node: %v", err)
		}
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("node answers %q, want %q", got, want)
		}
	}
}

func TestNewestConnectionOfANodeWins(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.reach(t, "n1", "")
	stopFirst := s.offer(t, "n1", "secret of n1", "first")
	s.reach(t, "n1", "first")
	stopSecond := s.offer(t, "n1", "secret of n1", "second")
	s.reach(t, "n1", "second")
	stopFirst()
	s.reach(t, "n1", "second")
	if n := s.ConnectedNodes(); n != 1 {
		t.Errorf("%d nodes are connected", n)
	}
	stopSecond()
	s.reach(t, "n1", "")
}
