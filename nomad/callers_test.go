package nomad_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// method is an entry of the method table as it is written there.
type method struct{ name, scope, auth string }

func methods(t *testing.T) []method {
	t.Helper()
	var all []method
	for _, name := range []string{"../api/wire/methods.go", "../api/wire/methods_acl.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || len(lit.Elts) != 4 {
				return true
			}
			all = append(all, method{
				strings.Trim(lit.Elts[0].(*ast.BasicLit).Value, `"`), lit.Elts[1].(*ast.Ident).Name, lit.Elts[2].(*ast.Ident).Name,
			})
			return true
		})
	}
	if len(all) < 90 {
		t.Fatalf("found only %d methods", len(all))
	}
	return all
}

// nothing is a request in which no field is set, and an answer that is not read.
type nothing struct{}

func (nothing) MarshalMsg(b []byte) ([]byte, error)   { return msgp.AppendMapHeader(b, 0), nil }
func (nothing) UnmarshalMsg(b []byte) ([]byte, error) { return nil, nil }

// authority signs certificates into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(name string, c *x509.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if a.cert == nil {
		a.cert, a.key = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+"-key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// identity is a certificate with a name such as client.global.nomad.
func (a *authority) identity(name string) *certs.Reloadable {
	a.t.Helper()
	cert, key := a.sign(name, &x509.Certificate{
		DNSNames: []string{name, "localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	f := certs.Files{CA: filepath.Join(a.dir, "ca.pem"), Cert: cert, Key: key, VerifyServerHostname: true, Region: "global"}
	id, err := certs.Load(f)
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

// TestEveryMethodKnowsItsCallers calls each method of the table with each kind of certificate, over the network.
func TestEveryMethodKnowsItsCallers(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	h := newHost(t, "a", "global", 1)
	h.conf.TLS = a.identity("server.global.nomad")
	h.start()
	until(t, "it leads", func() bool { return leads(t.Context(), h.server) })
	self, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	callers := []struct {
		who    string
		dialer transport.Dialer
		may    map[string]bool
	}{
		{"no certificate of ours", transport.Dialer{TLS: self.Client}, nil},
		{"another authority", transport.Dialer{TLS: stranger.identity("server.global.nomad").TLS().Client}, nil},
		{"cli", transport.Dialer{TLS: a.identity("cli.global.nomad").TLS().Client}, nil},
		{"client of another region", transport.Dialer{TLS: a.identity("client.eu.nomad").TLS().Client}, nil},
		{"client", transport.Dialer{TLS: a.identity("client.global.nomad").TLS().Client}, map[string]bool{"ByUser": true}},
		{"server of another region", transport.Dialer{TLS: a.identity("server.eu.nomad").TLS().Client}, map[string]bool{"ByUser": true, "ByOperator": true}},
		{"server", transport.Dialer{TLS: h.conf.TLS.TLS().Client}, map[string]bool{"ByUser": true, "ByOperator": true, "ByServer": true, "ByPeer": true}},
	}
	for _, c := range callers {
		conn, err := transport.Connect(h.server.Address(), c.dialer)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, m := range methods(t) {
			if c.may == nil && m.name != "Job.List" && m.name != "Node.Heartbeat" {
				continue // the port lets none of them in
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			err := conn.Invoke(ctx, m.name, nothing{}, nothing{})
			cancel()
			refused := errors.Is(err, fault.Denied) || errors.Is(err, fault.Unavailable) && c.may == nil
			switch {
			case m.scope == "OnNode":
				if !errors.Is(err, fault.Unimplemented) {
					t.Errorf("%s calls %s of nodes at a server: %v", c.who, m.name, err)
				}
			case m.name == "Node.Register", m.name == "Node.Call": // what they ask for decides, where it is served
			case refused == c.may[m.auth]:
				t.Errorf("%s calls %s, which is %s: %v", c.who, m.name, m.auth, err)
			}
		}
	}
}
