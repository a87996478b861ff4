package nomad

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/member"
)

// holdMax is how long a call waits for a leader.
const holdMax = 5 * time.Second

// Caller carries calls of this process to the server's methods.
func (s *Server) Caller() wire.Caller { return s.rpc }

// CPU returns the limits that all users of this server share.
func (s *Server) CPU() *cpulimit.Limit { return s.rpc.CPU() }

// Node reaches a node through the server that it is connected to.
func (s *Server) Node(id string) (wire.Caller, error) { return s.rpc.Node(id) }

// Address is where others reach the RPC port.
func (s *Server) Address() string { return s.advertise }

// Dialer reaches servers as this one does; an agent's own client half uses it.
func (s *Server) Dialer() transport.Dialer { return s.dialer }

// Leads reports whether this server leads.
func (s *Server) Leads() bool { return s.raft.IsLeader() }

// Leader is the address of the leader, or empty.
func (s *Server) Leader() string { return s.raft.LeaderAddress() }

// memberConfig is how this server finds others.
func (s *Server) memberConfig() member.Config {
	c := member.Config{
		ID: s.id, Name: s.conf.Name, Region: s.conf.Region, Datacenter: s.conf.Datacenter, Build: s.conf.Version,
		RPC: s.advertise, Expect: 1, Dir: s.conf.Dir, Raft: s.raft, State: s.state, Info: s.peerInfo,
		Autopilot: func() *api.AutopilotConfiguration { return s.state.Read().AutopilotConfig() },
		Log:       s.conf.Log.Named("member"), Metrics: s.conf.Telemetry.Metrics,
	}
	if g := s.conf.Gossip; g != nil {
		c.Bind, c.Advertise, c.Expect, c.Encrypt = g.Bind, g.Advertise, g.Expect, g.Encrypt
		c.Join, c.RejoinAfterLeave = g.Join, g.RejoinAfterLeave
	}
	return c
}

// peerInfo asks another server of this region about its log.
func (s *Server) peerInfo(ctx context.Context, address string) (*api.PeerInfoResponse, error) {
	peer, err := s.rpc.Peer(address)
	if err != nil {
		return nil, err
	}
	return wire.StatusPeerInfo.Call(ctx, peer, &api.Empty{})
}

// Schedulers are the workers of this server that process evaluations.
func (s *Server) Schedulers() *evals.Service { return s.evals }

// ineligible takes a node out of scheduling.
func (s *Server) ineligible(ctx context.Context, node string) error {
	_, err := wire.NodeEligibility.Call(access.Internal(ctx), s.rpc, &api.NodeEligibilityRequest{NodeID: node, Eligibility: api.NodeSchedulingIneligible})
	return err
}

// serversHere are the RPC addresses of the living servers of this region.
func (s *Server) serversHere() []string { return s.members.Servers(s.conf.Region) }

// Members lists the servers of all regions.
func (s *Server) Members() []*api.AgentMember { return s.members.Members() }

// Member is this server.
func (s *Server) Member() *api.AgentMember { return s.members.Self() }

// Leave takes this server out of the cluster while it still runs.
func (s *Server) Leave(ctx context.Context) error { return s.members.Leave(ctx) }

// Stats are counters of the server for people.
func (s *Server) Stats() map[string]map[string]string {
	return map[string]map[string]string{
		"raft": s.raft.Stats(), "serf": s.members.Stats(),
		"nomad": {
			"server": "true", "leader": strconv.FormatBool(s.Leads()), "leader_addr": s.Leader(),
			"bootstrap": strconv.FormatBool(s.conf.single()), "known_regions": strconv.Itoa(len(s.members.Regions())),
			"connected_nodes": strconv.Itoa(s.rpc.ConnectedNodes()), "missed_wakes": strconv.FormatUint(s.evals.MissedWakes(), 10),
		},
		"runtime": {
			"goroutines": strconv.Itoa(runtime.NumGoroutine()), "version": runtime.Version(), "arch": runtime.GOARCH,
			"kernel.name": runtime.GOOS, "cpu_count": strconv.Itoa(runtime.NumCPU()), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0)),
		},
	}
}
