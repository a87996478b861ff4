package member

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the service needs.
type Config struct {
	ID, Name, Region, Datacenter, Build string
	// RPC is the address that others reach the RPC port at.
	RPC string
	// Bind is the gossip address, Advertise the address announced to others; empty means the bound one. Without
	// Bind this server stays alone.
	Bind, Advertise string
	// Expect is how many servers wait for each other before the first configuration; 0 waits to be taken
	// in by a cluster, 1 is a cluster of its own.
	Expect int
	// Dir keeps key ring, known members and the cluster's name; empty keeps nothing.
	Dir string
	// Encrypt is the first key in base64; the key ring on disk wins.
	Encrypt string
	Join    Join
	// RejoinAfterLeave makes a server that has left join again when it is started.
	RejoinAfterLeave bool

	Raft  Raft
	State *state.Store
	// Info asks a server of this region about its log.
	Info func(ctx context.Context, address string) (*api.PeerInfoResponse, error)
	// Autopilot is the autopilot's configuration; nil means [api.DefaultAutopilot].
	Autopilot func() *api.AutopilotConfiguration
	// StrangersFor is how long a new leader gives Raft peers that gossip does not know before they count as failed; 0 means
	// 10 minutes.
	StrangersFor time.Duration
	Log          hclog.Logger
	// Metrics records how long the peers are brought in step; nil does not.
	Metrics *metrics.Recorder
}

// Join configures which servers to find.
type Join struct {
	// Start is tried once, Retry until it works.
	Start, Retry []string
	// Max bounds the tries; 0 does not. Interval lies between them.
	Max      int
	Interval time.Duration
}

// DefaultInterval lies between tries to join.
const DefaultInterval = 30 * time.Second

// Raft is what the service needs of the consensus engine.
type Raft interface {
	fsm.Proposer
	IsLeader() bool
	LastContact() time.Time
	LastIndex() uint64
	LastTerm() uint64
	Bootstrapped() (bool, error)
	Bootstrap(servers []api.RaftServer) error
	Configuration() (*api.RaftConfiguration, error)
	AddVoter(ctx context.Context, id, address string) error
	AddNonvoter(ctx context.Context, id, address string) error
	RemoveServer(ctx context.Context, id string) error
	TransferLeadership(ctx context.Context, id, address string) error
	Oversee(ctx context.Context, o consensus.Oversight) error
	Health() *api.OperatorHealthReply
}
