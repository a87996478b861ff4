package fingerprint

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const defaultSpeed = 1000 // MBit/s

func probeNetwork(_ context.Context, c *Config, n *api.Node) error {
	iface, err := chooseInterface(c.NetworkInterface)
	if err != nil {
		return err
	}
	addrs, err := iface.Addrs()
	if err != nil {
		return fmt.Errorf("addresses of interface %s: %w", iface.Name, err)
	}
	speed := linkSpeed(iface.Name)
	if c.NetworkSpeed > 0 {
		speed = c.NetworkSpeed
	}
	n.NodeResources.Networks = networks(iface.Name, addrs, speed)
	n.NodeResources.NodeNetworks = []*api.NodeNetwork{defaultNetwork(iface, speed, n.NodeResources.Networks)}
	if len(n.NodeResources.Networks) == 0 {
		return fault.New(fault.NotFound, "interface %s has no usable address", iface.Name)
	}
	n.Attributes["unique.network.ip-address"] = n.NodeResources.Networks[0].IP
	return nil
}

// networks makes one network per address, IPv4 first. Link-local addresses count only when there is no other.
func networks(device string, addrs []net.Addr, speed int) []*api.NetworkResource {
	var v4, v6, local []*api.NetworkResource
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		ip := p.Addr().WithZone("").Unmap()
		r := &api.NetworkResource{
			Mode: "host", Device: device, IP: ip.String(), MBits: speed,
			CIDR: netip.PrefixFrom(ip, ip.BitLen()).String(),
		}
		switch {
		case ip.IsLinkLocalUnicast():
			local = append(local, r)
		case ip.Is4():
			v4 = append(v4, r)
		default:
			v6 = append(v6, r)
		}
	}
	if all := append(v4, v6...); len(all) > 0 {
		return all
	}
	return local
}

// chooseInterface takes the named interface, else that of the default route, else the first that is up and
// has an address, else the loopback.
func chooseInterface(name string) (*net.Interface, error) {
	if name == "" {
		name = defaultRoute()
	}
	if name != "" {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fault.New(fault.NotFound, "network interface %q: %w", name, err)
		}
		return iface, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var loopback *net.Interface
	for i := range all {
		addrs, err := all[i].Addrs()
		if err != nil || len(addrs) == 0 || all[i].Flags&net.FlagUp == 0 {
			continue
		}
		if all[i].Flags&net.FlagLoopback == 0 {
			return &all[i], nil
		}
		loopback = &all[i]
	}
	if loopback == nil {
		return nil, fault.New(fault.NotFound, "no network interface is up and has an address")
	}
	return loopback, nil
}

func defaultRoute() string {
	b, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return ""
	}
	return parseRoute(string(b))
}

// parseRoute returns the interface of the default route with the lowest metric.
func parseRoute(text string) string {
	name, best := "", -1
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		flags, err := strconv.ParseUint(f[3], 16, 32)
		metric, err2 := strconv.Atoi(f[6])
		if err == nil && err2 == nil && flags&1 != 0 && (best < 0 || metric < best) {
			name, best = f[0], metric
		}
	}
	return name
}

func linkSpeed(device string) int {
	b, err := os.ReadFile("/sys/class/net/" + device + "/speed")
	if err != nil {
		return defaultSpeed
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n > 0 {
		return n
	}
	return defaultSpeed
}
