package tls

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
)

// save writes both files, or none.
func save(s *session.Session, p pair, title, stem string) error {
	cert, key := stem+".pem", stem+"-key.pem"
	for _, path := range []string{cert, key} {
		if _, err := os.Lstat(path); err == nil {
			return session.Failed("saving "+path, fault.New(fault.Conflict, "the file already exists"))
		}
	}
	if err := write(key, p.key, 0o600); err != nil {
		return session.Failed("saving "+key, err)
	}
	if err := write(cert, p.cert, 0o644); err != nil {
		return session.Failed("saving "+cert, errors.Join(err, os.Remove(key)))
	}
	s.Printf("==> %s saved to: %s\n==> %s key saved to: %s\n", title, cert, title, key)
	return nil
}

// write makes a file that was not there.
func write(path string, body []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// signer is an authority that can sign.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func readSigner(certFile, keyFile string) (*signer, error) {
	cert, err := readCertificate(certFile)
	if err != nil {
		return nil, err
	}
	if !cert.IsCA {
		return nil, notAuthority(certFile)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	own, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !own.Equal(key.Public()) {
		return nil, fault.New(fault.Invalid, "key %s does not belong to certificate %s", keyFile, certFile)
	}
	return &signer{cert: cert, key: key}, nil
}

// stands verifies what was signed: an authority may be constrained to other names.
func (s *signer) stands(p pair) error {
	cert, err := parseCertificate("the new certificate", p.cert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return fault.New(fault.Invalid, "the authority is not allowed to sign it: %w", err)
	}
	return nil
}

func notAuthority(path string) error {
	return fault.New(fault.Invalid, "%s is not the certificate of an authority", path)
}

func readCertificate(path string) (*x509.Certificate, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCertificate(path, body)
}

func parseCertificate(path string, body []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(body)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fault.New(fault.Invalid, "%s holds no certificate", path)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", path, err)
	}
	return cert, nil
}

// readKey reads a key in any of the usual forms.
func readKey(path string) (crypto.Signer, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(body)
	if block == nil {
		return nil, fault.New(fault.Invalid, "%s holds no key", path)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s holds no supported key: %w", path, err)
	}
	if signer, ok := key.(crypto.Signer); ok {
		return signer, nil
	}
	return nil, fault.New(fault.Invalid, "%s holds a key that cannot sign", path)
}
