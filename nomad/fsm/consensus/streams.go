package consensus

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// streams are the raft connections of the shared port.
type streams struct {
	net.Listener
	// ended is closed when the transport wants no more connections.
	ended     chan struct{}
	once      sync.Once
	advertise string
	dial      func(context.Context, string) (net.Conn, error)
}

var _ raft.StreamLayer = (*streams)(nil)

func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(address))
}

// Accept implements [net.Listener]. The port may be closed before the transport, which must not treat that as a
// failure: Accept returns the error only once the transport has ended.
func (s *streams) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		<-s.ended
	}
	return conn, err
}

// Close implements [net.Listener].
func (s *streams) Close() error {
	s.once.Do(func() { close(s.ended) })
	return s.Listener.Close()
}

// Addr is the address that other servers know.
func (s *streams) Addr() net.Addr { return address(s.advertise) }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }
