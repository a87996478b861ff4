package transport_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// open starts a port that serves the handlers and accepts reversed connections into the channel.
// offered is a reversed connection; dropped is closed when it has dropped.
type offered struct {
	*transport.Reverse
	dropped chan struct{}
}

func open(t *testing.T, handlers ...wire.Handler) (*transport.Port, transport.Dialer, <-chan offered) {
	t.Helper()
	id, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	port, err := transport.Listen("127.0.0.1:0", id.Server, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 3)
	nodes := make(chan offered)
	go func() { _ = port.Run(ctx); done <- struct{}{} }()
	go func() {
		_ = transport.Serve(ctx, port.Listener(wire.ProtocolRPC), handlers, hclog.NewNullLogger(), nil)
		done <- struct{}{}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		l := port.Listener(wire.ProtocolReverse)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dropped := make(chan struct{})
			n, err := transport.AcceptReverse(ctx, conn, checkHello, func(*transport.Reverse) { close(dropped) })
			if err != nil {
				continue
			}
			select {
			case nodes <- offered{n, dropped}:
			case <-ctx.Done():
				_ = n.Close()
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			<-done
		}
	})
	return port, transport.Dialer{TLS: id.Client}, nodes
}

func checkHello(_ context.Context, h transport.Hello) error {
	if h.Secret != "s3cret" {
		return fault.New(fault.Denied, "node %q: wrong secret", h.NodeID)
	}
	return nil
}

func connect(t *testing.T, addr net.Addr, d transport.Dialer) *transport.Conn {
	t.Helper()
	c, err := transport.Connect(addr.String(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func heartbeat(fn func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error)) wire.Handler {
	return wire.NodeHeartbeat.Handle(fn)
}

func TestCallCarriesMessagesAndHops(t *testing.T) {
	t.Parallel()
	port, d, _ := open(t, heartbeat(func(ctx context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		p := transport.PeerOf(ctx)
		if !p.Remote() || p.Hops != 2 {
			return nil, fault.New(fault.Internal, "peer %+v", p)
		}
		return &api.NodeUpdateResponse{EvalIDs: []string{r.NodeID}, HeartbeatTTL: time.Second}, nil
	}))
	c := connect(t, port.Addr(), d)
	got, err := wire.NodeHeartbeat.Call(transport.WithHops(t.Context(), 2), c, &api.NodeHeartbeatRequest{NodeID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if got.HeartbeatTTL != time.Second || len(got.EvalIDs) != 1 || got.EvalIDs[0] != "n1" {
		t.Fatalf("got %+v", got)
	}
}

func TestFaultsKeepClassAndText(t *testing.T) {
	t.Parallel()
	port, d, _ := open(t, heartbeat(func(_ context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		for c := fault.Internal; c <= fault.Unauthenticated; c++ {
			if c.String() == r.NodeID {
				return nil, fault.New(c, "node %q is refused", r.NodeID)
			}
		}
		panic("boom")
	}))
	c := connect(t, port.Addr(), d)
	for class := fault.Internal; class <= fault.Unauthenticated; class++ {
		_, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: class.String()})
		if !errors.Is(err, class) || fault.Of(err) != class {
			t.Errorf("%s came back as %s: %v", class, fault.Of(err), err)
		}
		if want := `node "` + class.String() + `" is refused`; err == nil || err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
	}
	_, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "none"})
	if !errors.Is(err, fault.Internal) || strings.Contains(err.Error(), "boom") {
		t.Errorf("panic came back as %v", err)
	}
	_, err = wire.NodeRegister.Call(t.Context(), c, &api.NodeRegisterRequest{})
	if !errors.Is(err, fault.Unimplemented) {
		t.Errorf("unknown method: %v", err)
	}
}

func TestDeadlineReachesHandlerAndComesBackAsTimeout(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	port, d, _ := open(t, heartbeat(func(ctx context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		if r.NodeID == "cancelled" {
			close(began)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	c := connect(t, port.Addr(), d)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{})
	if !errors.Is(err, fault.Timeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline came back as %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	_, err = wire.NodeHeartbeat.Call(ctx, c, &api.NodeHeartbeatRequest{NodeID: "cancelled"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancellation came back as %v", err)
	}
}

func TestMessagesOverFourMebibytesPass(t *testing.T) {
	t.Parallel()
	port, d, _ := open(t, heartbeat(func(_ context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
		return &api.NodeUpdateResponse{Servers: []string{r.NodeID}}, nil
	}))
	c := connect(t, port.Addr(), d)
	big := strings.Repeat("x", 10<<20)
	got, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: big})
	if err != nil || len(got.Servers) != 1 || len(got.Servers[0]) != len(big) {
		t.Fatalf("big message: %v", err)
	}
}

func TestDeadServerIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr()
	_ = l.Close()
	c := connect(t, addr, transport.Dialer{})
	_, err = wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{})
	if !errors.Is(err, fault.Unavailable) {
		t.Fatalf("dead server: %v", err)
	}
}

func TestUnknownProtocolAndPlainTextAreDropped(t *testing.T) {
	t.Parallel()
	port, d, _ := open(t)
	if _, err := d.Dial(t.Context(), port.Addr().String(), "http/1.1"); err == nil {
		t.Error("an unknown protocol was accepted")
	}
	plain, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, _ = plain.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	_ = plain.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 64)
	for {
		if _, err := plain.Read(buf); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("a plain connection was kept open")
			}
			return
		}
	}
}

// TestNodeThatIsNeverCalled drops a reversed connection on which nothing was said.
func TestNodeThatIsNeverCalled(t *testing.T) {
	t.Parallel()
	port, d, nodes := open(t)
	for _, ends := range []string{"node", "server"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		served := make(chan error, 1)
		go func() {
			served <- transport.ServeReverse(ctx, port.Addr().String(), d, transport.Hello{NodeID: "n1", Secret: "s3cret"}, nil, hclog.NewNullLogger(), nil)
		}()
		node := <-nodes
		if ends == "node" {
			cancel()
		} else if err := node.Close(); err != nil {
			t.Error(err)
		}
		<-node.dropped
		if err := <-served; ends == "server" && !errors.Is(err, fault.Unavailable) || ends == "node" && err != nil {
			t.Errorf("ended by the %s: %v", ends, err)
		}
		if _, err := wire.ClientNodeStats.Call(t.Context(), node, &api.NodeRequest{NodeID: "n1"}); !errors.Is(err, fault.Unavailable) {
			t.Errorf("call after the drop: %v", err)
		}
	}
}

func TestReversedConnection(t *testing.T) {
	t.Parallel()
	port, d, nodes := open(t)
	stats := wire.ClientNodeStats.Handle(func(_ context.Context, r *api.NodeRequest) (*api.NodeStatsResponse, error) {
		if r.NodeID != "n1" {
			return nil, fault.New(fault.NotFound, "node %q is not here", r.NodeID)
		}
		return &api.NodeStatsResponse{Stats: &api.HostStats{Uptime: 7}}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- transport.ServeReverse(ctx, port.Addr().String(), d, transport.Hello{NodeID: "n1", Secret: "s3cret"},
			[]wire.Handler{stats}, hclog.NewNullLogger(), nil)
	}()
	node := <-nodes
	if node.NodeID != "n1" {
		t.Fatalf("node %q", node.NodeID)
	}
	got, err := wire.ClientNodeStats.Call(t.Context(), node, &api.NodeRequest{NodeID: "n1"})
	if err != nil || got.Stats.Uptime != 7 {
		t.Fatalf("reverse call: %v %+v", err, got)
	}
	if _, err := wire.ClientNodeStats.Call(t.Context(), node, &api.NodeRequest{NodeID: "n2"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("fault of a node: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("end of serving: %v", err)
	}
	<-node.dropped
	if _, err := wire.ClientNodeStats.Call(t.Context(), node, &api.NodeRequest{NodeID: "n1"}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("call after the drop: %v", err)
	}
}

func TestReversedConnectionEndsWhenServerCloses(t *testing.T) {
	t.Parallel()
	port, d, nodes := open(t)
	served := make(chan error, 1)
	go func() {
		served <- transport.ServeReverse(t.Context(), port.Addr().String(), d, transport.Hello{NodeID: "n1", Secret: "s3cret"}, nil, hclog.NewNullLogger(), nil)
	}()
	node := <-nodes
	_ = node.Close()
	if err := <-served; !errors.Is(err, fault.Unavailable) {
		t.Errorf("closed by the server: %v", err)
	}
}

func TestReversedConnectionNeedsTheSecret(t *testing.T) {
	t.Parallel()
	port, d, _ := open(t)
	err := transport.ServeReverse(t.Context(), port.Addr().String(), d, transport.Hello{NodeID: "n1", Secret: "guess"}, nil, hclog.NewNullLogger(), nil)
	if !errors.Is(err, fault.Denied) {
		t.Fatalf("wrong secret: %v", err)
	}
	err = transport.ServeReverse(t.Context(), port.Addr().String(), d, transport.Hello{NodeID: strings.Repeat("n", 8<<10)}, nil, hclog.NewNullLogger(), nil)
	if !errors.Is(err, fault.TooLarge) && !errors.Is(err, fault.Unavailable) {
		t.Fatalf("long hello: %v", err)
	}
}

func BenchmarkCall(b *testing.B) {
	id, err := certs.SelfMade()
	if err != nil {
		b.Fatal(err)
	}
	port, err := transport.Listen("127.0.0.1:0", id.Server, hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = port.Run(b.Context()) }()
	go func() {
		_ = transport.Serve(b.Context(), port.Listener(wire.ProtocolRPC), []wire.Handler{
			heartbeat(func(context.Context, *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
				return &api.NodeUpdateResponse{HeartbeatTTL: time.Second}, nil
			}),
		}, hclog.NewNullLogger(), nil)
	}()
	c, err := transport.Connect(port.Addr().String(), transport.Dialer{TLS: id.Client})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.NodeHeartbeat.Call(b.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "s"}); err != nil {
			b.Fatal(err)
		}
	}
}
