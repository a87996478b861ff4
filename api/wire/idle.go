package wire

import (
	"net"
	"os"
	"time"
)

// earlyMax bounds what a peer may say on a parked connection: the greeting of HTTP/2 and no more.
const earlyMax = 16 << 10

// parked is a connection that nobody has needed yet: one goroutine sees whether it drops and keeps what the
// peer says first. Most nodes are never called, and a gRPC client for each would cost a hundred times that.
type parked struct {
	*watchedConn
	done  chan struct{}
	early []byte // the watcher's until done is closed
}

// park watches the connection until it is woken; gone is called once when it is closed or has dropped.
func park(conn net.Conn, gone func()) *parked {
	p := &parked{watchedConn: newWatched(conn, gone), done: make(chan struct{})}
	go p.watch()
	return p
}

func (p *parked) watch() {
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

// wake ends the watch: from now on the connection is read by the caller.
func (p *parked) wake() {
	_ = p.SetReadDeadline(time.Unix(1, 0))
	<-p.done
	_ = p.SetReadDeadline(time.Time{})
}

// Read gives what was said while the connection was parked, and then what comes.
func (p *parked) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}
