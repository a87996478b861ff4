package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Files are the certificate files of an agent and how peers are verified.
type Files struct {
	// CA holds the trusted authorities, Cert our chain, Key its key; all PEM.
	CA, Cert, Key string
	// VerifyServerHostname makes servers prove by name that they are servers of the region that was
	// dialed, and makes every dialer prove that it is a server or a client.
	VerifyServerHostname bool
	// Region is our own.
	Region string
	// Role is what our certificate must be good for: it must come from CA, and with
	// VerifyServerHostname carry the name. Unproven checks neither.
	Role Role
	// Upgrade accepts peers that prove nothing, while a running cluster moves to certificates.
	Upgrade bool
}

// material is what the files held when they were read; it does not change.
type material struct {
	files Files
	cert  tls.Certificate
	pool  *x509.CertPool
	// authorityEnd is when the first of the authorities expires.
	authorityEnd time.Time
}

// read reads the files and checks them against each other; errors name the file and the reason.
func (f Files) read(now time.Time) (*material, error) {
	m := &material{files: f}
	if f.Cert == "" || f.Key == "" {
		return nil, fault.New(fault.Invalid, "tls: cert_file and key_file are both needed")
	}
	if f.CA == "" && f.Role != Unproven {
		return nil, fault.New(fault.Invalid, "tls: ca_file is needed to verify peers")
	}
	var err error
	if m.cert, err = readPair(f.Cert, f.Key); err != nil {
		return nil, err
	}
	if f.CA != "" {
		if m.pool, m.authorityEnd, err = readAuthorities(f.CA); err != nil {
			return nil, err
		}
	}
	leaf := m.cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return nil, fault.New(fault.Invalid, "tls: cert_file %s expired at %s", f.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, fault.New(fault.Invalid, "tls: cert_file %s is valid only from %s on", f.Cert, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if f.Role == Unproven {
		return m, nil
	}
	return m, m.suits(now)
}

// suits checks our own certificate the way that peers will.
func (m *material) suits(now time.Time) error {
	f, leaf := m.files, m.cert.Leaf
	uses := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if f.Role == RoleServer {
		uses = append(uses, x509.ExtKeyUsageServerAuth)
	}
	for _, use := range uses {
		if err := m.verify(leaf, parsed(m.cert.Certificate[1:]), now, use); err != nil {
			return fault.New(fault.Invalid, "tls: cert_file %s does not stand up to ca_file %s: %w", f.Cert, f.CA, err)
		}
	}
	if !f.VerifyServerHostname {
		return nil
	}
	role, region := Identify(leaf, f.Region)
	if (role == RoleServer || role == f.Role) && region == f.Region {
		return nil
	}
	return fault.New(fault.Invalid, "tls: cert_file %s does not name %s, which verify_server_hostname asks of this agent; it is %s",
		f.Cert, f.Role.Name(f.Region), Describe(leaf))
}

func (m *material) verify(leaf *x509.Certificate, others []*x509.Certificate, now time.Time, use x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range others {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: m.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use},
	})
	return err
}

// parsed leaves out what is no certificate: the chain then does not verify.
func parsed(chain [][]byte) []*x509.Certificate {
	var out []*x509.Certificate
	for _, der := range chain {
		if c, err := x509.ParseCertificate(der); err == nil {
			out = append(out, c)
		}
	}
	return out
}

func readPair(certFile, keyFile string) (tls.Certificate, error) {
	var none tls.Certificate
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return none, fault.New(fault.Invalid, "tls: read cert_file: %w", err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return none, fault.New(fault.Invalid, "tls: read key_file: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return none, fault.New(fault.Invalid, "tls: cert_file %s with key_file %s: %w", certFile, keyFile, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return none, fault.New(fault.Invalid, "tls: cert_file %s: %w", certFile, err)
		}
	}
	return pair, nil
}

// readAuthorities reads a CA file; end is when the first of its certificates expires.
func readAuthorities(file string) (pool *x509.CertPool, end time.Time, err error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, end, fault.New(fault.Invalid, "tls: read ca_file: %w", err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(body) {
		return nil, end, fault.New(fault.Invalid, "tls: ca_file %s holds no certificate", file)
	}
	for block, rest := pem.Decode(body); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && (end.IsZero() || c.NotAfter.Before(end)) {
			end = c.NotAfter
		}
	}
	return pool, end, nil
}

// unlike returns the error for a peer without the wanted name.
func unlike(want string, leaf *x509.Certificate) error {
	return fmt.Errorf("the peer is not %s but has %s", want, Describe(leaf))
}
