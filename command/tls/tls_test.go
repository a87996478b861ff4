package tls_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/command"
)

// run runs "nomad tls" and returns its exit code and all that it said.
func run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var said bytes.Buffer
	root := command.New()
	root.Writer, root.ErrWriter = &said, &said
	code := command.Run(context.Background(), root, append([]string{"nomad", "tls"}, args...))
	return code, said.String()
}

func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, said := run(t, args...)
	if code != 0 {
		t.Fatalf("tls %v: exit code %d: %s", args, code, said)
	}
	return said
}

// t.Chdir keeps these tests from running in parallel.

func TestCertificatesServeTheirRoles(t *testing.T) {
	t.Chdir(t.TempDir())
	said := ok(t, "ca", "create")
	if want := "==> CA certificate saved to: nomad-agent-ca.pem\n==> CA certificate key saved to: nomad-agent-ca-key.pem\n"; said != want {
		t.Errorf("said %q, want %q", said, want)
	}
	for flag, role := range map[string]certs.Role{"-server": certs.RoleServer, "-client": certs.RoleClient} {
		for _, region := range []string{"global", "eu"} {
			ok(t, "cert", "create", flag, "-region", region)
			stem := region + "-" + string(role) + "-nomad"
			_, err := certs.Load(certs.Files{
				CA: "nomad-agent-ca.pem", Cert: stem + ".pem", Key: stem + "-key.pem",
				Region: region, Role: role, VerifyServerHostname: true,
			})
			if err != nil {
				t.Errorf("%s: %v", stem, err)
			}
		}
	}
	ok(t, "cert", "create", "-cli", "-days", "7", "-additional-dnsname", "ops.example", "-additional-ipaddress", "10.0.0.7")
	info := ok(t, "cert", "info", "global-cli-nomad.pem")
	for _, want := range []string{"cli.global.nomad, localhost, ops.example", "127.0.0.1, 10.0.0.7", "cli of region global"} {
		if !strings.Contains(info, want) {
			t.Errorf("info does not say %q: %s", want, info)
		}
	}
	files, _ := filepath.Glob("*.pem")
	for _, f := range files {
		stat, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "-key.pem") && stat.Mode().Perm() != 0o600 {
			t.Errorf("key %s has mode %s", f, stat.Mode())
		}
	}
	if len(files) != 2+2*2*2+2 {
		t.Errorf("files are %v", files)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "ca", "create")
	before, err := os.ReadFile("nomad-agent-ca-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	if code, said := run(t, "ca", "create"); code != 1 || !strings.Contains(said, "nomad-agent-ca.pem: the file already exists") {
		t.Errorf("exit code %d, said %q", code, said)
	}
	if err := os.Remove("nomad-agent-ca.pem"); err != nil {
		t.Fatal(err)
	}
	if code, said := run(t, "ca", "create"); code != 1 || !strings.Contains(said, "nomad-agent-ca-key.pem: the file already exists") {
		t.Errorf("exit code %d, said %q", code, said)
	}
	after, err := os.ReadFile("nomad-agent-ca-key.pem")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key was overwritten: %v", err)
	}
	if _, err := os.Stat("nomad-agent-ca.pem"); !os.IsNotExist(err) {
		t.Errorf("half a pair was written: %v", err)
	}
}

func TestNameConstraints(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "ca", "create", "-domain", "acme", "-name-constraint", "-additional-domain", "example.org", "-common-name", "Acme CA", "-organization", "Acme")
	if info := ok(t, "ca", "info", "acme-agent-ca.pem"); !strings.Contains(info, "acme, localhost, nomad, example.org") || !strings.Contains(info, "Acme CA") {
		t.Errorf("info is %s", info)
	}
	ok(t, "cert", "create", "-server", "-domain", "acme", "-additional-dnsname", "web.example.org")
	code, said := run(t, "cert", "create", "-client", "-domain", "acme", "-additional-dnsname", "evil.com")
	if code != 1 || !strings.Contains(said, `"evil.com"`) {
		t.Errorf("exit code %d, said %q", code, said)
	}
	if _, err := os.Stat("global-client-acme.pem"); !os.IsNotExist(err) {
		t.Errorf("a refused certificate was written: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	t.Chdir(t.TempDir())
	ok(t, "ca", "create", "-days", "30")
	ok(t, "ca", "create", "-domain", "other")
	ok(t, "cert", "create", "-server", "-days", "1")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"exactly one of -server, -client, -cli", []string{"cert", "create"}},
		{"exactly one of -server, -client, -cli", []string{"cert", "create", "-server", "-cli"}},
		{"would outlive its authority", []string{"cert", "create", "-client"}},
		{`-days 0 is not between`, []string{"ca", "create", "-domain", "new", "-days", "0"}},
		{`-region "../../etc" is not a DNS name`, []string{"cert", "create", "-client", "-days", "1", "-region", "../../etc"}},
		{`-region "a.b" must not contain dots`, []string{"cert", "create", "-client", "-days", "1", "-region", "a.b"}},
		{`-domain "a/b" is not a DNS name`, []string{"ca", "create", "-domain", "a/b"}},
		{"-additional-domain needs -name-constraint", []string{"ca", "create", "-domain", "new", "-additional-domain", "x.org"}},
		{`"300.1.1.1" is not an IP address`, []string{"cert", "create", "-client", "-days", "1", "-additional-ipaddress", "300.1.1.1"}},
		{"nowhere.pem: no such file", []string{"cert", "create", "-client", "-ca", "nowhere.pem"}},
		{"does not belong to certificate", []string{"cert", "create", "-client", "-key", "other-agent-ca-key.pem"}},
		{"is not the certificate of an authority", []string{"cert", "create", "-client", "-ca", "global-server-nomad.pem", "-key", "global-server-nomad-key.pem"}},
		{"is not the certificate of an authority", []string{"ca", "info", "global-server-nomad.pem"}},
		{"holds no certificate", []string{"cert", "info", "global-server-nomad-key.pem"}},
		{"This command takes one argument", []string{"cert", "info"}},
	} {
		if code, said := run(t, c.args...); code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("tls %v: exit code %d, said %q, want %q", c.args, code, said, c.want)
		}
	}
}
