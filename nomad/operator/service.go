package operator

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Raft is what the service needs of the consensus engine.
type Raft interface {
	fsm.Proposer
	LeaderAddress() string
	Configuration() (*api.RaftConfiguration, error)
	// Voters are the newest voters that this server knows of, and whether it knows that they are committed.
	Voters() (voters *api.Voters, settled bool, err error)
}

// Config is what the service needs.
type Config struct {
	// ID is that of this server.
	ID    string
	State *state.Store
	Raft  Raft
	// NameOf returns the name of a server by its id; nil shows ids.
	NameOf  func(id string) string
	Members Members
	Cluster Cluster
	Archive Archive
	// Peer is the way to another server by its RPC address, Address that of this one; nil asks none.
	Peer    func(address string) (wire.Caller, error)
	Address string
	// Dir keeps snapshots on their way; empty means the system's place for temporary files.
	Dir string
	// SnapshotMax is how many bytes a restored snapshot may have; 0 means [api.SnapshotMax].
	SnapshotMax int64
	// FreeBytes is how many bytes the disk of a file has left; nil asks the system.
	FreeBytes func(*os.File) (int64, error)
	Begin     Begin
}

// Service serves the RPC methods of this package.
type Service struct {
	id     string
	state  *state.Store
	raft   Raft
	nameOf func(string) string

	members          Members
	cluster          Cluster
	archive          Archive
	peerAt           func(string) (wire.Caller, error)
	address          string
	dir              string
	snapshotMax      int64
	freeBytes        func(*os.File) (int64, error)
	begin            Begin
	reading, writing transfers
}

// New makes the service.
func New(c Config) *Service {
	if c.FreeBytes == nil {
		c.FreeBytes = freeBytes
	}
	return &Service{
		snapshotMax: cmp.Or(c.SnapshotMax, api.SnapshotMax), freeBytes: c.FreeBytes,
		id: c.ID, state: c.State, raft: c.Raft, nameOf: c.NameOf, members: c.Members, cluster: c.Cluster, archive: c.Archive,
		peerAt: c.Peer, address: c.Address, dir: c.Dir, begin: c.Begin,
	}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.StatusLeader.Handle(s.Leader),
		wire.StatusPeers.Handle(s.Peers),
		wire.OperatorRaftConfiguration.Handle(s.RaftConfiguration),
		wire.OperatorSchedulerConfig.Handle(s.SchedulerConfig),
		wire.OperatorSetSchedulerConfig.Handle(s.SetSchedulerConfig),
		wire.OperatorRaftRemovePeer.Handle(s.RemovePeer),
		wire.OperatorTransferLeadership.Handle(s.TransferLeadership),
		wire.OperatorAutopilotConfig.Handle(s.AutopilotConfig),
		wire.OperatorSetAutopilotConfig.Handle(s.SetAutopilotConfig),
		wire.OperatorServerHealth.Handle(s.Health),
		wire.OperatorSnapshotRead.Handle(s.ReadSnapshot),
		wire.OperatorSnapshotRestore.Handle(s.RestoreSnapshot),
		wire.StatusRegions.Handle(s.Regions),
		wire.StatusJoin.Handle(s.Join),
		wire.StatusForceLeave.Handle(s.ForceLeave),
		wire.StatusKeyring.Handle(s.Keyring),
	}
}

// Leader returns the leader and the voters as this server knows them.
func (s *Service) Leader(context.Context, *api.QueryOptions) (*api.StatusLeaderResponse, error) {
	leader := s.raft.LeaderAddress()
	voters, settled, err := s.raft.Voters()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	return &api.StatusLeaderResponse{Leader: leader, Server: s.id, Voters: voters, Unsettled: !settled}, nil
}

// Peers lists the addresses of the Raft peers.
func (s *Service) Peers(context.Context, *api.QueryOptions) (*api.StatusPeersResponse, error) {
	conf, err := s.raft.Configuration()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	out := &api.StatusPeersResponse{}
	for _, p := range conf.Servers {
		out.Peers = append(out.Peers, p.Address)
	}
	return out, nil
}

// RaftConfiguration describes the Raft peers.
func (s *Service) RaftConfiguration(context.Context, *api.QueryOptions) (*api.RaftConfigurationResponse, error) {
	conf, err := s.raft.Configuration()
	if err != nil {
		return nil, fmt.Errorf("read raft configuration: %w", err)
	}
	for _, p := range conf.Servers {
		if s.nameOf != nil {
			p.Node = s.nameOf(p.ID)
		}
	}
	return &api.RaftConfigurationResponse{Configuration: conf}, nil
}

// SchedulerConfig reads the scheduling configuration.
func (s *Service) SchedulerConfig(ctx context.Context, q *api.QueryOptions) (*api.SchedulerConfigResponse, error) {
	out := &api.SchedulerConfigResponse{}
	err := rpc.Block(ctx, s.state, q, &out.QueryMeta, []state.Key{state.TableKey(state.TableConfig)}, func(tx *state.Txn) error {
		out.SchedulerConfig = tx.SchedulerConfig()
		return nil
	})
	return out, err
}

// SetSchedulerConfig writes the scheduling configuration.
func (s *Service) SetSchedulerConfig(ctx context.Context, r *api.SchedulerConfigRequest) (*api.SchedulerConfigWriteResponse, error) {
	if r.Config == nil {
		return nil, fault.New(fault.Invalid, "missing scheduler configuration")
	}
	switch r.Config.SchedulerAlgorithm {
	case "", api.SchedulerAlgorithmBinpack, api.SchedulerAlgorithmSpread:
	default:
		return nil, fault.New(fault.Invalid, "invalid scheduler algorithm: %q", r.Config.SchedulerAlgorithm)
	}
	c := *r.Config
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = api.SchedulerAlgorithmBinpack
	}
	res, err := s.raft.Propose(ctx, &SetSchedulerConfig{Config: &c, CAS: r.CAS})
	if err != nil {
		return nil, fmt.Errorf("write scheduler configuration: %w", err)
	}
	updated, ok := res.Value.(bool)
	if !ok {
		return nil, fault.New(fault.Internal, "scheduler configuration was answered with a %T", res.Value)
	}
	return &api.SchedulerConfigWriteResponse{Updated: updated, WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}
