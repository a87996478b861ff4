package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/certs"
)

// dialTimeout bounds connecting and the TLS handshake.
const dialTimeout = 5 * time.Second

// Dialer opens connections to the port of a server. Its zero value trusts no self-made certificate.
type Dialer struct {
	// TLS is the client's half of a [certs.TLS].
	TLS *tls.Config
	// Region is where the servers that are dialled belong; empty means our own.
	Region string
	// Instance names the process of a node that calls, when it is not empty.
	Instance string
	// Refusals, when set, records servers that refuse our certificates or whose certificates we refuse.
	Refusals *Refusals
}

// Dial opens a connection for one protocol and waits until the server has accepted it.
func (d Dialer) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	conn, err := d.dial(ctx, address, protocol)
	if err != nil {
		d.Refusals.tell(address, err)
	}
	return conn, err
}

func (d Dialer) dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	config := prepared(d.TLS, protocol)
	if d.Region != "" {
		config.ServerName = certs.RoleServer.Name(d.Region)
	}
	if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Control: control}, Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "dial server %s: %w", address, err)
	}
	if err := admitted(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, fault.New(fault.Unavailable, "dial server %s: %w", address, refusal(err, config))
	}
	return conn, nil
}

// admitted waits until the server accepts or refuses our certificate.
func admitted(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var answer welcome
	if err := readFrame(conn, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fault.New(answer.Class, "%s", answer.Error)
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// refusal adds our certificate to the error when the server refused it.
func refusal(err error, config *tls.Config) error {
	var remote *net.OpError
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return err
	}
	if config.GetClientCertificate == nil {
		return fmt.Errorf("it asks for a certificate of its authority: %w", err)
	}
	own, none := config.GetClientCertificate(&tls.CertificateRequestInfo{})
	if none != nil || own.Leaf == nil {
		return err
	}
	return fmt.Errorf("it refuses our %s: %w", certs.Describe(own.Leaf), err)
}
