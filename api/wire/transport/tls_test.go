package transport_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// authority signs test certificates into a folder.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.ca, _ = a.write("ca", template, nil)
	return a
}

// write signs the template with the authority, or makes it the authority when there is none yet.
func (a *authority) write(stem string, template *x509.Certificate, names []string) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.cert == nil {
		a.cert, a.key = template, key
	}
	template.DNSNames = names
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, stem+".pem"), filepath.Join(a.dir, stem+"-key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// files makes a certificate with a DNS name; it ends after the time.
func (a *authority) files(name string, lives time.Duration) certs.Files {
	a.t.Helper()
	cert, key := a.write(name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(lives), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, []string{name, "localhost"})
	return certs.Files{CA: a.ca, Cert: cert, Key: key, VerifyServerHostname: true, Region: "global"}
}

func load(t *testing.T, f certs.Files) *certs.Reloadable {
	t.Helper()
	r, err := certs.Load(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// notes is a log that can be read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// expect waits for a text: a server says why it refused a peer after it has told the peer.
func (n *notes) expect(t *testing.T, want string) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !strings.Contains(n.String(), want); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("the log does not say %q: %s", want, n)
		}
	}
}

// guarded runs a port with certificates; the RPC method answers the caller's role and region, and
// raft and reversed connections are kept open.
func guarded(t *testing.T, id *certs.Reloadable) (address string, log *notes) {
	t.Helper()
	log = &notes{}
	port, err := transport.Listen("127.0.0.1:0", id.TLS().Server, hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Warn}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = port.Run(ctx) })
	wg.Go(func() {
		_ = transport.Serve(ctx, port.Listener(wire.ProtocolRPC), []wire.Handler{heartbeat(
			func(ctx context.Context, _ *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
				p := transport.PeerOf(ctx)
				return &api.NodeUpdateResponse{Servers: []string{string(p.Role), p.Region, cpulimit.ClientOf(ctx)}}, nil
			})}, hclog.NewNullLogger(), cpulimit.New(1))
	})
	for _, protocol := range []string{wire.ProtocolRaft, wire.ProtocolReverse} {
		wg.Go(func() {
			for {
				conn, err := port.Listener(protocol).Accept()
				if err != nil {
					return
				}
				defer conn.Close()
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	return port.Addr().String(), log
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names  string
		role   certs.Role
		region string
	}{
		{"server.global.nomad", certs.RoleServer, "global"},
		{"localhost client.eu.nomad", certs.RoleClient, "eu"},
		{"cli.global.nomad", certs.RoleCLI, "global"},
		{"client.global.nomad server.global.nomad", certs.RoleServer, "global"},
		{"server.eu.nomad server.global.nomad", certs.RoleServer, "global"},
		{"SERVER.Global.Nomad", certs.RoleServer, "global"},
		{"server.eu.nomad client.global.nomad", certs.RoleServer, "eu"},
		{"", certs.Unproven, ""},
		{"server.global.example server..nomad server.nomad xserver.global.nomad *.global.nomad server.*.nomad", certs.Unproven, ""},
	} {
		role, region := certs.Identify(&x509.Certificate{DNSNames: strings.Fields(c.names)}, "global")
		if role != c.role || region != c.region {
			t.Errorf("%q is %q of %q, want %q of %q", c.names, role, region, c.role, c.region)
		}
	}
}

func TestRolesOpenProtocols(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	address, log := guarded(t, load(t, a.files("server.global.nomad", time.Hour)))
	for _, c := range []struct {
		name, protocol, refusal string
	}{
		{"server.global.nomad", wire.ProtocolRaft, ""},
		{"server.global.nomad", wire.ProtocolRPC, ""},
		{"server.global.nomad", wire.ProtocolReverse, ""},
		{"client.global.nomad", wire.ProtocolRPC, ""},
		{"client.global.nomad", wire.ProtocolReverse, ""},
		{"client.global.nomad", wire.ProtocolRaft, "raft is for servers, the certificate is a client's"},
		{"cli.global.nomad", wire.ProtocolRPC, "a cli certificate opens the HTTP API only"},
		{"cli.global.nomad", wire.ProtocolReverse, "a cli certificate opens the HTTP API only"},
		{"server.eu.nomad", wire.ProtocolRPC, ""},
		{"server.eu.nomad", wire.ProtocolRaft, `refuses our certificate "server.eu.nomad"`},
		{"client.eu.nomad", wire.ProtocolReverse, `refuses our certificate "client.eu.nomad"`},
		{"web.example", wire.ProtocolRPC, `refuses our certificate "web.example"`},
	} {
		conn, err := transport.Dialer{TLS: load(t, a.files(c.name, time.Hour)).TLS().Client}.Dial(t.Context(), address, c.protocol)
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != (c.refusal == "") || (err != nil && !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s on %s: %v, want %q", c.name, c.protocol, err, c.refusal)
		}
	}
	for _, want := range []string{
		"raft is for servers", "a cli certificate opens the HTTP API only",
		"the peer is not server.global.nomad or client.global.nomad", "web.example",
	} {
		log.expect(t, want)
	}
}

func TestPeersAreKnownByRole(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	address, _ := guarded(t, load(t, a.files("server.global.nomad", time.Hour)))
	forwarded := transport.WithHops(cpulimit.New(1).For(t.Context(), "10.9.8.7:4646"), 1)
	for name, want := range map[string]string{ // a server's word for whom it forwards counts, nobody else's
		"client.global.nomad": "client global 127.0.0.1", "server.eu.nomad": "server eu 10.9.8.7", "server.global.nomad": "server global 10.9.8.7",
	} {
		c, err := transport.Connect(address, transport.Dialer{TLS: load(t, a.files(name, time.Hour)).TLS().Client})
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.NodeHeartbeat.Call(forwarded, c, &api.NodeHeartbeatRequest{})
		if err != nil || strings.Join(got.Servers, " ") != want {
			t.Errorf("%s is seen as %v %v, want %s", name, got, err, want)
		}
		_ = c.Close()
	}
}

func TestUnprovenPeersAreRefusedWithTheReasonAtBothEnds(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	address, log := guarded(t, load(t, a.files("server.global.nomad", time.Hour)))
	foreign := other.files("server.global.nomad", time.Hour)
	expired := a.files("client.global.nomad", -time.Hour)
	pair := func(f certs.Files) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	selfMade, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config   *tls.Config
		own, say string
	}{
		"no certificate":   {&tls.Config{InsecureSkipVerify: true}, "certificate required", "didn't provide a certificate"},
		"self-made":        {selfMade.Client, "it asks for a certificate of its authority", "didn't provide a certificate"},
		"wrong authority":  {&tls.Config{InsecureSkipVerify: true, Certificates: pair(foreign)}, "unknown certificate authority", "unknown authority"},
		"expired":          {&tls.Config{InsecureSkipVerify: true, Certificates: pair(expired)}, "expired certificate", "certificate has expired"},
		"server not known": {load(t, foreign).TLS().Client, "does not stand up to ca_file " + foreign.CA, "it refuses our certificate"},
	} {
		own := &notes{}
		d := transport.Dialer{TLS: c.config, Refusals: transport.LogRefusals(hclog.New(&hclog.LoggerOptions{Output: own}))}
		_, _ = d.Dial(t.Context(), address, wire.ProtocolRPC)
		_, err := d.Dial(t.Context(), address, wire.ProtocolRPC)
		if err == nil || !strings.Contains(err.Error(), c.own) || !strings.Contains(err.Error(), address) || !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s: the dialer says %v, want %q", name, err, c.own)
		}
		if said := own.String(); strings.Count(said, "a server is not reached") != 1 || !strings.Contains(said, c.own) {
			t.Errorf("%s: the dialer's log is %q", name, said)
		}
		log.expect(t, c.say)
	}
}

func TestDialersVerifyTheServersName(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	id := load(t, a.files("client.global.nomad", time.Hour)).TLS().Client
	server, _ := guarded(t, load(t, a.files("server.global.nomad", time.Hour)))
	impostor, _ := guarded(t, load(t, a.files("client.global.nomad", time.Hour)))
	if _, err := (transport.Dialer{TLS: id}).Dial(t.Context(), impostor, wire.ProtocolReverse); err == nil || !strings.Contains(err.Error(), "the peer is not server.global.nomad") {
		t.Errorf("a client passes for a server: %v", err)
	}
	if _, err := (transport.Dialer{TLS: id, Region: "eu"}).Dial(t.Context(), server, wire.ProtocolRPC); err == nil || !strings.Contains(err.Error(), "the peer is not server.eu.nomad") {
		t.Errorf("a server passes for one of another region: %v", err)
	}
	loose := a.files("client.global.nomad", time.Hour)
	loose.VerifyServerHostname = false
	conn, err := transport.Dialer{TLS: load(t, loose).TLS().Client}.Dial(t.Context(), server, wire.ProtocolRPC)
	if err != nil {
		t.Fatalf("without verify_server_hostname: %v", err)
	}
	_ = conn.Close()
}

func TestReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t), newAuthority(t)
	server, client := load(t, old.files("server.global.nomad", time.Hour)), load(t, old.files("client.global.nomad", time.Hour))
	address, _ := guarded(t, server)
	d := transport.Dialer{TLS: client.TLS().Client}
	lives, err := transport.Connect(address, d)
	if err != nil {
		t.Fatal(err)
	}
	defer lives.Close()
	call := func(c *transport.Conn) error {
		_, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{})
		return err
	}
	if err := call(lives); err != nil {
		t.Fatal(err)
	}
	if err := server.Reload(certs.Files{CA: "/nonexistent", Cert: "/nonexistent", Key: "/nonexistent"}); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("bad files: %v", err)
	}
	if conn, err := d.Dial(t.Context(), address, wire.ProtocolRPC); err != nil {
		t.Errorf("after a refused reload: %v", err)
	} else {
		_ = conn.Close()
	}
	if err := server.Reload(next.files("server.global.nomad", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context(), address, wire.ProtocolRPC); err == nil {
		t.Error("the old authority is still believed")
	}
	if err := call(lives); err != nil {
		t.Errorf("the reload broke a connection: %v", err)
	}
	if err := client.Reload(next.files("client.global.nomad", time.Hour)); err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(t.Context(), address, wire.ProtocolRPC)
	if err != nil {
		t.Fatalf("both ends reloaded: %v", err)
	}
	_ = conn.Close()
}

func TestUpgradeModeAcceptsTheUnproven(t *testing.T) {
	t.Parallel()
	f := newAuthority(t).files("server.global.nomad", time.Hour)
	f.Upgrade = true
	id := load(t, f)
	address, _ := guarded(t, id)
	made, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []transport.Dialer{{TLS: made.Client}, {TLS: id.TLS().Client}} {
		c, err := transport.Connect(address, d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.NodeHeartbeat.Call(t.Context(), c, &api.NodeHeartbeatRequest{})
		if err != nil || got.Servers[0] != "" {
			t.Errorf("%v %v", got, err)
		}
		_ = c.Close()
	}
}

func TestLoadNamesTheFileAndTheReason(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	good, client := a.files("server.global.nomad", time.Hour), a.files("client.global.nomad", time.Hour)
	expired := a.files("server.eu.nomad", -time.Hour)
	with := func(change func(*certs.Files)) certs.Files {
		f := good
		f.Role = certs.RoleServer
		change(&f)
		return f
	}
	for want, f := range map[string]certs.Files{
		"cert_file and key_file are both needed":   with(func(f *certs.Files) { f.Key = "" }),
		"ca_file is needed":                        with(func(f *certs.Files) { f.CA = "" }),
		"/nowhere.pem: no such file":               with(func(f *certs.Files) { f.CA = "/nowhere.pem" }),
		good.Key + " holds no certificate":         with(func(f *certs.Files) { f.CA = good.Key }),
		client.Key:                                 with(func(f *certs.Files) { f.Key = client.Key }),
		expired.Cert + " expired at":               with(func(f *certs.Files) { f.Cert, f.Key = expired.Cert, expired.Key }),
		"does not stand up to ca_file " + other.ca: with(func(f *certs.Files) { f.CA = other.ca }),
		"does not name server.global.nomad":        with(func(f *certs.Files) { f.Cert, f.Key = client.Cert, client.Key }),
		"does not name server.asia.nomad":          with(func(f *certs.Files) { f.Region = "asia" }),
	} {
		if _, err := certs.Load(f); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := certs.Load(with(func(*certs.Files) {})); err != nil {
		t.Errorf("good files: %v", err)
	}
}
