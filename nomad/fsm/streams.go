package fsm

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// streams are the raft connections of the shared port.
type streams struct {
	net.Listener
	advertise string
	dial      func(context.Context, string) (net.Conn, error)
}

var _ raft.StreamLayer = (*streams)(nil)

func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(address))
}

// Addr is the address that other servers know.
func (s *streams) Addr() net.Addr { return address(s.advertise) }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
