package kit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Lab is a private network of hosts. Its bridge belongs to the machine, so that tests reach every
// host; each host has a network namespace of its own and shares all else.
type Lab struct {
	// Dir holds a directory per host, and what hosts share.
	Dir string
	// ACL is whether the agents run with access control.
	ACL bool

	tb     testing.TB
	name   string
	subnet string
	hosts  []*Host
}

var labs atomic.Int32

// NewLab makes an empty lab, which is removed when the test ends with all that its hosts left.
func NewLab(tb testing.TB) *Lab {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("network namespaces need root")
	}
	binary(tb)
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			tb.Skipf("hosts need the program %s", tool)
		}
	}
	n := int(labs.Add(1))
	if n == 1 {
		Sweep(tb)
	}
	l := &Lab{tb: tb, ACL: ACL, name: fmt.Sprintf("k%xx%x", os.Getpid(), n)}
	// Short, because unix socket paths are.
	dir, err := os.MkdirTemp("", l.name)
	if err != nil {
		tb.Fatal(err)
	}
	l.Dir = dir
	tb.Cleanup(l.remove)
	if out, err := ip("link", "add", l.bridge(), "type", "bridge"); err != nil {
		tb.Skipf("network namespaces do not work here: %v: %s", err, out)
	}
	l.settle(os.Getpid() + n*7)
	l.ip("link", "set", l.bridge(), "up")
	return l
}

// settle gives the bridge a network that no other lab has: each of them, in whatever process, takes its own in turn.
func (l *Lab) settle(seed int) {
	l.tb.Helper()
	turn, err := os.OpenFile(filepath.Join(os.TempDir(), "e2e-labs.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		defer turn.Close()
		err = syscall.Flock(int(turn.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		l.tb.Fatal(err)
	}
	l.subnet = freeSubnet(l.tb, seed)
	l.ip("addr", "add", l.address(1)+"/24", "dev", l.bridge())
}

// freeSubnet picks a private network that no interface of the machine is in.
func freeSubnet(tb testing.TB, seed int) string {
	tb.Helper()
	used, err := net.InterfaceAddrs()
	if err != nil {
		tb.Fatal(err)
	}
	for i := range 256 {
		subnet := fmt.Sprintf("10.%d.%d", 100+(seed/251)%100, (seed+i)%251)
		free := true
		for _, a := range used {
			if p, ok := a.(*net.IPNet); ok && p.Contains(net.ParseIP(subnet+".1")) {
				free = false
			}
		}
		if free {
			return subnet
		}
	}
	tb.Skip("no private network is free")
	return ""
}

func (l *Lab) bridge() string           { return l.name + "b" }
func (l *Lab) address(n int) string     { return fmt.Sprintf("%s.%d", l.subnet, n) }
func (l *Lab) space(name string) string { return l.name + "-" + name }

// Path is a file or directory of the lab.
func (l *Lab) Path(name string) string  { return filepath.Join(l.Dir, name) }
func ip(args ...string) (string, error) { return run("ip", args...) }

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// ip must succeed.
func (l *Lab) ip(args ...string) {
	l.tb.Helper()
	if out, err := ip(args...); err != nil {
		l.tb.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// Host makes a host with a network of its own. Nothing runs there yet.
func (l *Lab) Host(name string) *Host {
	l.tb.Helper()
	n := len(l.hosts)
	h := &Host{
		Agent: &Agent{Dir: l.Path(name), Binary: binary(l.tb), tb: l.tb},
		Name:  name, IP: l.address(n + 10), lab: l, port: fmt.Sprintf("%sp%d", l.name, n),
	}
	if err := os.Mkdir(h.Dir, 0o700); err != nil {
		l.tb.Fatal(err)
	}
	h.config = filepath.Join(h.Dir, "agent.hcl")
	l.hosts = append(l.hosts, h)
	l.tb.Cleanup(h.remove)

	space := l.space(name)
	l.ip("netns", "add", space)
	l.ip("link", "add", h.port, "type", "veth", "peer", "name", "eth0", "netns", space)
	l.ip("link", "set", h.port, "master", l.bridge(), "up")
	l.ip("-n", space, "addr", "add", h.IP+"/24", "dev", "eth0")
	l.ip("-n", space, "link", "set", "lo", "up")
	l.ip("-n", space, "link", "set", "eth0", "up")
	l.ip("-n", space, "route", "add", "default", "via", l.address(1))
	return h
}

// nowhere is a hardware address that no host has.
const nowhere = "02:00:00:00:00:01"

// Partition makes two hosts lose what they send to each other; connections stall.
func (l *Lab) Partition(a, b *Host) {
	l.tb.Helper()
	l.ip("-n", l.space(a.Name), "neigh", "replace", b.IP, "lladdr", nowhere, "nud", "permanent", "dev", "eth0")
	l.ip("-n", l.space(b.Name), "neigh", "replace", a.IP, "lladdr", nowhere, "nud", "permanent", "dev", "eth0")
}

// Join ends a partition.
func (l *Lab) Join(a, b *Host) {
	l.tb.Helper()
	l.ip("-n", l.space(a.Name), "neigh", "del", b.IP, "dev", "eth0")
	l.ip("-n", l.space(b.Name), "neigh", "del", a.IP, "dev", "eth0")
}

// remove runs after the hosts were removed.
func (l *Lab) remove() {
	for _, h := range l.hosts {
		_, _ = ip("link", "del", h.port)
		_, _ = ip("netns", "del", l.space(h.Name))
	}
	_, _ = ip("link", "del", l.bridge())
	// What hosts share may still be mounted when a test failed half way.
	rest := &Agent{Dir: l.Dir, tb: l.tb}
	rest.clean()
}
