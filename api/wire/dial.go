package wire

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// dialTimeout bounds connecting and the TLS handshake.
const dialTimeout = 5 * time.Second

// Dialer opens connections to the port of a server. Its zero value trusts no self-made certificate.
type Dialer struct {
	// TLS is the client's half of a [TLS].
	TLS *tls.Config
}

// Dial opens a connection that speaks one protocol.
func (d Dialer) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	config := prepared(d.TLS, protocol)
	if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "dial server %s: %w", address, err)
	}
	return conn, nil
}
