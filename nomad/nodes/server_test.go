package nodes_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// serve runs a whole server with this one service: port, raft on disk, RPC, leader loops.
func serve(t *testing.T, dir string) (caller *transport.Conn, srv *rpc.Server, dialer transport.Dialer, address string, stop func()) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := hclog.NewNullLogger()
	id, err := certs.SelfMade()
	check(err)
	dialer = transport.Dialer{TLS: id.Client}
	port, err := transport.Listen("127.0.0.1:0", id.Server, log)
	check(err)
	store := state.New()
	raft, err := consensus.Open(consensus.Config{
		ID: "s1", Advertise: port.Addr().String(), Dir: dir, Single: true, State: store, Registry: registry(),
		Listener: port.Listener(wire.ProtocolRaft), Log: log,
		Dial: func(ctx context.Context, a string) (net.Conn, error) { return dialer.Dial(ctx, a, wire.ProtocolRaft) },
	})
	check(err)
	service := nodes.New(nodes.Config{Log: log, State: store, Raft: raft})
	srv = rpc.New(rpc.Config{Log: log, Raft: raft, Dialer: dialer, VerifyNode: service.Verify})
	srv.Handle(service.Handlers()...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 3)
	leads := make(chan struct{})
	go func() { done <- port.Run(ctx) }()
	go func() { done <- srv.Run(ctx, port) }()
	go func() {
		done <- raft.Lead(ctx, func(ctx context.Context) error {
			close(leads)
			return service.Run(ctx)
		})
	}()
	<-leads
	caller, err = transport.Connect(port.Addr().String(), dialer)
	check(err)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = caller.Close()
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("server part: %v", err)
			}
		}
		check(raft.Close())
	}
	t.Cleanup(stop)
	return caller, srv, dialer, port.Addr().String(), stop
}

func TestNodeOverARealServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, srv, dialer, address, stop := serve(t, dir)
	if _, err := wire.NodeRegister.Call(t.Context(), c, &api.NodeRegisterRequest{Node: node("n1")}); err != nil {
		t.Fatalf("register: %v", err)
	}
	beat := &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "secret of n1", Status: api.NodeStatusReady}
	if _, err := wire.NodeHeartbeat.Call(t.Context(), c, beat); err != nil {
		t.Fatalf("heartbeat: %v", err)
	}
	if _, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{NodeID: "n1", NodeSecret: "x"}); !errors.Is(err, fault.Denied) {
		t.Errorf("wrong secret: %v", err)
	}
	opened := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- transport.ServeReverse(ctx, address, dialer, transport.Hello{NodeID: "n1", Secret: "secret of n1"}, []wire.Handler{
			wire.ClientNodeStats.Handle(func(context.Context, *api.NodeRequest) (*api.NodeStatsResponse, error) {
				return &api.NodeStatsResponse{}, nil
			}),
		}, hclog.NewNullLogger(), func() { close(opened) })
	}()
	<-opened
	for deadline := time.Now().Add(30 * time.Second); ; {
		n, err := srv.Node("n1")
		if err == nil {
			_, err = wire.ClientNodeStats.Call(t.Context(), n, &api.NodeRequest{})
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("call down: %v", err)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("node's end: %v", err)
	}
	stop()

	c, _, _, _, _ = serve(t, dir)
	got, err := wire.NodeGet.Call(t.Context(), c, &api.NodeRequest{NodeID: "n1"})
	if err != nil || got.Node == nil || got.Node.Status != api.NodeStatusReady || !got.KnownLeader {
		t.Fatalf("after the restart: %+v %v", got, err)
	}
	thief := node("n1")
	thief.SecretID = "guess"
	if _, err := wire.NodeRegister.Call(t.Context(), c, &api.NodeRegisterRequest{Node: thief}); !errors.Is(err, fault.Denied) {
		t.Errorf("another node with the id: %v", err)
	}
}
