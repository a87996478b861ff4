package member

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/hashicorp/serf/serf"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

const (
	roleServer    = "nomad"
	statusAlive   = "alive"
	statusLeaving = "leaving"
	statusFailed  = "failed"
	statusLeft    = "left"
)

// server is a member as its tags describe it.
type server struct {
	id, name, region, rpc, build, status string
	expect                               int
	version                              uint64
}

// tags describe how to reach this server.
func (m *Members) tags() map[string]string {
	host, port, _ := net.SplitHostPort(m.conf.RPC)
	tags := map[string]string{
		"role": roleServer, "region": m.conf.Region, "dc": m.conf.Datacenter, "id": m.conf.ID, "build": m.conf.Build,
		"port": port, "rpc_addr": host, "raft_vsn": "3", "vsn": strconv.FormatUint(fsm.Version, 10), "revision": "",
	}
	if m.conf.Expect == 1 {
		tags["bootstrap"] = "1"
	}
	if m.conf.Expect > 0 {
		tags["expect"] = strconv.Itoa(m.conf.Expect)
	}
	return tags
}

// parse reads a member; a member without the tags of a server is none.
func parse(x serf.Member) (server, bool) {
	if x.Tags["role"] != roleServer || x.Tags["id"] == "" || x.Tags["port"] == "" {
		return server{}, false
	}
	host := x.Tags["rpc_addr"]
	if host == "" {
		host = x.Addr.String()
	}
	expect, _ := strconv.Atoi(x.Tags["expect"])
	return server{
		id: x.Tags["id"], name: x.Name, region: x.Tags["region"], rpc: net.JoinHostPort(host, x.Tags["port"]),
		build: x.Tags["build"], status: x.Status.String(), expect: expect, version: versionOf(x.Tags["vsn"]),
	}, true
}

// listed are all members, this server among them.
func (m *Members) listed() []serf.Member {
	if m.pool != nil {
		return m.pool.Members()
	}
	host, port, _ := hostPort(m.conf.RPC)
	return []serf.Member{{
		Name: m.ownName(), Addr: net.ParseIP(host), Port: uint16(port), Tags: m.tags(), Status: serf.StatusAlive, //nolint:gosec // a port
		ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
	}}
}

// servers are those of one region.
func (m *Members) servers(region string) []server {
	var out []server
	for _, x := range m.listed() {
		if s, ok := parse(x); ok && s.region == region {
			out = append(out, s)
		}
	}
	return out
}

// names are the members that carry the id of one server: it may have been renamed, and anyone
// with the gossip key can claim an id.
type names []server

// byID groups the servers of this region, sorted by id.
func (m *Members) byID() []names {
	found := map[string]names{}
	for _, s := range m.servers(m.conf.Region) {
		found[s.id] = append(found[s.id], s)
	}
	var out []names
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out
}

// alive are the names that live.
func (n names) alive() names {
	return slices.DeleteFunc(slices.Clone(n), func(s server) bool { return s.status != statusAlive })
}

// left reports whether all have left.
func (n names) left() bool {
	return !slices.ContainsFunc(n, func(s server) bool { return s.status != statusLeft })
}

// best is the one that speaks for the id: one that lives, where there is one.
func (n names) best() server {
	order := []string{statusAlive, statusLeaving, statusFailed, statusLeft}
	return slices.MinFunc(n, func(a, b server) int {
		return cmp.Compare(slices.Index(order, a.status), slices.Index(order, b.status))
	})
}

// Members lists the servers of all regions by name.
func (m *Members) Members() []*api.AgentMember {
	var out []*api.AgentMember
	for _, x := range m.listed() {
		out = append(out, &api.AgentMember{
			Name: x.Name, Addr: x.Addr.String(), Port: x.Port, Tags: maps.Clone(x.Tags), Status: x.Status.String(),
			ProtocolMin: x.ProtocolMin, ProtocolMax: x.ProtocolMax, ProtocolCur: x.ProtocolCur,
			DelegateMin: x.DelegateMin, DelegateMax: x.DelegateMax, DelegateCur: x.DelegateCur,
		})
	}
	slices.SortFunc(out, func(a, b *api.AgentMember) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Self is this server.
func (m *Members) Self() *api.AgentMember {
	for _, x := range m.Members() {
		if x.Tags["id"] == m.conf.ID {
			return x
		}
	}
	return &api.AgentMember{Name: m.ownName()}
}

// Regions lists the regions that are known, by name.
func (m *Members) Regions() []string {
	found := map[string]bool{m.conf.Region: true}
	for _, x := range m.listed() {
		if s, ok := parse(x); ok {
			found[s.region] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Servers lists the RPC addresses of the living servers of a region.
func (m *Members) Servers(region string) []string {
	var out []string
	for _, s := range m.servers(region) {
		if s.status == statusAlive {
			out = append(out, s.rpc)
		}
	}
	slices.Sort(out)
	return out
}

// Name returns the name of the server with the id, or the id when the name is unknown.
func (m *Members) Name(id string) string {
	for _, n := range m.byID() {
		if n[0].id == id {
			return n.best().name
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name := m.gone[id]; name != "" {
		return name
	}
	return id
}

// Stats are counters of gossip for people.
func (m *Members) Stats() map[string]string {
	if m.pool == nil {
		return map[string]string{"members": "1", "encrypted": "false"}
	}
	return m.pool.Stats()
}
