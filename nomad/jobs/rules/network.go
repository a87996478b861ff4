package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

const portMax = 65535

func (c *check) network(where string, g *api.TaskGroup) {
	c.wrong(len(g.Networks) > 1, "%s has %d networks, at most one is possible", where, len(g.Networks))
	labels, static := map[string]bool{}, map[string]string{}
	for _, n := range g.Networks {
		c.wrong(!slices.Contains([]string{"", "host", "bridge", "none"}, n.Mode) && !strings.HasPrefix(n.Mode, "cni/"),
			"%s: network mode %q is not host, bridge, none or cni/<name>", where, n.Mode)
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
