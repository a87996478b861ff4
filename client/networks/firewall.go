package networks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
)

// programWait bounds one run of nft or iptables.
const programWait = 10 * time.Second

// firewall forwards ports of the host to allocations, with nftables. Its table belongs to the bridge.
//
// The maps any4 and any6 hold ports on all addresses of the host, one4 and one6 those on one address. A packet needs one
// lookup, however many ports there are.
type firewall struct {
	table, bridge   string
	subnet, subnet6 netip.Prefix
	run             func(ctx context.Context, input string, program string, args ...string) ([]byte, error)
}

func newFirewall(c *Config) *firewall {
	return &firewall{table: "nomad_" + c.Bridge, bridge: c.Bridge, subnet: c.Subnet, subnet6: c.Subnet6, run: runProgram}
}

// runProgram runs a program with an input and returns its output; the error has the first line of what it said.
func runProgram(ctx context.Context, input, program string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, programWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return nil, fault.New(fault.Unavailable, "%s: %s: %w", program, line, err)
	}
	return out.Bytes(), nil
}

// rules are all rules of the bridge; the chains are emptied first, so that the script may be repeated. Rules of nat chains see
// the first packet of a connection only.
const rules = `table inet TABLE {
	map any4 { type inet_proto . inet_service : ipv4_addr . inet_service; }
	map one4 { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }
	map any6 { type inet_proto . inet_service : ipv6_addr . inet_service; }
	map one6 { type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service; }
	chain ports { }
	chain incoming { type nat hook prerouting priority -100; policy accept; }
	chain local { type nat hook output priority -100; policy accept; }
	chain outgoing { type nat hook postrouting priority 100; policy accept; }
	chain guard { type filter hook prerouting priority -300; policy accept; }
}
flush chain inet TABLE ports
flush chain inet TABLE incoming
flush chain inet TABLE local
flush chain inet TABLE outgoing
flush chain inet TABLE guard
table inet TABLE {
	chain ports {
		dnat ip to ip daddr . meta l4proto . th dport map @one4
		meta nfproto ipv4 dnat ip to meta l4proto . th dport map @any4
		dnat ip6 to ip6 daddr . meta l4proto . th dport map @one6
		meta nfproto ipv6 dnat ip6 to meta l4proto . th dport map @any6
	}
	chain incoming { fib daddr type local jump ports; }
	chain local { fib daddr type local jump ports; }
	chain outgoing {
		ip saddr SUBNET oifname != "BRIDGE" masquerade
		oifname "BRIDGE" ip saddr { SUBNET, 127.0.0.0/8 } ct status dnat masquerade
	}
	chain guard { iifname "BRIDGE" ip daddr 127.0.0.0/8 drop; }
}
`

// rules6 are added where the bridge has IPv6 addresses.
const rules6 = `table inet TABLE {
	chain outgoing {
		ip6 saddr SUBNET6 oifname != "BRIDGE" masquerade
		oifname "BRIDGE" ip6 saddr SUBNET6 ct status dnat masquerade
	}
}
`

// install makes the table and its rules.
func (f *firewall) install(ctx context.Context) error {
	script := rules
	if f.subnet6.IsValid() {
		script += rules6
	}
	script = strings.NewReplacer("TABLE", f.table, "SUBNET6", f.subnet6.String(), "SUBNET", f.subnet.String(), "BRIDGE", f.bridge).Replace(script)
	if _, err := f.run(ctx, script, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("install rules of bridge %s: %w", f.bridge, err)
	}
	return f.accept(ctx)
}

// accept lets packets of the bridge pass a firewall of iptables that drops what is forwarded, as that of Docker does.
func (f *firewall) accept(ctx context.Context) error {
	programs := []string{"iptables"}
	if f.subnet6.IsValid() {
		programs = append(programs, "ip6tables")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		out, err := f.run(ctx, "", program, "-w", "5", "-S", "FORWARD")
		if err != nil {
			continue // there is no such firewall
		}
		text := string(out)
		if !strings.Contains(text, "-P FORWARD DROP") {
			continue
		}
		for _, flag := range []string{"-i", "-o"} {
			if strings.Contains(text, "-A FORWARD "+flag+" "+f.bridge+" -j ACCEPT") {
				continue
			}
			if _, err := f.run(ctx, "", program, "-w", "5", "-I", "FORWARD", flag, f.bridge, "-j", "ACCEPT"); err != nil {
				return fmt.Errorf("accept packets of bridge %s: %w", f.bridge, err)
			}
		}
	}
	return nil
}

var protocols = []string{"tcp", "udp"}

// element is an entry of a map.
type element struct{ table, key, value string }

// concat is a concatenation in the JSON of nft.
type concat struct {
	Concat []any `json:"concat"`
}

func (c concat) text() string {
	parts := make([]string, len(c.Concat))
	for i, part := range c.Concat {
		parts[i] = fmt.Sprint(part)
	}
	return strings.Join(parts, " . ")
}

// elements are the entries for the ports of an allocation.
func (l *lease) elements() (out []element) {
	for _, p := range l.Ports {
		for _, proto := range protocols {
			key := proto + " . " + strconv.Itoa(p.Value)
			to4, to6 := fmt.Sprintf("%s . %d", l.IP, p.To), fmt.Sprintf("%s . %d", l.IP6, p.To)
			switch {
			case !p.IP.IsValid():
				out = append(out, element{"any4", key, to4})
				if l.IP6.IsValid() {
					out = append(out, element{"any6", key, to6})
				}
			case p.IP.Is4():
				out = append(out, element{"one4", p.IP.String() + " . " + key, to4})
			case l.IP6.IsValid():
				out = append(out, element{"one6", p.IP.String() + " . " + key, to6})
			}
		}
	}
	return out
}

// forward forwards the ports of an allocation.
func (f *firewall) forward(ctx context.Context, l *lease) error {
	elements := l.elements()
	if len(elements) == 0 {
		return nil
	}
	var script strings.Builder
	for _, e := range elements {
		fmt.Fprintf(&script, "add element inet %s %s { %s : %s }\n", f.table, e.table, e.key, e.value)
	}
	_, err := f.run(ctx, script.String(), "nft", "-f", "-")
	if err != nil && f.install(ctx) == nil { // the rules may have been removed
		_, err = f.run(ctx, script.String(), "nft", "-f", "-")
	}
	if err != nil {
		return fmt.Errorf("forward ports: %w", err)
	}
	return nil
}

// unforward ends that. Only entries that forward to this allocation are removed: another agent may use the port.
func (f *firewall) unforward(ctx context.Context, l *lease) error {
	own := l.elements()
	if len(own) == 0 {
		return nil
	}
	present, err := f.present(ctx)
	if err != nil {
		return fmt.Errorf("end forwarding of ports: %w", err)
	}
	return f.remove(ctx, slices.DeleteFunc(present, func(e element) bool { return !slices.Contains(own, e) }))
}

// remove removes entries that are present, in one transaction.
func (f *firewall) remove(ctx context.Context, elements []element) error {
	if len(elements) == 0 {
		return nil
	}
	var script strings.Builder
	for _, e := range elements {
		fmt.Fprintf(&script, "delete element inet %s %s { %s : %s }\n", f.table, e.table, e.key, e.value)
	}
	if _, err := f.run(ctx, script.String(), "nft", "-f", "-"); err != nil {
		return fmt.Errorf("end forwarding of ports: %w", err)
	}
	return nil
}

// present returns the entries of all maps.
func (f *firewall) present(ctx context.Context) (present []element, err error) {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, nil // nothing was ever made
	}
	out, err := f.run(ctx, "", "nft", "-j", "list", "tables")
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(out, []byte(strconv.Quote(f.table))) {
		return nil, nil
	}
	if out, err = f.run(ctx, "", "nft", "-j", "list", "table", "inet", f.table); err != nil {
		return nil, err
	}
	var list struct {
		Nftables []struct {
			Map *struct {
				Name string      `json:"name"`
				Elem [][2]concat `json:"elem"`
			} `json:"map"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fault.New(fault.Internal, "read the list of nft: %w", err)
	}
	for _, object := range list.Nftables {
		if object.Map == nil {
			continue
		}
		for _, e := range object.Map.Elem {
			present = append(present, element{table: object.Map.Name, key: e[0].text(), value: e[1].text()})
		}
	}
	return present, nil
}

// prune removes entries for addresses that no allocation has.
func (f *firewall) prune(ctx context.Context, leased func(netip.Addr) bool) (removed int, err error) {
	present, err := f.present(ctx)
	if err != nil {
		return 0, err
	}
	var lost []element
	for _, e := range present {
		to, _, _ := strings.Cut(e.value, " . ")
		if ip, err := netip.ParseAddr(to); err == nil && !leased(ip) {
			lost = append(lost, e)
		}
	}
	if len(lost) == 0 {
		return 0, nil
	}
	return len(lost), f.remove(ctx, lost)
}
