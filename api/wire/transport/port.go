package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// handshakeTimeout limits the TLS handshake of an accepted connection where [Limits] do not.
const handshakeTimeout = 5 * time.Second

// Port is the one port of a server: it finishes TLS and hands each connection to the listener of
// the protocol that the other side chose.
type Port struct {
	raw    net.Listener
	config *tls.Config
	log    hclog.Logger
	queues map[string]*queue
	said   recent
	conns  ConnLimit
	shake  time.Duration
}

// Limits limit what one client may take of a port.
type Limits struct {
	// ConnsPerClient is how many connections one client address may have; 0 means no limit.
	ConnsPerClient int
	// Handshake limits the TLS handshake; 0 means five seconds.
	Handshake time.Duration
}

// Limit sets the limits; it must be called before [Port.Run].
func (p *Port) Limit(l Limits) {
	p.conns.Max = l.ConnsPerClient
	if l.Handshake > 0 {
		p.shake = l.Handshake
	}
}

// Listen opens the port. Nothing is accepted before [Port.Run].
func Listen(address string, config *tls.Config, log hclog.Logger) (*Port, error) {
	raw, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open rpc port: %w", err)
	}
	p := &Port{raw: raw, log: log, queues: map[string]*queue{}, shake: handshakeTimeout}
	protocols := []string{wire.ProtocolRaft, wire.ProtocolRPC, wire.ProtocolReverse}
	for _, protocol := range protocols {
		p.queues[protocol] = newQueue(raw.Addr())
	}
	p.config = prepared(config, protocols...)
	return p, nil
}

// Addr is the address that the port listens on.
func (p *Port) Addr() net.Addr { return p.raw.Addr() }

// Listener returns the connections of one protocol; it must be one of the Protocol constants.
func (p *Port) Listener(protocol string) net.Listener { return p.queues[protocol] }

// Close closes the port and its listeners; accepted connections stay open.
func (p *Port) Close() error {
	err := p.raw.Close()
	for _, q := range p.queues {
		_ = q.Close()
	}
	return err
}

// Pauses after connections could not be accepted, as while the process has no descriptors left.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Run accepts connections until ctx ends, and closes the port.
func (p *Port) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	defer p.Close()
	var shaking sync.WaitGroup
	defer shaking.Wait()
	pauses := retry.Between(acceptPauseMin, acceptPauseMax)
	for {
		conn, err := p.raw.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			pause := pauses.Next()
			p.log.Warn("accept connection", "error", err, "retry_in", pause)
			if !retry.Sleep(ctx, pause) {
				return nil
			}
			continue
		}
		pauses.Reset()
		counted, ok := p.conns.Accept(conn, func() {
			p.log.Warn("too many connections from one client: closed a new one", "client", conn.RemoteAddr(), "rpc_max_conns_per_client", p.conns.Max)
		})
		if !ok {
			_ = conn.Close()
			continue
		}
		setUserTimeout(conn)
		shaking.Go(func() { p.route(ctx, counted) })
	}
}

// route finishes TLS and queues the connection; a peer that does not get there in time is dropped.
func (p *Port) route(ctx context.Context, raw net.Conn) {
	ctx, cancel := context.WithTimeout(ctx, p.shake)
	defer cancel()
	conn := tls.Server(raw, p.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		p.refused(raw, err)
		_ = raw.Close()
		return
	}
	state := conn.ConnectionState()
	if err := admit(conn, state); err != nil {
		p.refused(raw, err)
		_ = conn.Close()
		return
	}
	q, ok := p.queues[state.NegotiatedProtocol]
	if !ok || !q.put(ctx, conn) {
		p.log.Debug("dropped connection", "peer", raw.RemoteAddr(), "protocol", state.NegotiatedProtocol)
		_ = conn.Close()
	}
}

// admit sends the dialer that its certificate was accepted, or why its role
// does not fit. Without this frame a dialer learns of a refusal only from its first call.
func admit(conn *tls.Conn, state tls.ConnectionState) error {
	if err := conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	role, _ := proven(state)
	if why := role.Refusal(state.NegotiatedProtocol); why != "" {
		err := fault.New(fault.Denied, "%s: %s", why, certs.Describe(state.PeerCertificates[0]))
		return errors.Join(err, writeFrame(conn, welcome{Class: fault.Denied, Error: err.Error()}))
	}
	if err := writeFrame(conn, welcome{}); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// refused logs why a peer was refused: certificate errors as warnings, once a minute
// per host, everything else, such as port scans, for debugging only.
func (p *Port) refused(raw net.Conn, err error) {
	host, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	if aboutCertificates(err) {
		err = blamed(err)
		if p.said.first(host, err, time.Now()) {
			p.log.Warn("refused a peer", "peer", raw.RemoteAddr(), "error", err)
			return
		}
	}
	p.log.Debug("refused connection", "peer", raw.RemoteAddr(), "error", err)
}

// queue is a listener that is fed by the port.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (q *queue) put(ctx context.Context, conn net.Conn) bool {
	select {
	case q.conns <- conn:
		return true
	case <-q.closed:
	case <-ctx.Done():
	}
	return false
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (q *queue) Addr() net.Addr { return q.addr }

// prepared returns c for the protocols of a port.
func prepared(c *tls.Config, protocols ...string) *tls.Config {
	if c == nil {
		c = &tls.Config{}
	}
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.NextProtos = protocols
	if inner := c.GetConfigForClient; inner != nil {
		c.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			got, err := inner(h)
			if err != nil || got == nil {
				return got, err
			}
			return prepared(got, protocols...), nil
		}
	}
	return c
}
