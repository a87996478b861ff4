package networks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/networks/cni"
)

// The modes of a group's network.
const (
	modeNone   = "none"
	modeBridge = "bridge"
)

// interfaceName is the interface of an allocation in its namespace.
const interfaceName = "eth0"

// Config is the configuration of the networks of a node.
type Config struct {
	// Dir contains namespaces and leases; all agents of the host share it, and it must not survive a reboot.
	Dir string
	// NodeID names the agent in Dir.
	NodeID string
	// Bridge is the name of the bridge.
	Bridge string
	// Subnet and Subnet6 are the addresses of the bridge; an invalid Subnet6 means no IPv6.
	Subnet, Subnet6 netip.Prefix
	// Hairpin lets an allocation reach itself through its port of the bridge.
	Hairpin bool
	// Wildcard forwards ports of the default host network on all addresses of the host.
	Wildcard bool
	// CNI is for networks that plugins make. An empty RecordDir means a directory of Dir.
	CNI cni.Config
	Log hclog.Logger
}

// Default returns the configuration of a node that configures nothing.
func Default() Config {
	return Config{Dir: "/run/nomad/networks", Bridge: "nomad", Subnet: netip.MustParsePrefix("172.26.64.0/20"), Wildcard: true, CNI: cni.Default()}
}

// Check returns why the configuration is wrong.
func (c *Config) Check() error {
	var errs []error
	if !bridgeName.MatchString(c.Bridge) {
		errs = append(errs, fault.New(fault.Invalid, "bridge_network_name %q: a name has 1 to 15 letters, digits, dots, dashes and underscores, and begins with a letter", c.Bridge))
	}
	if !c.Subnet.IsValid() || !c.Subnet.Addr().Is4() || c.Subnet.Bits() > subnetBitsMax {
		errs = append(errs, fault.New(fault.Invalid, "bridge_network_subnet %q is no IPv4 network of at most %d bits, such as 172.26.64.0/20", c.Subnet, subnetBitsMax))
	}
	if c.Subnet6.IsValid() && (!c.Subnet6.Addr().Is6() || c.Subnet6.Bits() > subnet6BitsMax) {
		errs = append(errs, fault.New(fault.Invalid, "bridge_network_subnet_ipv6 %q is no IPv6 network of at most %d bits, such as fd00:a110::/64", c.Subnet6, subnet6BitsMax))
	}
	return errors.Join(errs...)
}

// Service makes and removes the networks of allocations.
type Service struct {
	conf     Config
	firewall *firewall
	cni      *cni.Service

	// mu is held while the bridge, the rules and the leases change.
	mu sync.Mutex
	// ready is set when the bridge and its rules were made, or verified, by this process.
	ready bool
	// leases are those of this agent by allocation; nil until they were read.
	leases map[string]*lease
	// next is the offset in the subnet where the search of a free address begins.
	next uint32
}

// New makes the service; nothing is read or made before it is used.
func New(c Config) *Service {
	c.Subnet, c.Subnet6 = c.Subnet.Masked(), c.Subnet6.Masked()
	c.CNI.RecordDir, c.CNI.Log = cmp.Or(c.CNI.RecordDir, filepath.Join(c.Dir, "cni", c.NodeID)), c.Log
	return &Service{conf: c, firewall: newFirewall(&c), cni: cni.New(c.CNI), next: firstOffset}
}

// modeOf is the mode of the network of an allocation; host when it asks for none.
func modeOf(a *api.Allocation) string {
	if g := a.Group(); g != nil && len(g.Networks) > 0 && g.Networks[0].Mode != "" {
		return g.Networks[0].Mode
	}
	return "host"
}

// Path returns the namespace that the tasks of the allocation run in; empty for that of the host.
func (s *Service) Path(a *api.Allocation) string {
	if modeOf(a) == "host" {
		return ""
	}
	return s.namespacePath(a.ID)
}

// Up makes the network of the allocation, or what is missing of it. The status is nil when the allocation has no address of its own.
func (s *Service) Up(ctx context.Context, a *api.Allocation) (*api.AllocNetworkStatus, error) {
	mode := modeOf(a)
	switch {
	case mode == "host":
		return nil, nil
	case mode == modeNone:
		return nil, s.makeNamespace(a.ID)
	case mode == modeBridge:
	case isCNI(a):
		return s.plug(ctx, a)
	default:
		return nil, fault.New(fault.Unimplemented, "network mode %q is not supported by this node", mode)
	}
	l, err := s.attach(ctx, a)
	if err != nil {
		return nil, err
	}
	status := &api.AllocNetworkStatus{InterfaceName: interfaceName, Address: l.IP.String()}
	if l.IP6.IsValid() {
		status.AddressIPv6 = l.IP6.String()
	}
	return status, nil
}

func (s *Service) attach(ctx context.Context, a *api.Allocation) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readLeases(); err != nil {
		return nil, err
	}
	if err := s.makeBridge(ctx); err != nil {
		return nil, err
	}
	l, found := s.leases[a.ID]
	if !found {
		ports, err := s.portsOf(a)
		if err != nil {
			return nil, err
		}
		if l, err = s.take(a.ID, ports); err != nil {
			return nil, err
		}
	}
	if !s.conf.Subnet.Contains(l.IP) { // the subnet of the configuration has changed; running tasks keep their addresses
		s.conf.Log.Warn("the address of an allocation is not in the subnet of the bridge: its network is left as it is", "alloc_id", a.ID, "address", l.IP, "subnet", s.conf.Subnet)
		return l, nil
	}
	err := both(func() error { return s.firewall.forward(ctx, l) }, func() error {
		if err := s.makeNamespace(a.ID); err != nil {
			return err
		}
		if err := s.connect(l); err != nil {
			return fmt.Errorf("connect to bridge %s: %w", s.conf.Bridge, err)
		}
		return s.writeFiles(a, l.ips(), a.Group().Networks[0].DNS)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// both runs two functions at once and returns the errors of both: a run of nft takes as long as all else.
func both(one, other func() error) error {
	done := make(chan error, 1)
	go func() { done <- one() }()
	err := other()
	return errors.Join(err, <-done)
}

// Down removes what Up made for the allocation, also when an earlier agent process has made it, or a part of it.
func (s *Service) Down(ctx context.Context, a *api.Allocation) error {
	if modeOf(a) == "host" {
		return nil
	}
	if isCNI(a) {
		if err := s.cni.Delete(ctx, a.ID); err != nil || s.cni.Has(a.ID) { // plugins need the namespace for another try
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readLeases(); err != nil {
		return err
	}
	return s.remove(ctx, a.ID)
}

func (s *Service) remove(ctx context.Context, allocID string) error {
	l := s.leases[allocID]
	if l != nil {
		if err := both(func() error { return s.firewall.unforward(ctx, l) }, func() error { return disconnect(allocID) }); err != nil {
			return err
		}
	}
	if err := errors.Join(s.removeFiles(allocID), s.removeNamespace(allocID)); err != nil {
		return err
	}
	if l != nil {
		return s.release(l)
	}
	return nil
}

// Restored removes what belongs to allocations that the agent does not know. It is called before any Up.
func (s *Service) Restored(ctx context.Context, known func(allocID string) bool) {
	plugged := s.unplug(ctx, known)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readLeases(); err != nil {
		s.conf.Log.Error("leftover networks are not removed", "error", err)
		return
	}
	lost := map[string]bool{}
	for id := range s.leases {
		lost[id] = !known(id)
	}
	files, err := os.ReadDir(filepath.Dir(s.namespacePath("x")))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.conf.Log.Error("leftover network namespaces are not removed", "error", err)
	}
	for _, f := range files {
		lost[f.Name()] = !known(f.Name())
	}
	removed := 0
	for id, is := range lost {
		if !is || s.cni.Has(id) {
			continue
		}
		if err := s.remove(ctx, id); err != nil {
			s.conf.Log.Error("leftover network is not removed", "alloc_id", id, "error", err)
			continue
		}
		removed++
	}
	links, err := s.removeLinks(known)
	if err != nil {
		s.conf.Log.Error("leftover links are not removed", "error", err)
	}
	rules, err := s.firewall.prune(ctx, s.leased)
	if err != nil {
		s.conf.Log.Error("leftover port forwardings are not removed", "error", err)
	}
	if removed+links+rules+plugged > 0 {
		s.conf.Log.Warn("removed leftovers of networks", "allocations", removed, "links", links, "port_forwardings", rules, "cni_networks", plugged)
	}
}
