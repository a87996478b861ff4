package certs

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

// TLS holds the two ends of the agents' connections, of [SelfMade] or of a [Reloadable]. Package transport sets versions and
// protocols.
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
