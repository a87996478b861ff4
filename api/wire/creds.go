package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// finished tells gRPC that TLS was finished before it saw the connection.
type finished struct{}

func (finished) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return handshaken(c)
}

func (finished) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return handshaken(c)
}

func (finished) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (f finished) Clone() credentials.TransportCredentials { return f }

func (finished) OverrideServerName(string) error { return nil }

func handshaken(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	inner := c
	if w, ok := c.(interface{ below() net.Conn }); ok {
		inner = w.below()
	}
	t, ok := inner.(*tls.Conn)
	if !ok {
		return nil, nil, errors.New("connection is not tls")
	}
	state := t.ConnectionState()
	info := proof{TLSInfo: credentials.TLSInfo{
		State:          state,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}}
	info.role, info.region = proven(state)
	e := &ending{Conn: c, ended: make(chan struct{})}
	info.end, info.ended = e.Close, e.ended
	return e, info, nil
}

// ending is a connection that tells when this side has closed it.
type ending struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

// Close implements [net.Conn].
func (e *ending) Close() error {
	defer e.once.Do(func() { close(e.ended) })
	return e.Conn.Close()
}

// proof is what gRPC keeps of a connection for [PeerOf].
type proof struct {
	credentials.TLSInfo
	role   Role
	region string
	// end closes the connection; ended is closed then.
	end   func() error
	ended <-chan struct{}
}

// proven is the role of a peer whose certificate was verified.
func proven(s tls.ConnectionState) (Role, string) {
	if len(s.VerifiedChains) == 0 {
		return Unproven, ""
	}
	return Identify(s.PeerCertificates[0], "")
}
