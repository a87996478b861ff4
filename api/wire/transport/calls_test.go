package transport_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// The limit of connections per client would mean little else.
func TestOneConnectionHasABoundedNumberOfCallsOpen(t *testing.T) {
	const most = 8192
	var running atomic.Int32
	full := make(chan struct{})
	reached := sync.OnceFunc(func() { close(full) })
	block := wire.StatusLeader.Handle(func(ctx context.Context, _ *api.QueryOptions) (*api.StatusLeaderResponse, error) {
		defer running.Add(-1)
		if running.Add(1) == most {
			reached()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	quick := wire.StatusPeers.Handle(func(context.Context, *api.QueryOptions) (*api.StatusPeersResponse, error) {
		return &api.StatusPeersResponse{}, nil
	})
	port, dialer, _ := open(t, block, quick)
	conn, err := transport.Connect(port.Addr().String(), dialer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range most {
		go func() {
			for ctx.Err() == nil { // a call may fail on a busy machine
				_, _ = wire.StatusLeader.Call(ctx, conn, &api.QueryOptions{})
			}
		}()
	}
	<-full
	soon, over := context.WithTimeout(t.Context(), time.Second)
	defer over()
	if _, err := wire.StatusPeers.Call(soon, conn, &api.QueryOptions{}); err == nil {
		t.Errorf("more than %d calls are served at once on one connection", most)
	}
	other, err := transport.Connect(port.Addr().String(), dialer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := wire.StatusPeers.Call(t.Context(), other, &api.QueryOptions{}); err != nil {
		t.Errorf("on another connection, meanwhile: %v", err) // each has a queue of its own
	}
	cancel()
	if _, err := wire.StatusPeers.Call(t.Context(), conn, &api.QueryOptions{}); err != nil {
		t.Errorf("when they have ended: %v", err)
	}
}
