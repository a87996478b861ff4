package transport

import (
	"net"
	"os"
	"time"
)

// earlyMax limits what a peer may send on an idle connection: the preface of HTTP/2.
const earlyMax = 16 << 10

// idleConn is a connection without calls so far: one goroutine notices when it drops and keeps what the
// peer sends. Most nodes are never called, and a gRPC client for each would cost a hundred times that.
type idleConn struct {
	*watchedConn
	done  chan struct{}
	early []byte // the watcher's until done is closed
}

// newIdle watches the connection until it is woken; it calls gone once when the connection has ended.
func newIdle(conn net.Conn, gone func()) *idleConn {
	p := &idleConn{watchedConn: newWatched(conn, gone), done: make(chan struct{})}
	go p.watch()
	return p
}

func (p *idleConn) watch() {
	defer close(p.done)
	buffer := make([]byte, 256)
	for {
		n, err := p.Conn.Read(buffer)
		p.early = append(p.early, buffer[:n]...)
		switch {
		case os.IsTimeout(err): // it was woken
			return
		case err != nil || len(p.early) > earlyMax:
			_ = p.Close()
			return
		}
	}
}

// wake ends the watch; the caller reads the connection from now on.
func (p *idleConn) wake() {
	_ = p.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	_ = p.SetReadDeadline(time.Time{})
}

// Read returns first what arrived while the connection was idle.
func (p *idleConn) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
