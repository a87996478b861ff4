package networks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/soaktest"
)

// TestMain runs the tests in a network namespace of their own: the links and rules of the machine are not touched.
func TestMain(m *testing.M) {
	const mark = "NETWORKS_TEST_INSIDE"
	if os.Geteuid() != 0 || os.Getenv(mark) != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "networks")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), mark+"=1", "TMPDIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		_ = os.RemoveAll(dir)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	hostIP, peerIP   = "10.99.7.1", "10.99.7.2"
	hostIP6, peerIP6 = "fd99:7::1", "fd99:7::2"
)

var other struct {
	once sync.Once
	path string
}

// peer makes another host, which is a namespace with a link to this one, and returns the path of its namespace.
func peer(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := possible(); err != nil {
		t.Skip(err)
	}
	other.once.Do(func() {
		dir, err := os.MkdirTemp("", "nt-peer")
		must(t, err)
		s := New(Config{Dir: dir, NodeID: "peer"})
		must(t, s.makeNamespace("peer"))
		path := s.namespacePath("peer")
		ns, err := netns.GetFromPath(path)
		must(t, err)
		defer ns.Close()
		lo, err := netlink.LinkByName("lo")
		must(t, err)
		must(t, netlink.LinkSetUp(lo))
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "up1", PeerNamespace: netlink.NsFd(ns)}))
		outside, err := netlink.NewHandleAt(ns)
		must(t, err)
		defer outside.Close()
		inside, err := netlink.NewHandle()
		must(t, err)
		defer inside.Close()
		for name, h := range map[string]*netlink.Handle{"up0": inside, "up1": outside} {
			l, err := h.LinkByName(name)
			must(t, err)
			ips := []string{hostIP, hostIP6}
			if name == "up1" {
				ips = []string{peerIP, peerIP6}
			}
			must(t, addAddress(h, l, netip.MustParseAddr(ips[0]), 24))
			must(t, addAddress(h, l, netip.MustParseAddr(ips[1]), 64))
			must(t, h.LinkSetUp(l))
		}
		other.path = path
	})
	return other.path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service makes the service of a node; nodes of one dir are agents of one host.
func service(t testing.TB, dir, node string) *Service {
	t.Helper()
	s := New(Config{
		Dir: dir, NodeID: node, Bridge: "br" + node, Subnet: netip.MustParsePrefix("172.26.64.0/24"), Subnet6: netip.MustParsePrefix("fd00:a110::/64"),
		Wildcard: true, Log: hclog.NewNullLogger(),
	})
	t.Cleanup(func() {
		s.Restored(context.Background(), func(string) bool { return false })
		if l, err := netlink.LinkByName(s.conf.Bridge); err == nil {
			_ = netlink.LinkDel(l)
		}
		_ = exec.Command("nft", "delete", "table", "inet", s.firewall.table).Run()
	})
	return s
}

// again is the service of the same node in the next agent process.
func again(s *Service) *Service { return New(s.conf) }

func alloc(id, mode string, ports ...api.PortMapping) *api.Allocation {
	job := &api.Job{TaskGroups: []*api.TaskGroup{{Name: "g", Networks: []*api.NetworkResource{{Mode: mode}}}}}
	return &api.Allocation{ID: id, TaskGroup: "g", Job: job, AllocatedResources: &api.AllocatedResources{Shared: api.AllocatedSharedResources{Ports: ports}}}
}

func mapping(host string, value, to int) api.PortMapping {
	return api.PortMapping{Label: "p" + strconv.Itoa(value), HostIP: host, Value: value, To: to}
}

// in runs do in the namespace at the path; a thread that cannot return ends.
func in(path string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			ns, err := netns.GetFromPath(path)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := netns.Set(ns); err != nil {
				return err
			}
			return do()
		}()
	}()
	return <-done
}

// greet listens within the allocation and replies to each connection with a text.
func greet(t testing.TB, path string, port int, text string) {
	t.Helper()
	must(t, in(path, func() error {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		return nil
	}))
}

// ask returns what an address replies to a program of a namespace; an empty path is this host.
func ask(path, address string) (reply string, err error) {
	do := func() error {
		c, err := net.DialTimeout("tcp", address, 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		b, err := io.ReadAll(c)
		reply = string(b)
		return err
	}
	if path == "" {
		return reply, do()
	}
	err = in(path, do)
	return reply, err
}

func expect(t *testing.T, what, path, address, want string) {
	t.Helper()
	if got, err := ask(path, address); err != nil || got != want {
		t.Errorf("%s: %s replies %q, %v, want %q", what, address, got, err, want)
	}
}

func up(t testing.TB, s *Service, a *api.Allocation) *api.AllocNetworkStatus {
	t.Helper()
	status, err := s.Up(t.Context(), a)
	if err != nil {
		t.Fatalf("network of allocation %s: %v", a.ID, err)
	}
	return status
}

// left lists what exists on this host for allocations.
func left(t testing.TB, s *Service) (all []string) {
	t.Helper()
	links, err := allLinks()
	must(t, err)
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, linkPrefix) {
			all = append(all, "link "+l.Attrs().Name)
		}
	}
	rules, err := s.firewall.present(context.Background())
	must(t, err)
	for _, e := range rules {
		all = append(all, fmt.Sprintf("rule %v", e))
	}
	for _, pattern := range []string{"netns/*/*", "files/*/*", "leases/*/*", "leases/.*"} {
		files, err := filepath.Glob(filepath.Join(s.conf.Dir, pattern))
		must(t, err)
		all = append(all, files...)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if n := strings.Count(string(mounts), s.conf.Dir); n > 0 {
		all = append(all, fmt.Sprintf("%d mounts", n))
	}
	return all
}

func TestAllocationsAreReached(t *testing.T) {
	outside, s := peer(t), service(t, t.TempDir(), "reach")
	a := alloc("11111111-aaaa", modeBridge, mapping(hostIP, 25001, 8080), mapping(hostIP6, 25002, 0), mapping("127.0.0.1", 25003, 8080))
	a.AllocatedResources.Shared.Networks = []*api.NetworkResource{{DynamicPorts: []api.Port{{Label: "p25003", HostNetwork: "private"}}}}
	b := alloc("22222222-bbbb", modeBridge)
	network, second := up(t, s, a), up(t, s, b)
	if network.Address == second.Address || network.AddressIPv6 == "" || network.InterfaceName != "eth0" {
		t.Fatalf("networks %+v and %+v", network, second)
	}
	greet(t, s.Path(a), 8080, "a")
	greet(t, s.Path(a), 25002, "six")
	greet(t, outside, 7000, "outside")
	expect(t, "from another host", outside, hostIP+":25001", "a")
	expect(t, "from another host by IPv6", outside, "["+hostIP6+"]:25002", "six")
	expect(t, "from this host", "", hostIP+":25001", "a")
	expect(t, "from the loopback interface", "", "127.0.0.1:25001", "a")
	expect(t, "from a host network on the loopback interface", "", "127.0.0.1:25003", "a")
	expect(t, "from this host within the bridge", "", network.Address+":8080", "a")
	expect(t, "from another allocation by the port of the host", s.Path(b), hostIP+":25001", "a")
	expect(t, "from another allocation", s.Path(b), network.Address+":8080", "a")
	expect(t, "from another allocation by IPv6", s.Path(b), "["+network.AddressIPv6+"]:8080", "a")
	expect(t, "another host from the allocation", s.Path(a), peerIP+":7000", "outside")
	expect(t, "another host from the allocation by IPv6", s.Path(a), "["+peerIP6+"]:7000", "outside")
	if reply, err := ask(outside, hostIP+":25003"); err == nil {
		t.Errorf("a port of the host network on 127.0.0.1 replies %q to another host", reply)
	}
	must(t, s.Down(t.Context(), a))
	if reply, err := ask(outside, hostIP+":25001"); err == nil {
		t.Errorf("the port replies %q after the allocation has ended", reply)
	}
}

func TestNoneHasNoNetwork(t *testing.T) {
	peer(t)
	s := service(t, t.TempDir(), "none")
	a := alloc("33333333", modeNone)
	if status := up(t, s, a); status != nil {
		t.Errorf("status %+v", status)
	}
	greet(t, s.Path(a), 8080, "alone")
	expect(t, "itself", s.Path(a), "127.0.0.1:8080", "alone")
	if _, err := ask(s.Path(a), peerIP+":7000"); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("another host: %v", err)
	}
	must(t, s.Down(t.Context(), a))
	if all := left(t, s); len(all) > 0 {
		t.Error("left:", all)
	}
}

func TestNothingIsLeft(t *testing.T) {
	peer(t)
	s := service(t, t.TempDir(), "many")
	const count = 50
	each := func(do func(*api.Allocation) error) {
		var all sync.WaitGroup
		for i := range count {
			all.Go(func() {
				if err := do(alloc(fmt.Sprintf("%08d-many", i), modeBridge, mapping(hostIP, 26000+i, 80))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	for range soaktest.Rounds(2, 38) { // 20 in make soak
		each(func(a *api.Allocation) error { _, err := s.Up(t.Context(), a); return err })
		if n := len(left(t, s)); n < 4*count && !t.Failed() {
			t.Errorf("%d things exist for %d allocations", n, count)
		}
		each(func(a *api.Allocation) error { return s.Down(t.Context(), a) })
		if all := left(t, s); len(all) > 0 || t.Failed() {
			t.Fatal("left:", all)
		}
	}
}

// TestKilledBetweenSteps ends the agent after each step of Up. The next process removes what is there when it does not know the
// allocation, and completes it when it does.
func TestKilledBetweenSteps(t *testing.T) {
	outside := peer(t)
	a := alloc("44444444-kill", modeBridge, mapping(hostIP, 25010, 80))
	steps := []func(s *Service, l *lease) error{
		func(s *Service, l *lease) error { return nil },
		func(s *Service, _ *lease) error { return s.makeNamespace(a.ID) },
		func(s *Service, l *lease) error { return s.connect(l) },
		func(s *Service, l *lease) error { return s.firewall.forward(t.Context(), l) },
	}
	for known, name := range map[bool]string{false: "unknown", true: "known"} {
		for n := range len(steps) + 1 {
			t.Run(fmt.Sprintf("%s after %d", name, n), func(t *testing.T) {
				s := service(t, t.TempDir(), "kill")
				must(t, s.readLeases())
				must(t, s.makeBridge(t.Context()))
				ports, err := s.portsOf(a)
				must(t, err)
				if n > 0 {
					l, err := s.take(a.ID, ports)
					must(t, err)
					for _, step := range steps[:n] {
						must(t, step(s, l))
					}
				}
				next := again(s)
				next.Restored(t.Context(), func(string) bool { return known })
				if !known {
					if all := left(t, next); len(all) > 0 {
						t.Error("left:", all)
					}
					return
				}
				up(t, next, a)
				greet(t, next.Path(a), 80, "back")
				expect(t, "after the restart", outside, hostIP+":25010", "back")
				must(t, again(next).Down(t.Context(), a))
				if all := left(t, next); len(all) > 0 {
					t.Error("left:", all)
				}
			})
		}
	}
}

func TestRemovedBridgeIsRestored(t *testing.T) {
	outside, s := peer(t), service(t, t.TempDir(), "gone")
	a := alloc("55555555-gone", modeBridge, mapping(hostIP, 25020, 80))
	up(t, s, a)
	greet(t, s.Path(a), 80, "back")
	bridge, err := netlink.LinkByName(s.conf.Bridge)
	must(t, err)
	must(t, netlink.LinkDel(bridge))
	must(t, exec.Command("nft", "delete", "table", "inet", s.firewall.table).Run())
	if _, err := ask(outside, hostIP+":25020"); err == nil {
		t.Fatal("the port replies without a bridge")
	}
	up(t, s, alloc("66666666-next", modeBridge)) // the start of any allocation restores it
	expect(t, "after the start of another allocation", outside, hostIP+":25020", "back")
}

func TestPortsInUse(t *testing.T) {
	outside, dir := peer(t), t.TempDir()
	s, second := service(t, dir, "porta"), service(t, dir, "portb")
	second.conf.Subnet = netip.MustParsePrefix("172.26.65.0/24")
	first := alloc("77777777-port", modeBridge, mapping(hostIP, 25030, 80))
	up(t, s, first)
	greet(t, s.Path(first), 80, "first")
	l, err := net.Listen("tcp", hostIP+":25031")
	must(t, err)
	defer l.Close()
	for name, c := range map[string]struct {
		s    *Service
		port int
		want string
	}{
		"another allocation":          {s, 25030, "allocation 77777777-port of node porta already uses port 25030 of this host"},
		"another agent of the host":   {second, 25030, "allocation 77777777-port of node porta already uses port 25030 of this host"},
		"another program of the host": {s, 25031, "port 25031 of this host is not free: listen tcp"},
	} {
		a := alloc("88888888-port", modeBridge, mapping(hostIP, c.port, 80))
		if _, err := c.s.Up(t.Context(), a); err == nil || fault.Of(err) != fault.Conflict || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		must(t, c.s.Down(t.Context(), a))
	}
	expect(t, "the first", outside, hostIP+":25030", "first")
}

func TestAddressesAreNotUsedTwice(t *testing.T) {
	peer(t)
	s := service(t, t.TempDir(), "full")
	s.conf.Subnet = netip.MustParsePrefix("172.26.66.0/29")
	twin := again(s)
	twin.conf.NodeID = "twin"
	t.Cleanup(func() { twin.Restored(context.Background(), func(string) bool { return false }) })
	seen := map[string]bool{}
	for i := range 5 {
		of := s
		if i%2 == 1 {
			of = twin
		}
		network := up(t, of, alloc(fmt.Sprintf("9999999%d-full", i), modeBridge))
		if seen[network.Address] {
			t.Errorf("address %s is used twice", network.Address)
		}
		seen[network.Address] = true
	}
	if _, err := s.Up(t.Context(), alloc("99999999-full", modeBridge)); fault.Of(err) != fault.Exhausted {
		t.Errorf("a sixth allocation of a subnet of five addresses: %v", err)
	}
	must(t, s.Down(t.Context(), alloc("99999990-full", modeBridge)))
	up(t, twin, alloc("99999999-full", modeBridge))
}

func TestForeignInterfaceIsRefused(t *testing.T) {
	peer(t)
	s := service(t, t.TempDir(), "veth")
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: s.conf.Bridge}, PeerName: "veth1"}))
	if _, err := s.Up(t.Context(), alloc("aaaaaaaa", modeBridge)); err == nil || !strings.Contains(err.Error(), "is a veth, not a bridge: set another client.bridge_network_name") {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"bridge_network_name":        func(c *Config) { c.Bridge = "a/b" },
		"bridge_network_subnet":      func(c *Config) { c.Subnet = netip.MustParsePrefix("172.26.0.0/30") },
		"bridge_network_subnet_ipv6": func(c *Config) { c.Subnet6 = netip.MustParsePrefix("fd00::/120") },
		"":                           func(*Config) {},
	} {
		c := Default()
		change(&c)
		if err := c.Check(); (err != nil) != (want != "") || err != nil && !strings.HasPrefix(err.Error(), want+" ") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// BenchmarkBridge is what a network of mode bridge adds to the start of an allocation, and to its end.
func BenchmarkBridge(b *testing.B) {
	peer(b)
	s := service(b, b.TempDir(), "bench")
	a := alloc("bbbbbbbb-bench", modeBridge, mapping(hostIP, 25040, 80))
	up(b, s, alloc("cccccccc-bench", modeBridge))
	var ups, downs time.Duration
	const rounds = 20
	for b.Loop() {
		for range rounds {
			begin := time.Now()
			up(b, s, a)
			made := time.Now()
			must(b, s.Down(b.Context(), a))
			ups, downs = ups+made.Sub(begin), downs+time.Since(made)
		}
	}
	b.ReportMetric(ups.Seconds()*1000/float64(b.N*rounds), "ms/up")
	b.ReportMetric(downs.Seconds()*1000/float64(b.N*rounds), "ms/down")
}
