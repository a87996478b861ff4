package fingerprint

import (
	"net"
	"testing"
)

func TestParseRoute(t *testing.T) {
	const head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
	for _, c := range []struct{ text, want string }{
		{head, ""},
		{head + "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", ""},
		{head + "wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\neth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n", "eth0"},
		{head + "eth0\t00000000\t010200C0\t0000\t0\t0\t0\t00000000\t0\t0\t0\n", ""},
		{"rubbish", ""},
	} {
		if got := parseRoute(c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNetworksPutIPv4First(t *testing.T) {
	var addrs []net.Addr
	for _, s := range []string{"fe80::1/64", "2001:db8::5/64", "192.0.2.7/24"} {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	got := networks("eth0", addrs, 100)
	if len(got) != 2 || got[0].IP != "192.0.2.7" || got[0].CIDR != "192.0.2.7/32" || got[1].CIDR != "2001:db8::5/128" {
		t.Errorf("%+v", got)
	}
	if only := networks("eth0", addrs[:1], 100); len(only) != 1 || only[0].IP != "fe80::1" {
		t.Errorf("%+v", only)
	}
}
