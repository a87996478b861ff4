package networks

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// firstOffset is the first address of a subnet for allocations: the one before is that of the bridge.
	firstOffset    = 2
	subnetBitsMax  = 29
	subnet6BitsMax = 112
)

var bridgeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`)

// lease is the address of an allocation and the ports that are forwarded to it.
type lease struct {
	Alloc string
	Node  string
	IP    netip.Addr
	IP6   netip.Addr
	Ports []port

	file string
}

// ips are the addresses of the allocation.
func (l *lease) ips() []netip.Addr {
	if l.IP6.IsValid() {
		return []netip.Addr{l.IP, l.IP6}
	}
	return []netip.Addr{l.IP}
}

// port is a port of the host that is forwarded to the port To of the allocation.
type port struct {
	Label string
	// IP is the address of the host; invalid for all of its addresses.
	IP    netip.Addr
	Value int
	To    int
}

// conflicts reports whether both are the same port of the host.
func (p port) conflicts(o port) bool {
	return p.Value == o.Value && (p.IP == o.IP || !p.IP.IsValid() || !o.IP.IsValid())
}

// portsOf returns the ports of an allocation.
func (s *Service) portsOf(a *api.Allocation) ([]port, error) {
	if a.AllocatedResources == nil {
		return nil, nil
	}
	shared, named := a.AllocatedResources.Shared, map[string]bool{}
	for _, n := range shared.Networks {
		for _, list := range [][]api.Port{n.ReservedPorts, n.DynamicPorts} {
			for _, p := range list {
				named[p.Label] = p.HostNetwork != "" && p.HostNetwork != "default"
			}
		}
	}
	var out []port
	for _, p := range shared.Ports {
		ip, err := netip.ParseAddr(p.HostIP)
		if err != nil {
			return nil, fault.New(fault.Invalid, "port %q: %q is no address of this host", p.Label, p.HostIP)
		}
		made := port{Label: p.Label, IP: ip, Value: p.Value, To: p.To}
		if s.conf.Wildcard && !named[p.Label] && ip.Is4() {
			made.IP = netip.Addr{}
		}
		if ip.Is6() && modeOf(a) == modeBridge && !s.conf.Subnet6.IsValid() {
			return nil, fault.New(fault.Invalid, "port %q: %s of this host is an IPv6 address and the bridge has none: set client.bridge_network_subnet_ipv6", p.Label, ip)
		}
		if made.To <= 0 {
			made.To = made.Value
		}
		out = append(out, made)
	}
	return out, nil
}

func (s *Service) leaseDir() string { return filepath.Join(s.conf.Dir, "leases", s.conf.Bridge) }

// readLeases reads the leases of this agent once.
func (s *Service) readLeases() error {
	if s.leases != nil {
		return nil
	}
	leases, err := s.allLeases()
	if err != nil {
		return err
	}
	maps.DeleteFunc(leases, func(_ string, l *lease) bool { return l.Node != s.conf.NodeID })
	s.leases = leases
	return nil
}

// allLeases reads the leases of all agents of the host.
func (s *Service) allLeases() (map[string]*lease, error) {
	files, err := filepath.Glob(filepath.Join(s.conf.Dir, "leases", "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("read network leases: %w", err)
	}
	leases := map[string]*lease{}
	for _, f := range files {
		l, err := readLease(f)
		if err != nil {
			return nil, err
		}
		if l != nil {
			leases[l.Alloc] = l
		}
	}
	return leases, nil
}

// readLease returns nil when the file does not exist any more, or holds no lease.
func readLease(file string) (*lease, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read network lease: %w", err)
	}
	l := &lease{file: file}
	if json.Unmarshal(b, l) != nil || l.Alloc == "" {
		return nil, nil
	}
	return l, nil
}

// leased reports whether any agent of the host uses the address, which is one of the bridge's subnets.
func (s *Service) leased(ip netip.Addr) bool {
	if ip.Is6() {
		if !s.conf.Subnet6.IsValid() || !s.conf.Subnet6.Contains(ip) {
			return true
		}
		b, base := ip.As16(), s.conf.Subnet6.Addr().As16()
		ip = at4(s.conf.Subnet, binary.BigEndian.Uint32(b[12:])-binary.BigEndian.Uint32(base[12:]))
	}
	_, err := os.Lstat(filepath.Join(s.leaseDir(), ip.String()))
	return !errors.Is(err, os.ErrNotExist)
}

// take records a free address for an allocation.
func (s *Service) take(allocID string, ports []port) (*lease, error) {
	var all map[string]*lease
	if len(ports) > 0 {
		var err error
		if all, err = s.allLeases(); err != nil {
			return nil, err
		}
	}
	for _, p := range ports {
		for _, other := range all {
			for _, o := range other.Ports {
				if p.conflicts(o) {
					return nil, fault.New(fault.Conflict, "port %q: allocation %s of node %s already uses port %d of this host", p.Label, other.Alloc, other.Node, p.Value)
				}
			}
		}
		if err := unused(p); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.leaseDir(), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of network leases: %w", err)
	}
	size := uint32(1) << (32 - s.conf.Subnet.Bits())
	count := size - firstOffset - 1 // the last address is that of broadcasts
	for i := range count {
		offset := firstOffset + (s.next-firstOffset+i)%count
		l := &lease{Alloc: allocID, Node: s.conf.NodeID, IP: at4(s.conf.Subnet, offset), Ports: ports}
		if s.conf.Subnet6.IsValid() {
			l.IP6 = at6(s.conf.Subnet6, offset)
		}
		l.file = filepath.Join(s.leaseDir(), l.IP.String())
		switch err := writeNew(l.file, allocID, l); {
		case err == nil:
			s.leases[allocID], s.next = l, offset+1
			return l, nil
		case !errors.Is(err, os.ErrExist):
			return nil, fmt.Errorf("record network lease: %w", err)
		}
	}
	return nil, fault.New(fault.Exhausted, "no address of subnet %s is free: set a larger client.bridge_network_subnet", s.conf.Subnet)
}

// writeNew writes a file at once, and fails when it exists.
func writeNew(file, unique string, l *lease) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(filepath.Dir(file)), "."+filepath.Base(unique))
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return err
	}
	defer os.Remove(temp)
	return os.Link(temp, file)
}

func (s *Service) release(l *lease) error {
	if err := os.Remove(l.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("release network lease: %w", err)
	}
	delete(s.leases, l.Alloc)
	return nil
}

// unused returns an error when a program of the host listens on the port.
func unused(p port) error {
	host := ""
	if p.IP.IsValid() {
		host = p.IP.String()
	}
	address := net.JoinHostPort(host, strconv.Itoa(p.Value))
	l, err := net.Listen("tcp", address)
	if err == nil {
		err = l.Close()
	}
	if err == nil {
		var u net.PacketConn
		if u, err = net.ListenPacket("udp", address); err == nil {
			err = u.Close()
		}
	}
	if err != nil {
		return fault.New(fault.Conflict, "port %q: port %d of this host is not free: %w", p.Label, p.Value, err)
	}
	return nil
}

func at4(p netip.Prefix, offset uint32) netip.Addr {
	b := p.Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+offset)
	return netip.AddrFrom4(b)
}

func at6(p netip.Prefix, offset uint32) netip.Addr {
	b := p.Addr().As16()
	binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(b[12:])+offset)
	return netip.AddrFrom16(b)
}
