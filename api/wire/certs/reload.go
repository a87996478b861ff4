package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/api/wire"
)

// Reloadable is a TLS identity from files. Connections keep what they were opened with; each new
// one uses what was read last. It is safe for concurrent use.
type Reloadable struct {
	now atomic.Pointer[material]
}

// Load reads the files.
func Load(f Files) (*Reloadable, error) {
	m, err := f.read(time.Now())
	if err != nil {
		return nil, err
	}
	r := &Reloadable{}
	r.now.Store(m)
	return r, nil
}

// Reload reads the files again, or other ones; after an error the old ones stay in use.
func (r *Reloadable) Reload(f Files) error {
	m, err := f.read(time.Now())
	if err != nil {
		return err
	}
	r.now.Store(m)
	return nil
}

// Files are those in use.
func (r *Reloadable) Files() Files { return r.now.Load().files }

// Certificate is our own, as it was read last.
func (r *Reloadable) Certificate() *tls.Certificate { return &r.now.Load().cert }

// Expiry returns until when our own certificate and the first of the authorities to expire are valid; authority is zero
// without any.
func (r *Reloadable) Expiry() (cert, authority time.Time) {
	m := r.now.Load()
	return m.cert.Leaf.NotAfter, m.authorityEnd
}

// Authorities are those of the CA file, as it was read last; nil without one.
func (r *Reloadable) Authorities() *x509.CertPool { return r.now.Load().pool }

// TLS returns both ends of mutual TLS.
func (r *Reloadable) TLS() TLS {
	return TLS{
		Server: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.now.Load().accepting(), nil },
		},
		Client: &tls.Config{
			MinVersion: tls.VersionTLS13,
			ServerName: RoleServer.Name(r.Files().Region),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return r.Certificate(), nil
			},
			// The chain is verified below, against the authorities of the moment.
			InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
			VerifyConnection:   func(s tls.ConnectionState) error { return r.now.Load().verifyServer(s) },
		},
	}
}

// accepting is the server's end of one handshake.
func (m *material) accepting() *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{m.cert},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: m.pool,
		SessionTicketsDisabled: true, // every connection authenticates again
		VerifyConnection:       m.verifyDialer,
	}
	if m.files.Upgrade {
		c.ClientAuth, c.VerifyConnection = tls.RequestClientCert, nil
	}
	return c
}

// verifyDialer adds the roles to what the handshake verified.
func (m *material) verifyDialer(s tls.ConnectionState) error {
	if !m.files.VerifyServerHostname {
		return nil
	}
	home, leaf := m.files.Region, s.PeerCertificates[0]
	role, region := Identify(leaf, home)
	wants := RoleServer.Name(home)
	switch {
	case role == RoleServer && (region == home || s.NegotiatedProtocol == wire.ProtocolRPC):
		return nil // servers of other regions forward requests
	case role != Unproven && role.Refusal(s.NegotiatedProtocol) != "":
		return nil // the port logs the reason
	case role == RoleClient && region == home:
		return nil
	case s.NegotiatedProtocol != wire.ProtocolRaft:
		wants += " or " + RoleClient.Name(home)
	}
	return unlike(wants, leaf)
}

// verifyServer verifies the chain of a server that we dialled, and its name when we are to.
func (m *material) verifyServer(s tls.ConnectionState) error {
	if m.files.Upgrade {
		return nil
	}
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	leaf := s.PeerCertificates[0]
	if err := m.verify(leaf, s.PeerCertificates[1:], time.Now(), x509.ExtKeyUsageServerAuth); err != nil {
		return fmt.Errorf("%s does not stand up to ca_file %s: %w", Describe(leaf), m.files.CA, err)
	}
	if m.files.VerifyServerHostname && leaf.VerifyHostname(s.ServerName) != nil {
		return unlike(s.ServerName, leaf)
	}
	return nil
}
