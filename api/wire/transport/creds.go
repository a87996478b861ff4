package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"google.golang.org/grpc/credentials"
)

// finished are credentials for connections whose TLS handshake is complete.
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
	info.end = c.Close
	return c, info, nil
}

// proof is what gRPC keeps of a connection for [PeerOf].
type proof struct {
	credentials.TLSInfo
	role   certs.Role
	region string
	// end closes the connection.
	end func() error
}

// proven returns the role and region in the verified certificate of a peer.
func proven(s tls.ConnectionState) (certs.Role, string) {
	if len(s.VerifiedChains) == 0 {
		return certs.Unproven, ""
	}
	return certs.Identify(s.PeerCertificates[0], "")
}
