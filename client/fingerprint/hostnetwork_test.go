package fingerprint

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func addressed(configured map[string]*api.HostNetworkInfo) (string, error) {
	n := &api.Node{NodeResources: &api.NodeResources{NodeNetworks: []*api.NodeNetwork{{
		Mode: "host", Device: "eth0", Addresses: []*api.NodeNetworkAddress{{Alias: "default", Address: "192.0.2.1", Family: "ipv4"}},
	}}}}
	err := addHostNetworks(n, configured, []device{
		{name: "eth0", addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fe80::1")}},
		{name: "eth1", speed: 10, addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("2001:db8::5")}},
	})
	var lines []string
	for _, net := range n.NodeResources.NodeNetworks {
		for _, a := range net.Addresses {
			lines = append(lines, fmt.Sprint(net.Device, " ", a.Alias, " ", a.Address, " ", a.Family, " ", a.ReservedPorts))
		}
	}
	return strings.Join(lines, "\n"), err
}

func TestHostNetworksAreAliasesOfAddresses(t *testing.T) {
	for _, c := range []struct {
		name string
		info *api.HostNetworkInfo
		want string
	}{
		{"private", &api.HostNetworkInfo{CIDR: "10.0.0.0/8", ReservedPorts: "22,80"}, "eth0 default 192.0.2.1 ipv4 \neth1 private 10.0.0.5 ipv4 22,80"},
		{"second", &api.HostNetworkInfo{Interface: "eth1"}, "eth0 default 192.0.2.1 ipv4 \neth1 second 10.0.0.5 ipv4 \neth1 second 2001:db8::5 ipv6 "},
		{"public", &api.HostNetworkInfo{Interface: "eth0", CIDR: "192.0.2.1/24"}, "eth0 default 192.0.2.1 ipv4 \neth0 public 192.0.2.1 ipv4 "},
		{"default", &api.HostNetworkInfo{Interface: "eth1", CIDR: "10.0.0.0/24"}, "eth1 default 10.0.0.5 ipv4 "},
	} {
		got, err := addressed(map[string]*api.HostNetworkInfo{c.name: c.info})
		if err != nil || got != c.want {
			t.Errorf("%s:\n%s\n%v", c.name, got, err)
		}
	}
}

func TestBadHostNetworksAreReported(t *testing.T) {
	for name, info := range map[string]*api.HostNetworkInfo{
		"nothing": {Name: "nothing"}, "nonsense": {Name: "nonsense", CIDR: "10.0.0.0/99"}, "nowhere": {Name: "nowhere", CIDR: "198.51.100.0/24"},
	} {
		if got, err := addressed(map[string]*api.HostNetworkInfo{name: info}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}
