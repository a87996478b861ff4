package link_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/client/link"
)

// server is a small server for links.
type server struct {
	port           *transport.Port
	stop           func()
	nodes, dropped chan *transport.Reverse
	hellos         chan transport.Hello
}

func start(t *testing.T, address string, beat func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error), more ...wire.Handler) (*server, transport.Dialer) {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	port, err := transport.Listen(address, id.Server, hclog.NewNullLogger())
	for end := time.Now().Add(30 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // by a connection, meanwhile
		port, err = transport.Listen(address, id.Server, hclog.NewNullLogger())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{port: port, nodes: make(chan *transport.Reverse, 10), dropped: make(chan *transport.Reverse, 10), hellos: make(chan transport.Hello, 10)}
	done := make(chan struct{}, 3)
	go func() { _ = port.Run(ctx); done <- struct{}{} }()
	go func() {
		_ = transport.Serve(ctx, port.Listener(wire.ProtocolRPC), append(more, wire.NodeHeartbeat.Handle(beat)), hclog.NewNullLogger(), nil)
		done <- struct{}{}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			conn, err := port.Listener(wire.ProtocolReverse).Accept()
			if err != nil {
				return
			}
			check := func(_ context.Context, h transport.Hello) error { s.hellos <- h; return nil }
			n, err := transport.AcceptReverse(ctx, conn, check, func(n *transport.Reverse) { s.dropped <- n })
			if err == nil {
				context.AfterFunc(ctx, func() { _ = n.Close() })
				s.nodes <- n
			}
		}
	}()
	var stopped atomic.Bool
	s.stop = func() {
		if !stopped.Swap(true) {
			cancel()
			for range 3 {
				<-done
			}
		}
	}
	t.Cleanup(s.stop)
	return s, transport.Dialer{TLS: id.Client}
}

func answer(name string) func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
	return func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return &api.NodeUpdateResponse{EvalIDs: []string{name}}, nil
	}
}

func open(t *testing.T, d transport.Dialer, servers ...string) *link.Link {
	t.Helper()
	l := link.New(link.Config{Servers: servers, Dialer: d, Log: hclog.NewNullLogger(), Handlers: []wire.Handler{
		wire.ClientNodeStats.Handle(func(context.Context, *api.NodeRequest) (*api.NodeStatsResponse, error) {
			return &api.NodeStatsResponse{}, nil
		}),
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; _ = l.Close() })
	return l
}

func call(t *testing.T, l *link.Link) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := wire.NodeHeartbeat.Call(ctx, l, &api.NodeHeartbeatRequest{})
	if err != nil {
		return "", err
	}
	return got.EvalIDs[0], nil
}

func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestCallsFailOver(t *testing.T) {
	t.Parallel()
	notLeader := func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return nil, fault.New(fault.NotLeader, "not me")
	}
	a, _ := start(t, "127.0.0.1:0", notLeader)
	b, d := start(t, "127.0.0.1:0", answer("b"))
	l := open(t, d, dead(t), a.port.Addr().String(), b.port.Addr().String())
	if got, err := call(t, l); err != nil || got != "b" {
		t.Fatalf("got %q %v", got, err)
	}
}

// What must not happen twice goes to another server only where it cannot have begun.
func TestCallsThatMustNotBeRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	lost := func(class fault.Class) func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
			if calls.Add(1) == 1 {
				return nil, fault.New(class, "the first")
			}
			return &api.NodeUpdateResponse{EvalIDs: []string{"again"}}, nil
		}
	}
	for what, c := range map[string]struct {
		once  bool
		first fault.Class
		calls int32
	}{
		"a repeatable call that is lost":  {false, fault.Unavailable, 2},
		"a write that is lost":            {true, fault.Unavailable, 1},
		"a write to one that leads not":   {true, fault.NotLeader, 2},
		"a repeatable call, wrong server": {false, fault.NotLeader, 2},
	} {
		calls.Store(0)
		a, d := start(t, "127.0.0.1:0", lost(c.first))
		l := open(t, d, dead(t), a.port.Addr().String())
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if c.once {
			ctx = wire.Once(ctx)
		}
		_, err := wire.NodeHeartbeat.Call(ctx, l, &api.NodeHeartbeatRequest{})
		cancel()
		if got := calls.Load(); got != c.calls || (err == nil) != (c.calls == 2) {
			t.Errorf("%s: %d calls, want %d: %v", what, got, c.calls, err)
		}
	}
}

func TestOtherFaultsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	a, d := start(t, "127.0.0.1:0", func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		calls.Add(1)
		return nil, fault.New(fault.NotFound, "node unknown")
	})
	l := open(t, d, a.port.Addr().String())
	if _, err := call(t, l); !errors.Is(err, fault.NotFound) || calls.Load() != 1 {
		t.Fatalf("%d calls: %v", calls.Load(), err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := open(t, transport.Dialer{}, dead(t))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := wire.NodeHeartbeat.Call(ctx, l, &api.NodeHeartbeatRequest{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("no server: %v", err)
	}
	if _, err := wire.NodeHeartbeat.Call(ctx, open(t, transport.Dialer{}), &api.NodeHeartbeatRequest{}); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("no address: %v", err)
	}
}

func TestServersCallDownAgainAfterARestart(t *testing.T) {
	t.Parallel()
	a, d := start(t, "127.0.0.1:0", answer("first"))
	address := a.port.Addr().String()
	l := open(t, d, address)
	l.SetNode("n1", "secret")
	n := <-a.nodes
	if _, err := wire.ClientNodeStats.Call(t.Context(), n, &api.NodeRequest{}); err != nil || n.NodeID != "n1" {
		t.Fatalf("reverse call: %v", err)
	}
	if got, err := call(t, l); err != nil || got != "first" {
		t.Fatalf("call: %q %v", got, err)
	}
	a.stop()
	if got := <-a.dropped; got != n {
		t.Errorf("another connection has dropped: %+v", got)
	}
	b, _ := start(t, address, answer("second"))
	n = <-b.nodes
	if _, err := wire.ClientNodeStats.Call(t.Context(), n, &api.NodeRequest{}); err != nil {
		t.Fatalf("reverse call after the restart: %v", err)
	}
	if got, err := call(t, l); err != nil || got != "second" {
		t.Fatalf("call after the restart: %q %v", got, err)
	}
}

func TestToldServersReplaceOffers(t *testing.T) {
	t.Parallel()
	a, d := start(t, "127.0.0.1:0", answer("a"))
	b, _ := start(t, "127.0.0.1:0", answer("b"))
	l := open(t, d, a.port.Addr().String())
	l.SetNode("n1", "secret")
	old := <-a.nodes
	l.SetServers([]string{b.port.Addr().String()})
	<-b.nodes
	if got := <-a.dropped; got != old {
		t.Errorf("another connection has dropped: %+v", got)
	}
	l.SetServers(nil)
	if got := l.Servers(); len(got) != 1 || got[0] != b.port.Addr().String() {
		t.Errorf("servers %v", got)
	}
}

func TestARenewedCredentialIsForTheNextConnection(t *testing.T) {
	t.Parallel()
	a, d := start(t, "127.0.0.1:0", answer("a"))
	l := open(t, d, a.port.Addr().String())
	l.SetNode("n1", "old")
	n := <-a.nodes
	l.SetNode("n1", "new")
	if _, err := wire.ClientNodeStats.Call(t.Context(), n, &api.NodeRequest{}); err != nil {
		t.Fatalf("the open connection: %v", err)
	}
	_ = n.Close()
	<-a.nodes
	if first, next := <-a.hellos, <-a.hellos; first.Secret != "old" || next.Secret != "new" {
		t.Errorf("first %q, then %q", first.Secret, next.Secret)
	}
}

func TestEachAsksAllServersAndCountsThoseThatAreGone(t *testing.T) {
	t.Parallel()
	beat := func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return &api.NodeUpdateResponse{}, nil
	}
	one, dialer := start(t, "127.0.0.1:0", beat)
	two, _ := start(t, "127.0.0.1:0", beat)
	gone, _ := start(t, "127.0.0.1:0", beat)
	gone.stop()
	l := link.New(link.Config{
		Servers: []string{one.port.Addr().String(), gone.port.Addr().String()},
		Dialer:  dialer, Log: hclog.NewNullLogger(),
	})
	t.Cleanup(func() { _ = l.Close() })
	var answered, failed atomic.Int32
	l.Each(t.Context(), []string{two.port.Addr().String(), one.port.Addr().String()}, func(ctx context.Context, c wire.Caller) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if _, err := wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{}); err != nil {
			failed.Add(1)
		} else {
			answered.Add(1)
		}
	})
	if answered.Load() != 2 || failed.Load() != 1 {
		t.Errorf("%d answered, %d failed", answered.Load(), failed.Load())
	}
}

func TestACallWithAReplacedCredentialEnds(t *testing.T) {
	var l *link.Link
	refused := func(_ context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		l.SetNode("n1", "new")
		return nil, fault.New(fault.Unavailable, "the node registers again before this")
	}
	s, dialer := start(t, "127.0.0.1:0", refused)
	l = link.New(link.Config{Dialer: dialer, Servers: []string{s.port.Addr().String()}, Log: hclog.NewNullLogger()})
	t.Cleanup(func() { _ = l.Close() })
	l.SetNode("n1", "old")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := wire.NodeHeartbeat.Call(ctx, l, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "old"})
	if !errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
		t.Errorf("the call ends with %v", err)
	}
}
