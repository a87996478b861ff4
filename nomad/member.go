package nomad

import (
	"net"
	"runtime"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// Caller carries calls of this process to the server's methods.
func (s *Server) Caller() wire.Caller { return s.rpc }

// Node reaches a node that is connected here.
func (s *Server) Node(id string) (wire.Caller, error) { return s.rpc.Node(id) }

// Address is where others reach the RPC port.
func (s *Server) Address() string { return s.advertise }

// Dialer reaches servers as this one does; an agent's own client half uses it.
func (s *Server) Dialer() wire.Dialer { return s.dialer }

// Leads reports whether this server leads.
func (s *Server) Leads() bool { return s.raft.IsLeader() }

// Leader is the address of the leader, or empty.
func (s *Server) Leader() string { return s.raft.LeaderAddress() }

func (s *Server) memberName() string { return s.conf.Name + "." + s.conf.Region }

// Members lists the servers: this one, until servers find each other.
func (s *Server) Members() []*api.AgentMember {
	host, port, _ := net.SplitHostPort(s.advertise)
	n, _ := strconv.ParseUint(port, 10, 16)
	return []*api.AgentMember{{
		Name: s.memberName(), Addr: host, Port: uint16(n), Status: "alive",
		ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
		Tags: map[string]string{
			"role": "nomad", "region": s.conf.Region, "dc": s.conf.Datacenter, "id": s.id, "build": s.conf.Version,
			"port": port, "rpc_addr": host, "bootstrap": "1", "expect": "1", "raft_vsn": "3", "vsn": "1",
		},
	}}
}

// Stats are counters of the server for people.
func (s *Server) Stats() map[string]map[string]string {
	return map[string]map[string]string{
		"raft": s.raft.Stats(),
		"nomad": {
			"server": "true", "leader": strconv.FormatBool(s.Leads()), "leader_addr": s.Leader(), "bootstrap": "true",
			"known_regions": "1", "connected_nodes": strconv.Itoa(s.rpc.ConnectedNodes()),
		},
		"runtime": {
			"goroutines": strconv.Itoa(runtime.NumGoroutine()), "version": runtime.Version(), "arch": runtime.GOARCH,
			"kernel.name": runtime.GOOS, "cpu_count": strconv.Itoa(runtime.NumCPU()), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0)),
		},
	}
}
