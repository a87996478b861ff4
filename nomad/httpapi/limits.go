package httpapi

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/wire"
)

// Limits bound what clients may take of the HTTP port.
type Limits struct {
	// ConnsPerClient is how many connections one client address may have; 0 does not bound them.
	ConnsPerClient int
	// Handshake bounds the TLS handshake; 0 leaves it to the time for a request's head.
	Handshake time.Duration
}

// tooMany is the answer to a connection over the limit.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"This address has too many connections: close some, or wait.\n"

// Guard applies the limits to a listener, before TLS where there is any.
func (l Limits) Guard(raw net.Listener, secure bool, log hclog.Logger) net.Listener {
	limited := &limitedListener{Listener: raw, conns: wire.ConnLimit{Max: l.ConnsPerClient}, secure: secure, log: log}
	if !secure || l.Handshake <= 0 {
		return limited
	}
	return &hurried{limited, l.Handshake}
}

type limitedListener struct {
	net.Listener
	conns  wire.ConnLimit
	secure bool
	log    hclog.Logger
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted, ok := l.conns.Accept(conn, func() {
			l.log.Warn("too many connections from one client: closed a new one", "client", conn.RemoteAddr(), "http_max_conns_per_client", l.conns.Max)
		})
		if ok {
			return counted, nil
		}
		if !l.secure { // it fits into the buffers of a new connection
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write([]byte(tooMany))
		}
		_ = conn.Close()
	}
}

// hurried is a listener whose connections must have finished TLS in time.
type hurried struct {
	net.Listener
	within time.Duration
}

// Accept implements [net.Listener].
func (h *hurried) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &shaking{Conn: conn, end: time.Now().Add(h.within)}
	return c, c.SetDeadline(c.end)
}

// shaking is a connection whose deadlines cannot be later than the end of the handshake. The HTTP server takes its
// own deadline away when the handshake is done.
type shaking struct {
	net.Conn
	end  time.Time
	done atomic.Bool
}

// SetReadDeadline implements [net.Conn].
func (s *shaking) SetReadDeadline(t time.Time) error {
	if t.IsZero() && s.done.CompareAndSwap(false, true) {
		_ = s.Conn.SetWriteDeadline(t)
	}
	return s.Conn.SetReadDeadline(s.capped(t))
}

// SetWriteDeadline implements [net.Conn].
func (s *shaking) SetWriteDeadline(t time.Time) error { return s.Conn.SetWriteDeadline(s.capped(t)) }

func (s *shaking) capped(t time.Time) time.Time {
	if !s.done.Load() && (t.IsZero() || t.After(s.end)) {
		return s.end
	}
	return t
}
