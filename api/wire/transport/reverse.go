package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// idleMax replaces gRPC's connection timeout: a server may never call a node.
const idleMax = 100 * 365 * 24 * time.Hour

// ServeReverse dials a server and serves its calls on that connection until the connection drops
// or ctx ends. opened is called, when not nil, once the server has accepted the node.
func ServeReverse(ctx context.Context, address string, d Dialer, hello Hello, handlers []wire.Handler, log hclog.Logger, opened func()) error {
	conn, err := d.Dial(ctx, address, wire.ProtocolReverse)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // gRPC waits for the first bytes of a server that never calls
	defer stop()
	if err := greet(conn, hello); err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("offer connection to server %s: %w", address, err)
	}
	if opened != nil {
		opened()
	}
	if err := serve(ctx, newSingle(conn), handlers, log, nil, requestTimeout, grpc.ConnectionTimeout(idleMax)); err != nil && !errors.Is(err, io.EOF) {
		return fault.New(fault.Unavailable, "serve server %s: %w", address, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fault.New(fault.Unavailable, "server %s closed the reversed connection", address)
}

// Reverse is the server's end of a reversed connection. It calls one node and uses few resources before
// the first call.
type Reverse struct {
	NodeID string
	// Instance names the process of the node, Address is where it is.
	Instance, Address string
	idle              *idleConn

	mu   sync.Mutex
	conn *Conn
}

// Invoke calls a method of the node by its name. It implements [wire.Caller].
func (r *Reverse) Invoke(ctx context.Context, method string, req, resp any) error {
	c, err := r.awake()
	if err != nil {
		return err
	}
	return c.Invoke(ctx, method, req, resp)
}

func (r *Reverse) awake() (*Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		return r.conn, nil
	}
	r.idle.wake()
	c, err := newConn("node-"+r.NodeID, oneDial(r.idle))
	if err != nil {
		_ = r.idle.Close()
		return nil, err
	}
	r.conn = c
	return c, nil
}

// Alive reports whether the node replies.
func (r *Reverse) Alive(ctx context.Context) bool {
	err := r.Invoke(ctx, "Node.Alive", &api.Empty{}, &api.Empty{}) // no node serves it: a living one replies Unimplemented
	return err == nil || errors.Is(err, fault.Unimplemented)
}

// Close ends the connection and all its calls.
func (r *Reverse) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
	return r.idle.Close()
}

// AcceptReverse reads the hello of a node, verifies it with check, and swaps the roles of client
// and server. It closes the connection on failure. dropped is called when the connection has ended.
func AcceptReverse(ctx context.Context, conn net.Conn, check func(context.Context, Hello) error, dropped func(*Reverse)) (*Reverse, error) {
	hello, err := welcomed(ctx, conn, check)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	r := &Reverse{NodeID: hello.NodeID, Instance: hello.Instance, Address: conn.RemoteAddr().String()}
	r.idle = newIdle(conn, func() { dropped(r) })
	return r, nil
}
