package attacks

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// bed is three servers and a node with mutual TLS and a gossip key.
type bed struct {
	t       *testing.T
	lab     *kit.Lab
	servers []*kit.Host
	node    *kit.Host
	key     string
}

func newBed(t *testing.T, acl bool) *bed {
	t.Helper()
	b := &bed{t: t, lab: kit.NewLab(t)}
	b.lab.ACL = acl
	for _, name := range []string{"s1", "s2", "s3"} {
		b.servers = append(b.servers, b.lab.Host(name))
	}
	b.node = b.lab.Host("n1")
	b.run("", "tls", "ca", "create")
	for _, args := range [][]string{{"-server"}, {"-client"}, {"-cli"}, {"-server", "-region", "eu"}, {"-client", "-region", "eu"}} {
		b.run("", append([]string{"tls", "cert", "create"}, args...)...)
	}
	b.run("other", "tls", "ca", "create")
	b.run("other", "tls", "cert", "create", "-server")
	b.key = strings.TrimSpace(b.run("", "operator", "gossip", "keyring", "generate"))
	var join []string
	for _, s := range b.servers {
		join = append(join, fmt.Sprintf("%q", s.IP))
	}
	for _, s := range b.servers {
		b.start(s, fmt.Sprintf("server {\n enabled = true\n bootstrap_expect = 3\n encrypt = %q\n raft_multiplier = 3\n server_join {\n retry_join = [%s]\n retry_interval = \"1s\"\n }\n}",
			b.key, strings.Join(join, ", ")), "global-server-nomad")
	}
	b.voters(3)
	b.work(b.node)
	b.servers[0].Ready(1)
	return b
}

func (b *bed) run(dir string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(b.node.Binary, args...)
	cmd.Dir = b.lab.Path(dir)
	if err := os.MkdirAll(cmd.Dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("nomad %v: %v", args, err)
	}
	return string(out)
}

func (b *bed) start(h *kit.Host, config, cert string) {
	b.t.Helper()
	h.TLS = &api.TLSConfig{
		CACert: b.lab.Path("nomad-agent-ca.pem"), ClientCert: b.lab.Path("global-cli-nomad.pem"), ClientKey: b.lab.Path("global-cli-nomad-key.pem"),
		TLSServerName: strings.Replace(strings.Replace(cert, "global-", "", 1), "-nomad", ".global.nomad", 1),
	}
	h.Start(fmt.Sprintf("%s\ntls {\n http = true\n rpc = true\n verify_server_hostname = true\n verify_https_client = true\n ca_file = %q\n cert_file = %q\n key_file = %q\n}",
		config, b.lab.Path("nomad-agent-ca.pem"), b.lab.Path(cert+".pem"), b.lab.Path(cert+"-key.pem")))
}

// work starts a node.
func (b *bed) work(h *kit.Host) {
	b.t.Helper()
	var servers []string
	for _, s := range b.servers {
		servers = append(servers, fmt.Sprintf("%q", s.IP+":4647"))
	}
	b.start(h, fmt.Sprintf("client {\n enabled = true\n servers = [%s]\n}\nplugin \"raw_exec\" {\n config {\n enabled = true\n }\n}", strings.Join(servers, ", ")), "global-client-nomad")
}

// leader is the server that all agree on.
func (b *bed) leader() *kit.Host {
	b.t.Helper()
	var found *kit.Host
	b.servers[0].Until(30*time.Second, "a leader", func() error {
		said := map[string]int{}
		for _, s := range b.servers {
			address, err := s.API.Status().Leader()
			if err != nil {
				return err
			}
			said[strings.TrimSuffix(address, ":4647")]++
		}
		for _, s := range b.servers {
			if said[s.IP] == len(b.servers) {
				found = s
				return nil
			}
		}
		return fmt.Errorf("%v", said)
	})
	return found
}

// peers are the raft peers by id, as the leader has them.
func (b *bed) peers() (map[string]*api.RaftServer, error) {
	conf, err := b.servers[0].API.Operator().RaftGetConfiguration(nil)
	if err != nil {
		return nil, err
	}
	all := map[string]*api.RaftServer{}
	for _, p := range conf.Servers {
		all[p.ID] = p
	}
	return all, nil
}

func (b *bed) voters(n int) {
	b.t.Helper()
	b.servers[0].Until(60*time.Second, "the voters", func() error {
		all, err := b.peers()
		voters := 0
		for _, p := range all {
			if p.Voter {
				voters++
			}
		}
		if err == nil && voters != n {
			err = fmt.Errorf("%d voters", voters)
		}
		return err
	})
}

// transfer moves the leadership to another server.
func (b *bed) transfer() {
	b.t.Helper()
	was := b.leader()
	all, err := b.peers()
	if err != nil {
		b.t.Fatal(err)
	}
	for id, p := range all {
		if !strings.HasPrefix(p.Address, was.IP+":") {
			_ = was.API.Operator().RaftTransferLeadershipByID(id, nil) // whoever leads then is told by the next question
			break
		}
	}
	b.servers[0].Until(30*time.Second, "another leader", func() error {
		if b.leader() == was {
			return fmt.Errorf("it is still %s", was.Name)
		}
		return nil
	})
}

// as dials with a certificate of the bed, such as global-client-nomad; "" has one that nobody signed.
func (b *bed) as(cert string) transport.Dialer {
	b.t.Helper()
	if cert == "" {
		made, err := certs.SelfMade()
		if err != nil {
			b.t.Fatal(err)
		}
		return transport.Dialer{TLS: made.Client}
	}
	dir := filepath.Dir(b.lab.Path(cert + ".pem"))
	id, err := certs.Load(certs.Files{
		CA: b.lab.Path("nomad-agent-ca.pem"), Cert: b.lab.Path(cert + ".pem"), Key: filepath.Join(dir, filepath.Base(cert)+"-key.pem"), Region: "global", VerifyServerHostname: true,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return transport.Dialer{TLS: id.TLS().Client, Region: "global"}
}

func (b *bed) connect(cert string, to *kit.Host) *transport.Conn {
	b.t.Helper()
	c, err := transport.Connect(to.IP+":4647", b.as(cert))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// browser speaks HTTPS with the certificate of an operator.
func (b *bed) browser() *http.Client {
	b.t.Helper()
	config := b.as("global-cli-nomad").TLS.Clone()
	config.ServerName, config.NextProtos = "server.global.nomad", nil
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 16}}
	b.t.Cleanup(c.CloseIdleConnections)
	if b.lab.ACL {
		c.Transport = kit.WithToken(c.Transport)
	}
	return c
}

// log is what an agent has written.
func log(t *testing.T, h *kit.Host) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(h.Dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func namespace(name string) *api.Namespace { return &api.Namespace{Name: name} }
