package agents

import (
	"context"
	"net"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/inspect"
)

// Config is what the service needs.
type Config struct {
	// ID is the id of this server.
	ID    string
	Agent *inspect.Agent
	// Members lists the servers of this region, Leader returns the RPC address of the leader, Peer reaches a server at its
	// RPC address.
	Members func() []*api.AgentMember
	Leader  func() string
	Peer    func(address string) (wire.Caller, error)
}

// Service implements the RPC methods of agents.
type Service struct{ Config }

// New makes the service.
func New(c Config) *Service { return &Service{c} }

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.AgentMonitor.Handle(func(ctx context.Context, r *api.AgentMonitorRequest) (*api.AgentMonitorResponse, error) {
			return at(ctx, s, wire.AgentMonitor, &r.ServerID, r, s.Agent.Monitor)
		}),
		wire.AgentHost.Handle(func(ctx context.Context, r *api.AgentHostRequest) (*api.HostDataResponse, error) {
			return at(ctx, s, wire.AgentHost, &r.ServerID, r, func(ctx context.Context, _ *api.AgentHostRequest) (*api.HostDataResponse, error) {
				return s.Agent.Host(ctx)
			})
		}),
		wire.AgentProfile.Handle(func(ctx context.Context, r *api.AgentProfileRequest) (*api.AgentProfileResponse, error) {
			return at(ctx, s, wire.AgentProfile, &r.ServerID, r, s.Agent.Profile)
		}),
	}
}

// at serves a request here, or at the server that it names.
func at[Q, R any](ctx context.Context, s *Service, m wire.Method[Q, R], server *string, r *Q, here func(context.Context, *Q) (*R, error)) (*R, error) {
	address, local, err := s.find(*server)
	if err != nil {
		return nil, err
	}
	if local {
		return here(ctx, r)
	}
	peer, err := s.Peer(address)
	if err != nil {
		return nil, err
	}
	*server = ""
	return m.Call(ctx, peer, r)
}

// find returns the RPC address of a server by its name, with or without the region, or its id; "leader" is the leader.
func (s *Service) find(name string) (address string, local bool, err error) {
	if name == "" {
		return "", true, nil
	}
	leader := s.Leader()
	if name == "leader" && leader == "" {
		return "", false, fault.New(fault.Unavailable, "there is no leader now: try again, or name a server")
	}
	for _, m := range s.Members() {
		rpc := net.JoinHostPort(m.Tags["rpc_addr"], m.Tags["port"])
		short, _, _ := strings.Cut(m.Name, ".")
		if name == m.Name || name == short || name == m.Tags["id"] || name == "leader" && rpc == leader {
			return rpc, m.Tags["id"] == s.ID, nil
		}
	}
	return "", false, fault.New(fault.NotFound, "unknown Nomad server %.140s: nomad server members lists them", name)
}
