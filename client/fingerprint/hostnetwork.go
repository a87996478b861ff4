package fingerprint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// defaultAlias is the host network of ports that name none.
const defaultAlias = "default"

// defaultNetwork describes the interface that tasks get their address from.
func defaultNetwork(iface *net.Interface, speed int, addresses []*api.NetworkResource) *api.NodeNetwork {
	out := &api.NodeNetwork{Mode: "host", Device: iface.Name, MacAddress: iface.HardwareAddr.String(), Speed: speed}
	for _, a := range addresses {
		out.Addresses = append(out.Addresses, &api.NodeNetworkAddress{Alias: defaultAlias, Address: a.IP, Family: familyOf(netip.MustParseAddr(a.IP))})
	}
	return out
}

func familyOf(ip netip.Addr) string {
	if ip.Is4() {
		return "ipv4"
	}
	return "ipv6"
}

// device is an interface of the host with its addresses.
type device struct {
	name, mac string
	speed     int
	addresses []netip.Addr
}

// probeHostNetworks finds the addresses of the configured host networks.
func probeHostNetworks(_ context.Context, c *Config, n *api.Node) error {
	if len(c.HostNetworks) == 0 {
		return nil
	}
	n.HostNetworks = c.HostNetworks
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	var devices []device
	for i := range all {
		d := device{name: all[i].Name, mac: all[i].HardwareAddr.String(), speed: cmp.Or(c.NetworkSpeed, linkSpeed(all[i].Name))}
		addrs, err := all[i].Addrs()
		if err != nil || all[i].Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				d.addresses = append(d.addresses, p.Addr().WithZone("").Unmap())
			}
		}
		devices = append(devices, d)
	}
	return addHostNetworks(n, c.HostNetworks, devices)
}

// addHostNetworks adds an address to each host network that it belongs to. A configured network "default"
// replaces the one that was found.
func addHostNetworks(n *api.Node, configured map[string]*api.HostNetworkInfo, devices []device) error {
	if configured[defaultAlias] != nil {
		for _, net := range n.NodeResources.NodeNetworks {
			net.Addresses = slices.DeleteFunc(net.Addresses, func(a *api.NodeNetworkAddress) bool { return a.Alias == defaultAlias })
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		h, found := configured[name], false
		within, err := prefixOf(h)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, d := range devices {
			if h.Interface != "" && h.Interface != d.name {
				continue
			}
			for _, ip := range d.addresses {
				if within.IsValid() && !within.Contains(ip) || !within.IsValid() && ip.IsLinkLocalUnicast() {
					continue
				}
				entry := networkOf(n.NodeResources, d)
				entry.Addresses = append(entry.Addresses, &api.NodeNetworkAddress{
					Alias: name, Address: ip.String(), Family: familyOf(ip), ReservedPorts: h.ReservedPorts,
				})
				found = true
			}
		}
		if !found {
			errs = append(errs, fault.New(fault.NotFound, "host network %q: no address of this host belongs to it", name))
		}
	}
	return errors.Join(errs...)
}

// prefixOf is the range of addresses of a host network; invalid when it names an interface only.
func prefixOf(h *api.HostNetworkInfo) (netip.Prefix, error) {
	if h.CIDR == "" {
		if h.Interface == "" {
			return netip.Prefix{}, fault.New(fault.Invalid, "host network %q names neither cidr nor interface", h.Name)
		}
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(h.CIDR)
	if err != nil {
		return p, fault.New(fault.Invalid, "host network %q: cidr %q: %w", h.Name, h.CIDR, err)
	}
	return p.Masked(), nil
}

func networkOf(r *api.NodeResources, d device) *api.NodeNetwork {
	i := slices.IndexFunc(r.NodeNetworks, func(n *api.NodeNetwork) bool { return n.Device == d.name })
	if i >= 0 {
		return r.NodeNetworks[i]
	}
	n := &api.NodeNetwork{Mode: "host", Device: d.name, MacAddress: d.mac, Speed: d.speed}
	r.NodeNetworks = append(r.NodeNetworks, n)
	return n
}
