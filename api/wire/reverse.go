package wire

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
)

// parkedMax is how long a server may leave a node uncalled.
const parkedMax = 100 * 365 * 24 * time.Hour

// ServeReverse dials a server and answers its calls on that connection until the connection drops
// or ctx ends. opened is called, when not nil, once the server has accepted the node.
func ServeReverse(ctx context.Context, address string, d Dialer, hello Hello, handlers []Handler, log hclog.Logger, opened func()) error {
	conn, err := d.Dial(ctx, address, ProtocolReverse)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // gRPC waits for the first word of a server that never calls
	defer stop()
	if err := greet(conn, hello); err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("offer connection to server %s: %w", address, err)
	}
	if opened != nil {
		opened()
	}
	if err := serve(ctx, newSingle(conn), handlers, log, nil, requestTimeout, grpc.ConnectionTimeout(parkedMax)); err != nil && !errors.Is(err, io.EOF) {
		return fault.New(fault.Unavailable, "serve server %s: %w", address, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fault.New(fault.Unavailable, "server %s closed the reversed connection", address)
}

// Reverse is the server's end of a reversed connection: a way to call one node. It costs next to nothing before
// the first call.
type Reverse struct {
	NodeID string
	// Instance names the process of the node, Address is where it is.
	Instance, Address string
	parked            *parked

	mu   sync.Mutex
	conn *Conn
}

// Invoke calls a method of the node by its name. It implements [Caller].
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
	r.parked.wake()
	c, err := newConn("node-"+r.NodeID, oneDial(r.parked))
	if err != nil {
		_ = r.parked.Close()
		return nil, err
	}
	r.conn = c
	return c, nil
}

// Alive reports whether the node answers.
func (r *Reverse) Alive(ctx context.Context) bool {
	err := r.Invoke(ctx, "Node.Alive", &api.Empty{}, &api.Empty{}) // no node serves it, and those that live say so
	return err == nil || errors.Is(err, fault.Unimplemented)
}

// Close ends the connection and all its calls.
func (r *Reverse) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
	return r.parked.Close()
}

// AcceptReverse reads the hello of a node, asks check whether to believe it, and turns the roles
// round. The connection is closed when it fails. dropped is called once it is closed or has dropped.
func AcceptReverse(ctx context.Context, conn net.Conn, check func(context.Context, Hello) error, dropped func(*Reverse)) (*Reverse, error) {
	hello, err := welcomed(ctx, conn, check)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	r := &Reverse{NodeID: hello.NodeID, Instance: hello.Instance, Address: conn.RemoteAddr().String()}
	r.parked = park(conn, func() { dropped(r) })
	return r, nil
}
