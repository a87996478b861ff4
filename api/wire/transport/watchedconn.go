package transport

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
)

// watchedConn calls closed once when it is closed.
type watchedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

func newWatched(c net.Conn, closed func()) *watchedConn { return &watchedConn{Conn: c, closed: closed} }

func (c *watchedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}

// below returns the watched connection.
func (c *watchedConn) below() net.Conn { return c.Conn }

// oneDial hands the connection out once; a reversed connection cannot be dialled again.
func oneDial(c net.Conn) func(context.Context, string) (net.Conn, error) {
	var used bool
	var mu sync.Mutex
	return func(context.Context, string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if used {
			return nil, fault.New(fault.Unavailable, "the node's connection has dropped")
		}
		used = true
		return c, nil
	}
}

// single is a listener with one connection; it ends when that one does.
type single struct {
	conn  chan net.Conn
	done  chan struct{}
	local net.Addr
	once  sync.Once
}

func newSingle(c net.Conn) *single {
	s := &single{conn: make(chan net.Conn, 1), done: make(chan struct{}), local: c.LocalAddr()}
	s.conn <- newWatched(c, func() { _ = s.Close() })
	return s
}

func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	default:
	}
	<-s.done
	return nil, io.EOF
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *single) Addr() net.Addr { return s.local }
