package wire

import (
	"net"
	"sync"
	"time"
)

// Crowd bounds the connections of one client address, before they cost anything. Its zero value bounds nothing.
type Crowd struct {
	// Max is how many connections an address may have at once; 0 does not bound them.
	Max int

	mu   sync.Mutex
	by   map[string]int
	said map[string]time.Time
}

// crowdSaid is how often an address that has too many connections is told of.
const crowdSaid = time.Minute

// Enter counts a connection, until leave is called, or refuses it; tell says whether to tell of that.
func (c *Crowd) Enter(from net.Addr) (leave func(), ok, tell bool) {
	if c.Max <= 0 {
		return func() {}, true, false
	}
	host, _, err := net.SplitHostPort(from.String())
	if err != nil {
		host = from.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by, c.said = map[string]int{}, map[string]time.Time{}
	}
	if c.by[host] >= c.Max {
		now := time.Now()
		tell = now.Sub(c.said[host]) >= crowdSaid
		if tell {
			c.said[host] = now
		}
		return nil, false, tell
	}
	c.by[host]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by[host]--; c.by[host] == 0 {
			delete(c.by, host)
			delete(c.said, host)
		}
	}), true, false
}

// Guard counts the connections that a listener accepts; refused is given those of an address that has too many, and
// closes them.
func (c *Crowd) Guard(l net.Listener, refused func(conn net.Conn, tell bool)) net.Listener {
	return &guarded{l, c, refused}
}

type guarded struct {
	net.Listener
	crowd   *Crowd
	refused func(net.Conn, bool)
}

// Accept implements [net.Listener].
func (g *guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, ok, tell := g.crowd.Enter(conn.RemoteAddr())
		if ok {
			return &counted{Conn: conn, leave: leave}, nil
		}
		g.refused(conn, tell)
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
