package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Config is what the service needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Leader
	// Servers lists the RPC addresses that nodes receive; nil means none.
	Servers func() []string
	// Voters returns the voters of the raft log, and whether they are committed; nil means unknown.
	Voters func() (voters *api.Voters, settled bool, err error)

	// Identities signs and verifies the identities of nodes; nil means that nodes have none.
	Identities   *identity.Service
	Introduction Introduction

	Heartbeat Heartbeat
	// Metrics records how long nodes are marked as lost; nil does not.
	Metrics *metrics.Recorder
	// Jitter returns a random duration in [0, below). Nil means [rand.N]. Simulations make it repeatable.
	Jitter func(below time.Duration) time.Duration
}

// Heartbeat are the times of node liveness; zero fields mean those of [DefaultHeartbeat].
type Heartbeat struct {
	// MinTTL is the least time between two heartbeats that a node is given.
	MinTTL time.Duration
	// MaxPerSecond bounds the rate of all nodes together; beyond it the time grows.
	MaxPerSecond float64
	// Grace is added before a silent node is lost.
	Grace time.Duration
	// FailoverTTL is what a new leader gives to every node.
	FailoverTTL time.Duration
}

// DefaultHeartbeat returns the usual times.
func DefaultHeartbeat() Heartbeat {
	return Heartbeat{MinTTL: 10 * time.Second, MaxPerSecond: 50, Grace: 10 * time.Second, FailoverTTL: 5 * time.Minute}
}

// Service serves the RPC methods of this package.
type Service struct {
	log     hclog.Logger
	state   *state.Store
	raft    fsm.Leader
	servers func() []string
	voters  func() (*api.Voters, bool, error)
	beat    Heartbeat
	jitter  func(time.Duration) time.Duration
	metrics *metrics.Recorder

	identities   *identity.Service
	introduction Introduction
	violations   atomic.Uint64

	mu    sync.Mutex
	watch *deadlines // while leading
	// refusals are the nodes whose refusal was logged.
	refusals map[string]bool
	// verified has the last identity of each node that was verified.
	verified map[string]*verified

	newest newest
}

// New makes the service; zero times in the configuration take their defaults.
func New(c Config) *Service {
	beat, d := c.Heartbeat, DefaultHeartbeat()
	if beat.MinTTL <= 0 {
		beat.MinTTL = d.MinTTL
	}
	if beat.MaxPerSecond <= 0 {
		beat.MaxPerSecond = d.MaxPerSecond
	}
	if beat.Grace <= 0 {
		beat.Grace = d.Grace
	}
	if beat.FailoverTTL <= 0 {
		beat.FailoverTTL = d.FailoverTTL
	}
	servers := c.Servers
	if servers == nil {
		servers = func() []string { return nil }
	}
	voters := c.Voters
	if voters == nil {
		voters = func() (*api.Voters, bool, error) { return nil, false, nil }
	}
	jitter := c.Jitter
	if jitter == nil {
		jitter = func(below time.Duration) time.Duration { return rand.N(below) }
	}
	return &Service{
		log: c.Log, state: c.State, raft: c.Raft, servers: servers, voters: voters, beat: beat, jitter: jitter, metrics: c.Metrics,
		identities: c.Identities, introduction: c.Introduction.complete(),
	}
}

// Handlers binds the RPC methods of the service.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.NodeRegister.Handle(s.Register),
		wire.NodeHeartbeat.Handle(s.Heartbeat),
		wire.NodeAssignments.Handle(s.Assignments),
		wire.NodeList.Handle(s.List),
		wire.NodeGet.Handle(s.Get),
		wire.NodeAllocations.Handle(s.Allocations),
		wire.NodeEligibility.Handle(s.Eligibility),
		wire.NodeDrain.Handle(s.Drain),
		wire.NodeEvaluate.Handle(s.Evaluate),
		wire.NodePurge.Handle(s.Purge),
		wire.ACLIntroduceNode.Handle(s.Introduce),
	}
}

// Register stores a node's fingerprint.
func (s *Service) Register(ctx context.Context, r *api.NodeRegisterRequest) (*api.NodeUpdateResponse, error) {
	if err := validate(r.Node); err != nil {
		return nil, err
	}
	n := *r.Node
	n.Drivers, n.Events = briefDrivers(n.Drivers), nil
	n.CSINodePlugins, n.CSIControllerPlugins = namedPlugins(n.CSINodePlugins), namedPlugins(n.CSIControllerPlugins)
	tx, noted := s.state.Read(), 0
	old := tx.Node(n.ID)
	if old != nil {
		noted = len(old.StaleMounts)
	}
	if err := bounds(&n, noted); err != nil {
		return nil, err
	}
	if n.NodePool == "" {
		n.NodePool = api.NodePoolDefault
	}
	n.RPCAddr = transport.PeerOf(ctx).Address
	n.ComputedClass = computedClass(&n)
	n.Process, n.Number, n.Former = r.Process, r.Number, nil
	v, reason := s.registering(tx, &n, r)
	n.IdentitySigningKeyID = ""
	if v != nil {
		n.IdentitySigningKeyID = v.key
	}
	err, got := error(nil), answer{}
	if old == nil {
		err = s.admit(&n, r.Introduction)
	}
	if err == nil {
		got, err = s.propose(ctx, &RegisterNode{Node: &n, Rollback: r.Rollback, Unproved: reason, Seed: uuid.NewString()})
	}
	if err != nil {
		if errors.Is(err, fault.Denied) {
			s.refused(&n, err)
		}
		return nil, fmt.Errorf("register node %q: %w", n.ID, err)
	}
	if got.rollback != 0 || got.late { // the node was not heard
		return &api.NodeUpdateResponse{Rollback: got.rollback, Late: got.late}, nil
	}
	if old != nil && reason != "" && old.IdentitySigningKeyID != "" {
		s.log.Warn("a node registered with its secret alone, because the key of its identity was removed", "node", n.ID, "key", old.IdentitySigningKeyID)
	}
	s.awaitKey(ctx)
	return s.update(ctx, n.ID, sender{status: n.Status, identity: v}, got)
}

// refusalsKept bounds how many refused nodes are remembered.
const refusalsKept = 1000

// refused logs a node that is refused, once for each address.
func (s *Service) refused(n *api.Node, err error) {
	host, _, _ := net.SplitHostPort(n.RPCAddr)
	who := n.ID + " " + n.Name + " " + host
	s.mu.Lock()
	known := s.refusals[who]
	if s.refusals == nil || len(s.refusals) >= refusalsKept {
		s.refusals = map[string]bool{}
	}
	s.refusals[who] = true
	s.mu.Unlock()
	if !known {
		s.log.Error("node is refused", "node", n.ID, "name", n.Name, "address", n.RPCAddr, "error", err)
	}
}

func validate(n *api.Node) error {
	switch {
	case n == nil:
		return fault.New(fault.Invalid, "missing node for client registration")
	case n.ID == "":
		return fault.New(fault.Invalid, "missing node ID for client registration")
	case n.Name == "":
		return fault.New(fault.Invalid, "missing node name for client registration")
	case n.Datacenter == "":
		return fault.New(fault.Invalid, "missing datacenter for client registration")
	case n.SecretID == "":
		return fault.New(fault.Invalid, "missing node secret ID for client registration")
	case n.NodePool == api.NodePoolAll:
		return fault.New(fault.Invalid, "node is not allowed to register in node pool %q", api.NodePoolAll)
	}
	switch n.Status {
	case "", api.NodeStatusInit, api.NodeStatusReady:
		return nil
	}
	return fault.New(fault.Invalid, "invalid status %q for node %q", n.Status, n.ID)
}

// Heartbeat keeps a node alive and takes over the status that it reports. An empty status means
// ready for a node that was lost.
func (s *Service) Heartbeat(ctx context.Context, r *api.NodeHeartbeatRequest) (*api.NodeUpdateResponse, error) {
	tx := s.state.Read()
	n := tx.Node(r.NodeID)
	if n == nil {
		return nil, missing(r.NodeID)
	}
	if ledger.Unreported(tx, r.NodeID) { // as an unknown node it registers at once, with its mounts
		return nil, fault.New(fault.NotFound, "the servers were restored to an older state: node %q must register again", r.NodeID)
	}
	if err := s.newest.admit(n, r); err != nil {
		return nil, err
	}
	status := r.Status
	if status == "" && lost(n.Status) {
		status = api.NodeStatusReady
	}
	switch status {
	case "", api.NodeStatusReady, api.NodeStatusInit:
	case api.NodeStatusDown:
		// A node that shuts down reports it.
	default:
		return nil, fault.New(fault.Invalid, "invalid status %q for node %q", r.Status, r.NodeID)
	}
	if status == api.NodeStatusReady && n.Status == api.NodeStatusInit && held(tx, n, time.Now()) {
		status = n.Status
	}
	by, key := sender{status: r.Status, renew: r.RenewIdentity}, ""
	if by.identity, _ = s.identityOf(tx, n.ID, r.NodeSecret); by.identity != nil && by.identity.key != n.IdentitySigningKeyID {
		key = by.identity.key
	}
	if (status == "" || status == n.Status) && len(r.Events) == 0 && key == "" {
		// The reply renews leases: a server that no longer leads, and has not noticed, must not send it.
		if err := s.raft.VerifyLeader(ctx); err != nil {
			return nil, fmt.Errorf("heartbeat of node %q: %w", n.ID, err)
		}
		return s.update(ctx, n.ID, by, answer{})
	}
	got, err := s.propose(ctx, &SetStatus{NodeID: n.ID, Status: status, Events: briefEvents(r.Events), IdentitySigningKeyID: key, Seed: uuid.NewString()})
	if err != nil {
		return nil, fmt.Errorf("update status of node %q: %w", n.ID, err)
	}
	if status == api.NodeStatusDown {
		s.forget(n.ID)
		return &api.NodeUpdateResponse{EvalIDs: got.evals, WriteMeta: api.WriteMeta{Index: got.index}}, nil
	}
	return s.update(ctx, n.ID, by, got)
}

// sender is a node that registered or sent a heartbeat: the status that it requested, its identity, which may have expired,
// and whether it requested a new one.
type sender struct {
	status   string
	identity *verified
	renew    bool
}

// update restarts the heartbeat timer of the node and returns its length, and whether the node is held. A node that is
// found lost in the meantime gets no reply: its leases end one term after its previous heartbeat, and this call must not
// renew them. The node retries.
func (s *Service) update(ctx context.Context, id string, by sender, got answer) (*api.NodeUpdateResponse, error) {
	ttl := s.ttl()
	s.mu.Lock()
	watch := s.watch
	s.mu.Unlock()
	if watch != nil {
		ttl = max(ttl, s.ttlFor(watch.len()))
		now := time.Now()
		if !watch.set(id, now, now.Add(ttl+s.beat.Grace)) {
			return nil, foundLost(id)
		}
	}
	n := s.state.Read().Node(id)
	if n != nil && lost(n.Status) {
		return nil, foundLost(id)
	}
	voters, settled, err := s.voters()
	if err != nil || !settled {
		voters = nil
	}
	return &api.NodeUpdateResponse{
		Voters:       voters,
		Held:         by.status == api.NodeStatusReady && n != nil && n.Status == api.NodeStatusInit,
		Identity:     s.issue(ctx, n, by, ttl),
		HeartbeatTTL: ttl, EvalIDs: got.evals, Servers: s.servers(), WriteMeta: api.WriteMeta{Index: got.index},
	}, nil
}

func foundLost(id string) error {
	return fault.New(fault.Unavailable, "node %q was found lost meanwhile: it must ask again", id)
}

func (s *Service) ttl() time.Duration { return s.ttlFor(0) }

// ttlFor grows with the number of nodes; up to as much again is added so that they spread.
func (s *Service) ttlFor(nodes int) time.Duration {
	ttl := max(s.beat.MinTTL, time.Duration(float64(nodes)/s.beat.MaxPerSecond*float64(time.Second)))
	return ttl + s.jitter(ttl)
}

func (s *Service) forget(id string) {
	s.newest.forget(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.verified, id)
	if s.watch != nil {
		s.watch.drop(id)
	}
}

// answer is the result of a command that this service proposed.
type answer struct {
	index    uint64
	evals    []string
	rollback int64
	late     bool
}

func (s *Service) propose(ctx context.Context, c fsm.Command) (answer, error) {
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return answer{}, err
	}
	got := answer{index: res.Index}
	if o, ok := res.Value.(*Outcome); ok {
		got.evals, got.rollback, got.late = o.Evals, o.Rollback, o.Late
	}
	return got, nil
}
