package agent_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/rest"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/command"
	"github.com/open-nomad/open-nomad/command/agent"
)

// fort is an agent with mutual TLS, and the folder with its certificates.
type fort struct {
	dir, http, rpc string
}

const fortConfig = `
data_dir = %q
bind_addr = "127.0.0.1"
log_level = "WARN"
log_file = %q
ports {
  http = %d
  rpc = %d
  serf = %d
}
server {
  enabled = true
  bootstrap_expect = 1
}
client {
  enabled = true
}
plugin "mock_driver" {
  config {
    enabled = true
  }
}
tls {
  http = true
  rpc = true
  verify_server_hostname = true
  verify_https_client = true
  ca_file = %q
  cert_file = %q
  key_file = %q
}
`

// newFort makes certificates with the command line and starts an agent with them.
func newFort(t *testing.T) *fort {
	t.Helper()
	dir, err := os.MkdirTemp("", "a") // short, for the sockets of plugins
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Chdir(dir)
	f := &fort{dir: dir}
	nomad(t, "tls", "ca", "create")
	for _, role := range []string{"-server", "-client", "-cli"} {
		nomad(t, "tls", "cert", "create", role)
	}
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	f.http, f.rpc = fmt.Sprintf("https://127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	body := fmt.Sprintf(fortConfig, f.path("data"), f.path("agent.log"), ports[0], ports[1], ports[2],
		f.path("nomad-agent-ca.pem"), f.path("global-server-nomad.pem"), f.path("global-server-nomad-key.pem"))
	if err := os.WriteFile("agent.hcl", []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fort) path(name string) string { return filepath.Join(f.dir, name) }

// start runs the agent until the test ends and waits until its node is ready.
func (f *fort) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	root := command.New(agent.Command("test"))
	go func() { ended <- root.Run(ctx, []string{"nomad", "agent", "-config", f.path("agent.hcl")}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("end of the agent: %v", err)
		}
	})
	c := f.client(t)
	f.until(t, "a ready node", func() error {
		nodes, _, err := c.Nodes(t.Context(), rest.Query{})
		if err == nil && (len(nodes) != 1 || nodes[0].Status != "ready") {
			err = errors.New("not ready")
		}
		return err
	})
}

func (f *fort) until(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(f.path("agent.log"))
			t.Fatalf("waited for %s: %v\n%s", what, err, log)
		case <-tick.C:
		}
	}
}

func (f *fort) client(t *testing.T) *rest.Client {
	t.Helper()
	c, err := rest.New(rest.Config{Address: f.http, TLS: rest.TLS{
		CACert: f.path("nomad-agent-ca.pem"), ClientCert: f.path("global-cli-nomad.pem"), ClientKey: f.path("global-cli-nomad-key.pem"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serial is the number of the certificate that the HTTPS server shows.
func (f *fort) serial(t *testing.T) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.path("global-cli-nomad.pem"), f.path("global-cli-nomad-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(f.http, "https://"), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func nomad(t *testing.T, args ...string) string {
	t.Helper()
	code, said := cli(args...)
	if code != 0 {
		t.Fatalf("nomad %v: exit code %d: %s", args, code, said)
	}
	return said
}

func cli(args ...string) (int, string) {
	var said bytes.Buffer
	root := command.New()
	root.Writer, root.ErrWriter = &said, &said
	code := command.Run(context.Background(), root, append([]string{"nomad"}, args...))
	return code, said.String()
}

const fortJob = `
job "calm" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
    }
  }
}`

func TestAgentWithMutualTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an agent")
	}
	f := newFort(t)
	f.start(t)
	t.Run("the command line", f.commandLine)
	t.Run("server methods", f.serverMethods)
	t.Run("reload", f.reloads)
}

func (f *fort) commandLine(t *testing.T) {
	if err := os.WriteFile("calm.hcl", []byte(fortJob), 0o600); err != nil {
		t.Fatal(err)
	}
	cert := []string{"-client-cert", "global-cli-nomad.pem", "-client-key", "global-cli-nomad-key.pem"}
	flags := append([]string{"-address", f.http, "-ca-cert", "nomad-agent-ca.pem"}, cert...)
	nomad(t, append(append([]string{"job", "run"}, flags...), "calm.hcl")...)
	if said := nomad(t, append(append([]string{"job", "status"}, flags...), "calm")...); !strings.Contains(said, "running") {
		t.Errorf("status: %s", said)
	}
	for name, c := range map[string]struct {
		want string
		args []string
	}{
		"no certificate":  {"a client certificate: set -client-cert", []string{"-address", f.http, "-ca-cert", "nomad-agent-ca.pem"}},
		"no authority":    {"name the authority with -ca-cert", append([]string{"-address", f.http}, cert...)},
		"half a pair":     {"are needed both", []string{"-address", f.http, "-client-cert", "global-cli-nomad.pem"}},
		"plain HTTP":      {"Use an https:// address", append([]string{"-address", strings.Replace(f.http, "https", "http", 1), "-ca-cert", "nomad-agent-ca.pem"}, cert...)},
		"wrong name":      {"-tls-server-name", append([]string{"-tls-server-name", "other.example"}, flags...)},
		"missing file":    {"/nowhere.pem", append([]string{"-ca-cert", "/nowhere.pem", "-address", f.http}, cert...)},
		"key as a cert":   {"global-cli-nomad-key.pem", []string{"-address", f.http, "-client-cert", "global-cli-nomad-key.pem", "-client-key", "global-cli-nomad-key.pem"}},
		"ca without cert": {"no certificate in", append([]string{"-ca-cert", "nomad-agent-ca-key.pem", "-address", f.http}, cert...)},
	} {
		if code, said := cli(append([]string{"node", "status"}, c.args...)...); code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, said %q, want %q", name, code, said, c.want)
		}
	}
	for name, value := range map[string]string{
		"NOMAD_ADDR": f.http, "NOMAD_CACERT": "nomad-agent-ca.pem",
		"NOMAD_CLIENT_CERT": "global-cli-nomad.pem", "NOMAD_CLIENT_KEY": "global-cli-nomad-key.pem", "NOMAD_TLS_SERVER_NAME": "server.global.nomad",
	} {
		t.Setenv(name, value)
	}
	nomad(t, "node", "status")
	t.Setenv("NOMAD_CACERT", "")
	t.Setenv("NOMAD_SKIP_VERIFY", "true")
	nomad(t, "node", "status")
}

func (f *fort) dialer(t *testing.T, role certs.Role) transport.Dialer {
	t.Helper()
	id, err := certs.Load(certs.Files{
		CA: f.path("nomad-agent-ca.pem"), Cert: f.path("global-" + string(role) + "-nomad.pem"),
		Key: f.path("global-" + string(role) + "-nomad-key.pem"), Region: "global", VerifyServerHostname: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return transport.Dialer{TLS: id.TLS().Client}
}

// serverMethods: only a server's certificate opens what servers ask each other.
func (f *fort) serverMethods(t *testing.T) {
	if conn, err := f.dialer(t, certs.RoleClient).Dial(t.Context(), f.rpc, wire.ProtocolRaft); err == nil || !strings.Contains(err.Error(), "raft is for servers") {
		t.Errorf("raft with a client's certificate: %v %v", conn, err)
	}
	made, err := certs.SelfMade()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (transport.Dialer{TLS: made.Client}).Dial(t.Context(), f.rpc, wire.ProtocolRPC); err == nil {
		t.Error("a stranger was let in")
	}
	for _, c := range []struct {
		role certs.Role
		want error
	}{{certs.RoleServer, nil}, {certs.RoleClient, fault.Denied}, {certs.RoleCLI, fault.Unavailable}} {
		err := f.ask(t, c.role)
		if c.want == nil && errors.Is(err, fault.Unimplemented) {
			t.Skip("this server has no Status.PeerInfo")
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.role, err, c.want)
		}
	}
}

// ask calls a method that is for servers only.
func (f *fort) ask(t *testing.T, role certs.Role) error {
	t.Helper()
	c, err := transport.Connect(f.rpc, f.dialer(t, role))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = wire.StatusPeerInfo.Call(ctx, c, &api.Empty{})
	return err
}

// reloads: new certificates are shown to new connections, and a waiting query goes on.
func (f *fort) reloads(t *testing.T) {
	c := f.client(t)
	jobs, meta, err := c.Jobs(t.Context(), rest.Query{})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs: %v", len(jobs), err)
	}
	nodes, _, err := c.Nodes(t.Context(), rest.Query{})
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d nodes: %v", len(nodes), err)
	}
	// Clients of the API reach the node's own agent by what its record says.
	if node, _, err := c.Node(t.Context(), nodes[0].ID, rest.Query{}); err != nil || !node.TLSEnabled {
		t.Errorf("the node's record does not tell of HTTPS: %v", err)
	}
	answer := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		index := meta.Index
		for { // the first job may change once more, as when its deployment ends
			got, meta, err := c.Jobs(t.Context(), rest.Query{Index: index, Wait: time.Minute})
			if err != nil || len(got) == 2 {
				answer <- err
				return
			}
			index = meta.Index
		}
	}()
	<-began
	before := f.serial(t)
	for _, name := range []string{"global-server-nomad.pem", "global-server-nomad-key.pem"} {
		if err := os.Rename(name, "old-"+name); err != nil {
			t.Fatal(err)
		}
	}
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangUp() // the files are missing: refused, the old ones stay
	f.until(t, "a refused reload", func() error {
		if log, _ := os.ReadFile("agent.log"); !strings.Contains(string(log), "reload refused, the old configuration stays") {
			return errors.New("not in the log")
		}
		return nil
	})
	if err := f.put(t, c, "agent", "reload"); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "global-server-nomad.pem") {
		t.Errorf("a reload without the files: %v", err)
	}
	if after := f.serial(t); after != before {
		t.Errorf("a refused reload changed the certificate from %s to %s", before, after)
	}
	nomad(t, "tls", "cert", "create", "-server")
	hangUp()
	f.until(t, "the new certificate", func() error {
		if f.serial(t) == before {
			return errors.New("still the old one")
		}
		return nil
	})
	select {
	case err := <-answer:
		t.Fatalf("the reload ended the waiting query: %v", err)
	default:
	}
	if err := os.WriteFile("second.hcl", []byte(strings.Replace(fortJob, "calm", "second", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	nomad(t, "job", "run", "-detach", "-address", f.http, "-ca-cert", "nomad-agent-ca.pem",
		"-client-cert", "global-cli-nomad.pem", "-client-key", "global-cli-nomad-key.pem", "second.hcl")
	if err := <-answer; err != nil {
		t.Errorf("the waiting query: %v", err)
	}
	f.opens(t, c)
}

// opens: HTTPS stops demanding certificates once the configuration says so.
func (f *fort) opens(t *testing.T, c *rest.Client) {
	t.Helper()
	body, err := os.ReadFile("agent.hcl")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(body), "verify_https_client = true", "verify_https_client = false", 1)
	if err := os.WriteFile("agent.hcl", []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.put(t, c, "agent", "reload"); err != nil {
		t.Fatal(err)
	}
	nomad(t, "node", "status", "-address", f.http, "-ca-cert", "nomad-agent-ca.pem")
}

func (f *fort) put(t *testing.T, c *rest.Client, path ...string) error {
	t.Helper()
	return c.Raw(t.Context(), http.MethodPut, path, nil, io.Discard)
}

func TestAgentNamesTheBadCertificate(t *testing.T) {
	newFort(t)
	good, err := os.ReadFile("agent.hcl")
	if err != nil {
		t.Fatal(err)
	}
	nomad(t, "tls", "ca", "create", "-domain", "other")
	for name, c := range map[string]struct{ old, new, want string }{
		"missing file":  {"global-server-nomad.pem", "nowhere.pem", "/nowhere.pem: no such file"},
		"wrong role":    {"global-server-nomad", "global-client-nomad", "does not name server.global.nomad"},
		"wrong ca":      {"nomad-agent-ca.pem", "other-agent-ca.pem", "does not stand up to ca_file"},
		"wrong key":     {"global-server-nomad-key.pem", "global-cli-nomad-key.pem", "global-cli-nomad-key.pem"},
		"no ca":         {"ca_file", "#", "tls.ca_file is needed"},
		"no cert":       {"cert_file", "#", "tls.cert_file and tls.key_file are both needed"},
		"odd version":   {"http = true", "http = true\n tls_min_version = \"ssl3\"", `tls_min_version "ssl3"`},
		"odd suite":     {"http = true", "http = true\n tls_cipher_suites = \"ROT13\"", `"ROT13" is unknown`},
		"misspelt key":  {"rpc = true", "rpcs = true", `unknown key "tls.rpcs"`},
		"names without": {"rpc = true", "rpc = false", "tls.verify_server_hostname needs tls.rpc"},
	} {
		if err := os.WriteFile("bad.hcl", []byte(strings.ReplaceAll(string(good), c.old, c.new)), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, said := run(t, "-config", "bad.hcl"); code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, said %q, want %q", name, code, said, c.want)
		}
	}
}
