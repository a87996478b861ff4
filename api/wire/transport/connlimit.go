package transport

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// ConnLimit limits the connections of each client address. Its zero value limits nothing.
type ConnLimit struct {
	// Max is how many connections an address may have at once; 0 means no limit.
	Max int

	mu   sync.Mutex
	open map[string]int
	logs rate.Sometimes
}

// logInterval is how often rejected connections are logged.
const logInterval = time.Minute

// Accept counts the connection until it is closed. It returns false, and does not close the connection, when its address
// has Max connections already; log is called for such a connection, at most once in a minute.
func (c *ConnLimit) Accept(conn net.Conn, log func()) (net.Conn, bool) {
	if c.Max <= 0 {
		return conn, true
	}
	address := host(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[address] >= c.Max {
		c.logs.Interval = logInterval
		c.logs.Do(log)
		return nil, false
	}
	if c.open == nil {
		c.open = map[string]int{}
	}
	c.open[address]++
	return &countedConn{Conn: conn, release: sync.OnceFunc(func() { c.release(address) })}, true
}

func (c *ConnLimit) release(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[address]--; c.open[address] == 0 {
		delete(c.open, address)
	}
}

// countedConn counts until it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
