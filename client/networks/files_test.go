package networks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestResolvers(t *testing.T) {
	host := []string{"# comment", "nameserver 192.0.2.1", "search host.example", "options edns0"}
	local := []string{"nameserver 127.0.0.53", "search host.example"}
	behind := []string{"nameserver 192.0.2.9", "search host.example"}
	for _, c := range []struct {
		name         string
		dns          *api.DNSConfig
		host, behind []string
		want         []string
	}{
		{"the host's file serves", nil, host, behind, nil},
		{"the resolvers behind a local one", nil, local, behind, behind},
		{"a local one alone", nil, local, nil, nil},
		{"servers", &api.DNSConfig{Servers: []string{"192.0.2.7"}}, host, nil, []string{"nameserver 192.0.2.7", "search host.example", "options edns0"}},
		{"searches and options", &api.DNSConfig{Searches: []string{"a", "b"}, Options: []string{"ndots:2"}}, local, behind, []string{"nameserver 192.0.2.9", "search a b", "options ndots:2"}},
	} {
		want := ""
		if c.want != nil {
			want = strings.Join(c.want, "\n") + "\n"
		}
		if got := resolvers(c.dns, c.host, c.behind); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}

func TestFilesOfAnAllocation(t *testing.T) {
	peer(t)
	s := service(t, t.TempDir(), "file")
	a := alloc("dddddddd-file", modeBridge)
	a.Job.TaskGroups[0].Networks[0].Hostname = "box"
	network := up(t, s, a)
	files := s.Files(a)
	if len(files) == 0 || filepath.Base(files[0].Path) != "hosts" || s.Hostname(a) != "box" {
		t.Fatalf("files %v, host name %q", files, s.Hostname(a))
	}
	b, err := os.ReadFile(files[0].Path)
	must(t, err)
	for _, line := range []string{network.Address + " box", network.AddressIPv6 + " box", "127.0.0.1 localhost"} {
		if !strings.Contains(string(b), line+"\n") {
			t.Errorf("hosts lacks %q: %s", line, b)
		}
	}
	must(t, s.Down(t.Context(), a))
	if all := left(t, s); len(all) > 0 {
		t.Error("left:", all)
	}
}
