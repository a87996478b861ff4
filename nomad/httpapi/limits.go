package httpapi

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/metrics"
)

// Limits limit what clients may take of the HTTP port.
type Limits struct {
	// ConnsPerClient is how many connections one client address may have; 0 means no limit.
	ConnsPerClient int
	// Handshake limits the TLS handshake; 0 leaves it to the timeout of request headers.
	Handshake time.Duration
	// Metrics counts the connections; nil does not.
	Metrics *metrics.Recorder
}

// Connections over the limit are served an error for a short time; further ones are closed.
const (
	excessMax     = 256
	excessTimeout = 2 * time.Second
	excessDrain   = 16 << 20
	tooMany       = "too many connections from this address: close some and retry"
)

// Guard applies the limits to a server and returns the listener for it, before TLS where secure.
func (l Limits) Guard(server *http.Server, raw net.Listener, secure bool, log hclog.Logger) net.Listener {
	limited := &limitedListener{Listener: raw, conns: transport.ConnLimit{Max: l.ConnsPerClient}, slots: semaphore.NewWeighted(excessMax), log: log, metrics: l.Metrics}
	if l.Metrics != nil {
		var open atomic.Int64
		server.ConnState = func(_ net.Conn, now http.ConnState) {
			switch now {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Add(-1)
			}
		}
		l.Metrics.Read(func(emit metrics.Emit) { emit("nomad.agent.http.connections", float64(open.Load())) })
	}
	server.Handler = limited.refuse(server.Handler)
	if !secure || l.Handshake <= 0 {
		return limited
	}
	return &hurried{limited, l.Handshake}
}

type limitedListener struct {
	net.Listener
	conns transport.ConnLimit
	log   hclog.Logger
	// metrics counts refused connections.
	metrics *metrics.Recorder
	// excess are the remote addresses of connections over the limit that are served an error.
	excess sync.Map
	slots  *semaphore.Weighted
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		counted, ok := l.conns.Accept(conn, func() {
			l.log.Warn("too many connections from one client: refused a new one", "client", conn.RemoteAddr(), "http_max_conns_per_client", l.conns.Max)
		})
		if ok {
			return counted, nil
		}
		l.metrics.Count("nomad.agent.http.exceeded", 1)
		if l.slots.TryAcquire(1) {
			return l.admitExcess(conn), nil
		}
		_ = conn.Close()
	}
}

// admitExcess returns a connection over the limit that is closed after excessTimeout.
func (l *limitedListener) admitExcess(conn net.Conn) net.Conn {
	address := conn.RemoteAddr().String()
	l.excess.Store(address, nil)
	timeout := time.AfterFunc(excessTimeout, func() { _ = conn.Close() })
	return &excessConn{conn, sync.OnceFunc(func() {
		timeout.Stop()
		l.excess.Delete(address)
		l.slots.Release(1)
	})}
}

type excessConn struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *excessConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// refuse replies 429 to requests on connections over the limit, once the body has arrived: a client that still sends would
// see a reset connection.
func (l *limitedListener) refuse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, excess := l.excess.Load(r.RemoteAddr); !excess {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.CopyN(io.Discard, r.Body, excessDrain)
		w.Header().Set("Connection", "close")
		http.Error(w, tooMany, http.StatusTooManyRequests)
	})
}

// hurried is a listener whose connections must finish their TLS handshake in time.
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

// shaking is a connection whose deadlines are not later than that of the handshake, until the HTTP server clears its own
// deadline after the handshake.
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
