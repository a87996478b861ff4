package rpc

import (
	"context"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the RPC server needs.
type Config struct {
	Log hclog.Logger
	// Raft is the consensus engine.
	Raft Raft
	// State serves reads whose reply from the leader exceeds a message; nil refuses them.
	State *state.Store
	// Dialer reaches other servers.
	Dialer transport.Dialer
	// Gate admits calls of users; nil admits all.
	Gate *access.Gate
	// VerifyNode checks the secret of a node; nil refuses all.
	VerifyNode func(ctx context.Context, nodeID, secret string) error
	// Region is where this server is, Address its own RPC address among those of Servers.
	Region, Address string
	// Servers lists the RPC addresses of the living servers of a region; nil means that there are no
	// others.
	Servers func(region string) []string
	// Hold is how long a call waits for a leader before it fails; 0 does not wait.
	Hold time.Duration
	// Metrics records the calls; nil does not. NoIdentityLabels leaves out of them who calls.
	Metrics          *metrics.Recorder
	NoIdentityLabels bool
}

// Raft is what the server needs of the consensus engine.
type Raft interface {
	// IsLeader reports whether this server leads.
	IsLeader() bool
	// Term is the term of the moment.
	Term() uint64
	// Leads fails with fault.NotLeader unless this server leads and has led since it was in the term.
	Leads(ctx context.Context, term uint64) error
	// Commits returns a context for what asks a majority, and whether one has confirmed any of it so far.
	Commits(ctx context.Context) (context.Context, func() bool)
	// LeaderAddress is the address of the leader, or empty.
	LeaderAddress() string
	// LastContact is when a follower last heard of the leader; zero on the leader.
	LastContact() time.Time
}

// NodeCaller finds the way to a node.
type NodeCaller interface {
	// Node returns the caller of a node, or fault.Unavailable when the node is not connected.
	Node(id string) (wire.Caller, error)
}

// Server serves the method table. It implements [wire.Caller] for callers in the same process.
type Server struct {
	config   Config
	handlers map[string]wire.Handler
	nodes    nodes
	peers    peers
	relays   relays
	cpu      *cpulimit.Limit
}

// New makes a server without methods.
func New(c Config) *Server {
	s := &Server{config: c, handlers: map[string]wire.Handler{}, cpu: cpulimit.New(runtime.GOMAXPROCS(0))}
	s.nodes.log = c.Log
	s.peers.dialer = c.Dialer
	s.Handle(wire.NodeRelay.Handle(s.Relay), wire.NodeCall.Handle(s.CallNode))
	return s
}

// Handle adds methods; it must not be called once calls are served.
func (s *Server) Handle(handlers ...wire.Handler) {
	for _, h := range handlers {
		s.handlers[h.Name] = s.guarded(h)
	}
}

// Methods are all that is served here, with the interceptors before them.
func (s *Server) Methods() []wire.Handler { return slices.Collect(maps.Values(s.handlers)) }

// Invoke serves a call of this process, here or on the leader. It implements [wire.Caller].
func (s *Server) Invoke(ctx context.Context, method string, req, resp any) error {
	h, ok := s.handlers[method]
	if !ok {
		return fault.New(fault.Unimplemented, "unknown method %s", method)
	}
	ctx, span := tracing.Start(ctx, "rpc ", method)
	got, err := h.Serve(ctx, req)
	span.End(err)
	if err != nil {
		return err
	}
	to, from := reflect.ValueOf(resp), reflect.ValueOf(got)
	if to.Type() != from.Type() || from.IsNil() {
		return fault.New(fault.Internal, "%s returned a %T, not a %T", method, got, resp)
	}
	to.Elem().Set(from.Elem())
	return nil
}

// CPU returns the limits that calls share, for other work of the process.
func (s *Server) CPU() *cpulimit.Limit { return s.cpu }

// Node returns the way to a node: directly when it is connected here, else through the server that
// holds it, which the first call finds out. It implements [NodeCaller].
func (s *Server) Node(id string) (wire.Caller, error) {
	direct, err := s.nodes.get(id)
	switch {
	case err == nil:
		return onNode{s, direct}, nil
	case len(s.others()) > 0:
		return onNode{s, relayed{s, id}}, nil
	}
	return nil, err
}

// Peer is the way to another server of this region.
func (s *Server) Peer(address string) (wire.Caller, error) {
	conn, err := s.peers.to("", address)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// ConnectedNodes counts the nodes that this server can call.
func (s *Server) ConnectedNodes() int { return s.nodes.count() }

// Run serves the port's RPC and reversed connections until ctx ends. The port itself is run by
// its owner.
func (s *Server) Run(ctx context.Context, port *transport.Port) error {
	defer s.peers.close()
	var wg sync.WaitGroup
	defer wg.Wait()
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() {
		defer cancel()
		s.nodes.run(ctx, port.Listener(wire.ProtocolReverse), s.verify)
	})
	wg.Go(func() { s.watch(ctx) })
	err := transport.Serve(ctx, Counted(port.Listener(wire.ProtocolRPC), s.config.Metrics, metricAccept), s.Methods(), s.config.Log, s.cpu)
	if whole.Err() != nil {
		return nil // the port may learn of the end before ctx does
	}
	return err
}

func (s *Server) verify(ctx context.Context, h transport.Hello) error {
	if s.config.VerifyNode == nil {
		return fault.New(fault.Denied, "nodes cannot be verified")
	}
	return s.config.VerifyNode(ctx, h.NodeID, h.Secret)
}

// stamp records in the reply of a read whether there is a leader and how old the data may be.
func (s *Server) stamp(resp any) {
	r, ok := resp.(interface{ Answer() *api.QueryMeta })
	if !ok {
		return
	}
	m := r.Answer()
	m.KnownLeader = s.config.Raft.LeaderAddress() != ""
	if last := s.config.Raft.LastContact(); !last.IsZero() && !s.config.Raft.IsLeader() {
		m.LastContact = time.Since(last)
	}
}
