package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
)

// ServeReverse dials a server and answers its calls on that connection until the connection drops
// or ctx ends. opened is called, when not nil, once the server has accepted the node.
func ServeReverse(ctx context.Context, address string, d Dialer, hello Hello, handlers []Handler, log hclog.Logger, opened func()) error {
	conn, err := d.Dial(ctx, address, ProtocolReverse)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := greet(conn, hello); err != nil {
		return fmt.Errorf("offer connection to server %s: %w", address, err)
	}
	if opened != nil {
		opened()
	}
	if err := Serve(ctx, newSingle(conn), handlers, log); err != nil && !errors.Is(err, io.EOF) {
		return fault.New(fault.Unavailable, "serve server %s: %w", address, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fault.New(fault.Unavailable, "server %s closed the reversed connection", address)
}

// Reverse is the server's end of a reversed connection: a way to call one node.
type Reverse struct {
	*Conn
	NodeID string
	gone   chan struct{}
}

// Gone is closed when the connection has dropped.
func (r *Reverse) Gone() <-chan struct{} { return r.gone }

// AcceptReverse reads the hello of a node, asks check whether to believe it, and turns the roles
// round. The connection is closed when it fails.
func AcceptReverse(ctx context.Context, conn net.Conn, check func(context.Context, Hello) error) (*Reverse, error) {
	hello, err := welcomed(ctx, conn, check)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	gone := make(chan struct{})
	dial := oneDial(newWatched(conn, func() { close(gone) }))
	c, err := newConn("node-"+hello.NodeID, dial)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.cc.Connect()
	return &Reverse{Conn: c, NodeID: hello.NodeID, gone: gone}, nil
}
