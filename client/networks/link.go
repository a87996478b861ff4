package networks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// netlinkWait bounds the wait for the kernel's reply.
const netlinkWait = 10 * time.Second

// linkPrefix begins the names of the host's ends of links.
const linkPrefix = "nm-"

// linkName is the host's end of the link of an allocation: at most 15 characters.
func linkName(allocID string) string {
	id := strings.ReplaceAll(allocID, "-", "")
	return linkPrefix + id[:min(len(id), 12)]
}

// aliasOf is the alias of the host's end, by which a link without lease is recognised.
func (s *Service) aliasOf(allocID string) string { return "nomad:" + s.conf.NodeID + ":" + allocID }

// makeBridge makes the bridge and its rules unless this process has seen them and the bridge still exists.
func (s *Service) makeBridge(ctx context.Context) error {
	l, err := netlink.LinkByName(s.conf.Bridge)
	if err == nil && s.ready {
		return nil
	}
	var missing netlink.LinkNotFoundError
	gateway := at4(s.conf.Subnet, 1)
	switch {
	case errors.As(err, &missing):
		// An address of its own keeps the bridge from changing it with its ports.
		b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: s.conf.Bridge, HardwareAddr: hardware(gateway)}}
		if err = netlink.LinkAdd(b); err == nil || errors.Is(err, unix.EEXIST) {
			l, err = netlink.LinkByName(s.conf.Bridge)
		}
	case err == nil && l.Type() != "bridge":
		return fault.New(fault.Conflict, "interface %s of this host is a %s, not a bridge: set another client.bridge_network_name", s.conf.Bridge, l.Type())
	}
	if err == nil {
		err = addAddress(nil, l, gateway, s.conf.Subnet.Bits())
	}
	if err == nil && s.conf.Subnet6.IsValid() {
		err = errors.Join(setting("net/ipv6/conf/"+s.conf.Bridge+"/disable_ipv6", "0"), setting("net/ipv6/conf/"+s.conf.Bridge+"/accept_dad", "0"), addAddress(nil, l, at6(s.conf.Subnet6, 1), s.conf.Subnet6.Bits()))
	}
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err == nil {
		err = s.routeSettings()
	}
	if err != nil {
		return fmt.Errorf("make bridge %s: %w", s.conf.Bridge, err)
	}
	if err := s.firewall.install(ctx); err != nil {
		return err
	}
	for _, other := range s.leases { // the bridge, or the rules, may have been removed under running tasks
		if err := s.reattach(ctx, other); err != nil {
			s.conf.Log.Warn("the network of an allocation is not restored", "alloc_id", other.Alloc, "error", err)
		}
	}
	s.ready = true
	return nil
}

// reattach connects an allocation to a bridge that was made again.
func (s *Service) reattach(ctx context.Context, l *lease) error {
	if !isNamespace(s.namespacePath(l.Alloc)) || !s.conf.Subnet.Contains(l.IP) {
		return nil
	}
	if err := s.connect(l); err != nil {
		return err
	}
	return s.firewall.forward(ctx, l)
}

// routeSettings lets the host forward packets of the bridge.
func (s *Service) routeSettings() error {
	errs := []error{
		setting("net/ipv4/ip_forward", "1"),
		setting("net/ipv4/conf/"+s.conf.Bridge+"/route_localnet", "1"), // ports of 127.0.0.1 are forwarded, too
	}
	if s.conf.Subnet6.IsValid() {
		// A host that forwards ignores router advertisements, from which it may have its own address, unless they are forced.
		links, err := os.ReadDir("/proc/sys/net/ipv6/conf")
		errs = append(errs, err)
		for _, l := range links {
			if b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + l.Name() + "/accept_ra"); err == nil && strings.TrimSpace(string(b)) == "1" {
				errs = append(errs, setting("net/ipv6/conf/"+l.Name()+"/accept_ra", "2"))
			}
		}
		errs = append(errs, setting("net/ipv6/conf/all/forwarding", "1"))
	}
	return errors.Join(errs...)
}

// setting writes a setting of the kernel unless it has the value.
func setting(name, value string) error {
	path := "/proc/sys/" + name
	if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}

// hardware makes the hardware address of an address: an address that is used again has the one that neighbours have cached.
func hardware(ip netip.Addr) net.HardwareAddr {
	b := ip.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// addAddress adds an address to a link; h is nil for the host.
func addAddress(h *netlink.Handle, l netlink.Link, ip netip.Addr, bits int) error {
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}}
	if ip.Is6() {
		a.Flags = unix.IFA_F_NODAD // no other link of the bridge has it
	}
	if h == nil {
		return netlink.AddrReplace(l, a)
	}
	return h.AddrReplace(l, a)
}

// connect makes the link between the namespace of an allocation and the bridge, as far as it is missing.
func (s *Service) connect(l *lease) error {
	bridge, err := netlink.LinkByName(s.conf.Bridge)
	if err != nil {
		return err
	}
	ns, err := netns.GetFromPath(s.namespacePath(l.Alloc))
	if err != nil {
		return err
	}
	defer ns.Close()
	name := linkName(l.Alloc)
	host, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		err = netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name, MTU: bridge.Attrs().MTU, Alias: s.aliasOf(l.Alloc), MasterIndex: bridge.Attrs().Index},
			PeerName:  interfaceName, PeerHardwareAddr: hardware(l.IP), PeerNamespace: netlink.NsFd(ns),
		})
		if err == nil {
			host, err = netlink.LinkByName(name)
		}
	}
	if err != nil {
		return err
	}
	if host.Attrs().MasterIndex != bridge.Attrs().Index {
		if err := netlink.LinkSetMaster(host, bridge); err != nil {
			return err
		}
	}
	if s.conf.Hairpin {
		if err := netlink.LinkSetHairpin(host, true); err != nil {
			return err
		}
	}
	if host.Attrs().Alias == "" {
		if err := netlink.LinkSetAlias(host, s.aliasOf(l.Alloc)); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return err
	}
	return s.configure(l, ns)
}

// configure gives the interface in the namespace its addresses and routes.
func (s *Service) configure(l *lease, ns netns.NsHandle) error {
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.SetSocketTimeout(netlinkWait); err != nil {
		return err
	}
	inside, err := h.LinkByName(interfaceName)
	if err != nil {
		return fmt.Errorf("interface %s of the allocation: %w", interfaceName, err)
	}
	type family struct {
		ip, gateway netip.Addr
		bits        int
	}
	families := []family{{l.IP, at4(s.conf.Subnet, 1), s.conf.Subnet.Bits()}}
	if l.IP6.IsValid() && s.conf.Subnet6.IsValid() {
		families = append(families, family{l.IP6, at6(s.conf.Subnet6, 1), s.conf.Subnet6.Bits()})
	}
	for _, f := range families {
		if err := addAddress(h, inside, f.ip, f.bits); err != nil {
			return fmt.Errorf("address %s: %w", f.ip, err)
		}
	}
	if err := h.LinkSetUp(inside); err != nil {
		return err
	}
	for _, f := range families {
		if err := h.RouteReplace(&netlink.Route{LinkIndex: inside.Attrs().Index, Gw: f.gateway.AsSlice()}); err != nil {
			return fmt.Errorf("default route by %s: %w", f.gateway, err)
		}
	}
	return nil
}

// disconnect removes the link of an allocation; both ends are removed.
func disconnect(allocID string) error {
	l, err := netlink.LinkByName(linkName(allocID))
	if err == nil {
		err = netlink.LinkDel(l)
	}
	var missing netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &missing) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", linkName(allocID), err)
	}
	return nil
}

// listTries is how often the links are listed when others change them meanwhile.
const listTries = 20

// allLinks lists the links of the host.
func allLinks() (links []netlink.Link, err error) {
	for range listTries {
		if links, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return links, err
		}
	}
	return nil, fmt.Errorf("list links: %w", err)
}

// removeLinks removes links of this agent to allocations that it does not know.
func (s *Service) removeLinks(known func(allocID string) bool) (removed int, err error) {
	links, err := allLinks()
	if err != nil {
		return 0, err
	}
	for _, l := range links {
		id, ours := strings.CutPrefix(l.Attrs().Alias, s.aliasOf(""))
		if !ours || known(id) {
			continue
		}
		if err := netlink.LinkDel(l); err != nil {
			return removed, fmt.Errorf("remove link %s: %w", l.Attrs().Name, err)
		}
		removed++
	}
	return removed, nil
}
