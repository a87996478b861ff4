package operator

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
)

// Members is what the service needs of the gossip pool.
type Members interface {
	Health() *api.OperatorHealthReply
	Regions() []string
	Join(addresses []string) (int, error)
	ForceLeave(name string, prune bool) error
	Keyring(op api.KeyringOp, key string) (*api.KeyringResponse, error)
}

// Cluster changes the set of Raft peers.
type Cluster interface {
	RemoveServer(ctx context.Context, id string) error
	TransferLeadership(ctx context.Context, id, address string) error
}

// RemovePeer removes a Raft peer by its id.
func (s *Service) RemovePeer(ctx context.Context, r *api.RaftPeerRequest) (*api.WriteMeta, error) {
	peer, err := s.peer(r)
	if err != nil {
		return nil, err
	}
	if alone, err := s.onlyVoter(peer); err != nil {
		return nil, err
	} else if alone {
		return nil, fault.New(fault.Conflict, "raft peer %q is the only voter: without it there is no cluster", peer.ID)
	}
	if err := s.cluster.RemoveServer(ctx, peer.ID); err != nil {
		return nil, fmt.Errorf("remove raft peer %q: %w", peer.ID, err)
	}
	return &api.WriteMeta{Index: s.state.Read().Index()}, nil
}

// onlyVoter reports whether no other peer votes.
func (s *Service) onlyVoter(peer *api.RaftServer) (bool, error) {
	conf, err := s.raft.Configuration()
	if err != nil {
		return false, fmt.Errorf("read raft configuration: %w", err)
	}
	for _, p := range conf.Servers {
		if p.Voter && p.ID != peer.ID {
			return false, nil
		}
	}
	return true, nil
}

// peer finds the Raft peer that a request names by id or address.
func (s *Service) peer(r *api.RaftPeerRequest) (*api.RaftServer, error) {
	if r.ID == "" && r.Address == "" {
		return nil, fault.New(fault.Invalid, "must specify id or address")
	}
	conf, err := s.raft.Configuration()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	for _, p := range conf.Servers {
		if (r.ID == "" || p.ID == r.ID) && (r.Address == "" || p.Address == r.Address) {
			return p, nil
		}
	}
	what, name := "address", r.Address
	if r.ID != "" {
		what, name = "id", r.ID
	}
	return nil, fault.New(fault.Invalid, "%s %q was not found in the Raft configuration: see nomad operator raft list-peers", what, name)
}

// TransferLeadership makes another voter lead.
func (s *Service) TransferLeadership(ctx context.Context, r *api.RaftPeerRequest) (*api.LeadershipTransferResponse, error) {
	to, err := s.peer(r)
	if err != nil {
		return nil, err
	}
	if !to.Voter {
		return nil, fault.New(fault.Invalid, "raft peer %q does not vote and cannot lead", to.ID)
	}
	conf, err := s.raft.Configuration()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	out := &api.LeadershipTransferResponse{To: *to, Noop: to.Leader}
	for _, p := range conf.Servers {
		if p.Leader {
			out.From = *p
		}
	}
	if to.Leader {
		return out, nil
	}
	if err := s.cluster.TransferLeadership(ctx, to.ID, to.Address); err != nil {
		return nil, fmt.Errorf("transfer the leadership to %q: %w", to.ID, err)
	}
	return out, nil
}

// AutopilotConfig reads the autopilot's configuration.
func (s *Service) AutopilotConfig(context.Context, *api.QueryOptions) (*api.AutopilotConfigResponse, error) {
	tx := s.state.Read()
	return &api.AutopilotConfigResponse{Config: tx.AutopilotConfig(), QueryMeta: api.QueryMeta{Index: tx.Index()}}, nil
}

// SetAutopilotConfig writes the autopilot's configuration.
func (s *Service) SetAutopilotConfig(ctx context.Context, r *api.AutopilotConfigRequest) (*api.AutopilotConfigWriteResponse, error) {
	c := r.Config
	switch {
	case c == nil:
		return nil, fault.New(fault.Invalid, "missing autopilot configuration")
	case c.LastContactThreshold < 0 || c.ServerStabilizationTime < 0:
		return nil, fault.New(fault.Invalid, "autopilot configuration: times must not be negative")
	}
	res, err := s.raft.Propose(ctx, &SetAutopilotConfig{Config: c, CAS: r.CAS})
	if err != nil {
		return nil, fmt.Errorf("write autopilot configuration: %w", err)
	}
	updated, _ := res.Value.(bool)
	return &api.AutopilotConfigWriteResponse{Updated: updated, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// Health returns the health of the servers as the leader's autopilot sees it.
func (s *Service) Health(context.Context, *api.QueryOptions) (*api.ServerHealthResponse, error) {
	h := s.members.Health()
	if h == nil {
		return nil, fault.New(fault.Unavailable, "the leader has not checked the servers yet: try again")
	}
	return &api.ServerHealthResponse{Health: h}, nil
}

// Regions lists the known regions.
func (s *Service) Regions(context.Context, *api.QueryOptions) (*api.RegionListResponse, error) {
	return &api.RegionListResponse{Regions: s.members.Regions()}, nil
}

// Join joins other servers. The response contains the error, because some servers may have been joined.
func (s *Service) Join(_ context.Context, r *api.ServerJoinRequest) (*api.ServerJoinResponse, error) {
	if len(r.Addresses) == 0 {
		return nil, fault.New(fault.Invalid, "missing address to join")
	}
	n, err := s.members.Join(r.Addresses)
	out := &api.ServerJoinResponse{Joined: n}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

// ForceLeave ejects a failed server from the gossip pool. It also calls the leader, because the leader does not act on
// gossip alone.
func (s *Service) ForceLeave(ctx context.Context, r *api.ServerForceLeaveRequest) (*api.Empty, error) {
	if r.Name == "" {
		return nil, fault.New(fault.Invalid, "missing node to force leave")
	}
	if err := s.members.ForceLeave(r.Name, r.Prune); err != nil {
		return nil, fmt.Errorf("force %q to leave: %w", r.Name, err)
	}
	if leader := s.raft.LeaderAddress(); s.peerAt != nil && leader != "" && leader != s.address && transport.PeerOf(ctx).Hops == 0 {
		if peer, err := s.peerAt(leader); err == nil {
			_, _ = wire.StatusForceLeave.Call(transport.WithHops(ctx, 1), peer, r) // it may have forgotten the name by now
		}
	}
	return &api.Empty{}, nil
}

// Keyring lists or changes the gossip keys of all servers.
func (s *Service) Keyring(_ context.Context, r *api.KeyringRequest) (*api.KeyringResponse, error) {
	return s.members.Keyring(r.Op, r.Key)
}
