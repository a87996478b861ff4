package rules

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

const (
	portMax    = 65535
	modeBridge = "bridge"
)

// hostName matches the host names that tasks may have: Linux has at most 64 characters.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$`)

// cniMode matches the modes of CNI networks.
var cniMode = regexp.MustCompile(`^cni/[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func (c *check) network(where string, g *api.TaskGroup) {
	c.wrong(len(g.Networks) > 1, "%s has %d networks, at most one is possible", where, len(g.Networks))
	labels, static := map[string]bool{}, map[string]string{}
	for _, n := range g.Networks {
		c.wrong(!slices.Contains([]string{"", "host", "bridge", "none"}, n.Mode) && !cniMode.MatchString(n.Mode),
			"%s: network mode %q is not host, bridge, none or cni/<name>", where, n.Mode)
		c.wrong(n.Hostname != "" && !hostName.MatchString(n.Hostname), "%s: network hostname %q is no host name of at most 64 characters", where, brief(n.Hostname))
		c.dns(where, n.DNS)
		c.cni(where, n.CNI)
		c.atMost(n.MBits, QuantityMax, "%s: network mbits", where)
		for _, p := range n.ReservedPorts {
			c.wrong(p.Value == 0, "%s: reserved port %q has no static number", where, p.Label)
		}
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			c.wrong(p.Label == "", "%s: a port has no name", where)
			c.wrong(labels[p.Label], "%s: port %q is there twice", where, p.Label)
			labels[p.Label] = true
			c.wrong(p.Value < 0 || p.Value > portMax, "%s: port %q: %d is not a port", where, p.Label, p.Value)
			c.wrong(p.To < -1 || p.To > portMax, "%s: port %q: to = %d is not a port", where, p.Label, p.To)
			c.wrong(p.IgnoreCollision && n.Mode != "" && n.Mode != "host", "%s: port %q: ignore_collision is for network mode host", where, p.Label)
			c.collides(where, p, static)
		}
	}
}

// collides refuses two static ports with one number in one host network.
func (c *check) collides(where string, p api.Port, static map[string]string) {
	if p.Value <= 0 || p.IgnoreCollision {
		return
	}
	key := cmp.Or(p.HostNetwork, defaultNetwork) + ":" + strconv.Itoa(p.Value)
	c.wrong(static[key] != "", "%s: ports %q and %q are both %d", where, static[key], p.Label, p.Value)
	static[key] = p.Label
}

// cni checks the arguments of plugins, which become one text: K=V;K=V.
func (c *check) cni(where string, n *api.CNIConfig) {
	if n == nil {
		return
	}
	for key, value := range n.Args {
		c.wrong(key == "" || strings.ContainsAny(key+value, ";=\x00"), "%s: cni argument %q is empty, or it or its value contains \";\" or \"=\"", where, brief(key))
	}
}

// dns checks what becomes lines of resolv.conf.
func (c *check) dns(where string, d *api.DNSConfig) {
	if d == nil {
		return
	}
	for _, server := range d.Servers {
		_, err := netip.ParseAddr(server)
		c.wrong(err != nil, "%s: dns server %q is no IP address", where, brief(server))
	}
	for _, word := range slices.Concat(d.Searches, d.Options) {
		c.wrong(word == "" || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r == 0x7f }), "%s: dns: %q is empty or has spaces", where, brief(word))
	}
}
