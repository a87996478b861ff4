package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// The protocols that share one port, by ALPN.
const (
	ProtocolRaft    = "nomad-raft/1"
	ProtocolRPC     = "nomad-rpc/1"
	ProtocolReverse = "nomad-rev/1"
)

// TLS holds the two ends of the agents' connections, of [SelfMade] or of a [Reloadable]; versions
// and protocols are set by [Listen] and [Dialer].
type TLS struct {
	Server *tls.Config
	Client *tls.Config
}

// SelfMade returns a TLS identity that lives in memory only: it encrypts and proves nothing.
func SelfMade() (TLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return TLS{}, fmt.Errorf("make tls key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return TLS{}, fmt.Errorf("make tls serial number: %w", err)
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "self-made agent certificate"},
		NotBefore:    now.Add(-24 * time.Hour),
		NotAfter:     now.AddDate(20, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return TLS{}, fmt.Errorf("make tls certificate: %w", err)
	}
	own := []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return TLS{
		Server: &tls.Config{Certificates: own},
		Client: &tls.Config{Certificates: own, InsecureSkipVerify: true}, //nolint:gosec // nothing to verify against
	}, nil
}

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
