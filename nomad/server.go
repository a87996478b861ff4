package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/api/wire/transport"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/agents"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/deployments"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/events"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/hostvolumes"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/login"
	"github.com/open-nomad/open-nomad/nomad/login/provider"
	"github.com/open-nomad/open-nomad/nomad/member"
	"github.com/open-nomad/open-nomad/nomad/namespaces"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/operator"
	"github.com/open-nomad/open-nomad/nomad/periodic"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/quotas"
	"github.com/open-nomad/open-nomad/nomad/regions"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/services"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variables"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// Server is one server.
type Server struct {
	conf      Config
	id        string
	advertise string
	state     *state.Store
	events    *events.Buffer
	port      *transport.Port
	dialer    transport.Dialer
	raft      *consensus.Raft
	rpc       *rpc.Server
	members   *member.Members
	evals     *evals.Service
	keyring   *keyring.Service
	nodes     *nodes.Service
	identity  *identity.Service
	variables *variables.Service
	loops     []leaderLoop
}

// Commands makes a registry of every raft command of every package.
func Commands() *fsm.Registry {
	return fsm.NewRegistry(
		nodes.Commands, allocs.Commands, operator.Commands, jobs.Commands, evals.Commands,
		plan.Commands, gc.Commands, namespaces.Commands, commands.All, member.Commands, deployments.Commands,
		keyring.Commands, acl.Commands, regions.Commands, login.Commands, quotas.Commands, variables.Commands, services.Commands, hostvolumes.Commands, nextCommands,
	)
}

// New opens the port and the log and builds the services. Nothing is served before [Server.Run];
// after an error nothing stays open.
func New(c Config) (*Server, error) {
	s := &Server{conf: c}
	var err error
	if s.id, err = serverID(c.Dir); err != nil {
		return nil, err
	}
	s.state = state.New()
	if !c.NoEvents {
		s.events = events.NewBuffer(s.state, cmp.Or(c.EventBuffer, eventBuffer))
	}
	tls, err := c.transport()
	if err != nil {
		return nil, err
	}
	s.dialer = transport.Dialer{TLS: tls.Client, Refusals: transport.LogRefusals(c.Log.Named("rpc"))}
	if s.port, err = transport.Listen(c.Bind, tls.Server, c.Log.Named("port")); err != nil {
		return nil, fmt.Errorf("RPC port: %w", err)
	}
	s.port.Limit(c.Limits)
	s.advertise = s.advertised()
	if err = s.consensus(); err != nil {
		return nil, errors.Join(err, s.port.Close())
	}
	if s.members, err = member.Open(s.memberConfig()); err != nil {
		return nil, errors.Join(err, s.raft.Close(), s.port.Close())
	}
	s.services()
	return s, nil
}

// serverID reads or makes the permanent id of this server.
func serverID(dir string) (string, error) {
	if dir == "" {
		return uuid.NewString(), nil
	}
	path := filepath.Join(dir, "server_id")
	body, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(body)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("server id: %w", err)
	}
	id := uuid.NewString()
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("server id: %w", err)
	}
	return id, nil
}

// advertised completes an address with the bound port, and an unspecified host with the one that other
// hosts reach this one at, or with loopback for a server that stays alone.
func (s *Server) advertised() string {
	want := s.conf.Advertise
	host, port, _ := net.SplitHostPort(s.port.Addr().String())
	if want != "" {
		if h, p, err := net.SplitHostPort(want); err == nil {
			return net.JoinHostPort(h, p)
		}
		return net.JoinHostPort(want, port)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
		if s.conf.Gossip != nil {
			host = member.HostAddress()
		}
	}
	return net.JoinHostPort(host, port)
}

func (s *Server) consensus() (err error) {
	dir := ""
	if s.conf.Dir != "" {
		dir = filepath.Join(s.conf.Dir, "raft")
	}
	tuning := s.conf.Raft
	var observer fsm.Observer
	if s.events != nil {
		observer = s.events
	}
	s.raft, err = consensus.Open(consensus.Config{
		ID: s.id, Advertise: s.advertise, Dir: dir, Single: s.conf.single(), State: s.state, Registry: Commands(), Observer: observer,
		MayRestore: ledger.MayRestore, RollBack: ledger.RollBack,
		HeartbeatTimeout: time.Duration(max(1, tuning.Multiplier)) * consensus.Default().HeartbeatTimeout,
		SnapshotInterval: tuning.SnapshotInterval, SnapshotThreshold: tuning.SnapshotThreshold, TrailingLogs: tuning.TrailingLogs,
		Listener: rpc.Counted(s.port.Listener(wire.ProtocolRaft), s.conf.Telemetry.Metrics, "nomad.rpc.raft_handoff"), Log: s.conf.Log.Named("raft"), Metrics: s.conf.Telemetry.Metrics,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return s.dialer.Dial(ctx, address, wire.ProtocolRaft)
		},
	})
	return err
}

// keystore is where this server keeps what unwraps the root keys.
func (s *Server) keystore() string {
	if s.conf.Dir == "" {
		return ""
	}
	return filepath.Join(s.conf.Dir, "keystore")
}

// clusterKey returns the key that signs for the cluster.
func (s *Server) clusterKey() (*provider.Key, error) {
	secret, err := s.keyring.Active()
	if err != nil {
		return nil, err
	}
	return &provider.Key{ID: secret.KeyID, Private: secret.Sign}, nil
}

// signingKeys returns the keys that sign tokens.
func (s *Server) signingKeys() (*identity.Key, error) {
	secret, err := s.keyring.Active()
	if err != nil {
		return nil, err
	}
	return &identity.Key{ID: secret.KeyID, RSA: secret.Sign, Ed25519: secret.SignEd25519}, nil
}

// services builds the services, binds their methods and collects the leader's loops.
func (s *Server) services() {
	log := s.conf.Log
	s.identity = identity.New(identity.Config{State: s.state, Active: s.signingKeys, Issuer: s.conf.OIDCIssuer, Region: s.conf.Region})
	nodeService := nodes.New(nodes.Config{
		Log: log.Named("nodes"), State: s.state, Raft: s.raft, Heartbeat: s.conf.Heartbeat,
		Servers: s.serversHere, Voters: s.raft.Voters, Identities: s.identity, Introduction: s.conf.Introduction, Metrics: s.conf.Telemetry.Metrics,
	})
	s.nodes = nodeService
	gate := access.New(access.Config{State: s.state, Enabled: s.conf.AccessControl, VerifyNode: nodeService.Verify, Identities: s.identity, Metrics: s.conf.Telemetry.Metrics})
	s.rpc = rpc.New(rpc.Config{
		Log: log.Named("rpc"), Raft: s.raft, State: s.state, Dialer: s.dialer, VerifyNode: nodeService.Verify, Gate: gate,
		Region: s.conf.Region, Address: s.advertise, Servers: s.members.Servers, Hold: holdMax,
		Metrics: s.conf.Telemetry.Metrics, NoIdentityLabels: s.conf.Telemetry.NoIdentityLabels,
	})
	s.evals = evals.New(evals.Config{
		State: s.state, Raft: s.raft, Log: log.Named("evals"), Workers: s.conf.Workers, Kinds: s.conf.Schedulers, Leader: s.rpc,
		Rejections: s.conf.Rejections, Ineligible: s.ineligible, Metrics: s.conf.Telemetry.Metrics,
	})
	s.keyring = keyring.New(keyring.Config{
		Log: log.Named("keyring"), State: s.state, Raft: s.raft, Dir: s.keystore(),
		Servers: s.serversHere, Address: s.advertise, Peer: s.rpc.Peer, Voters: s.raft.Voters,
		Limits: s.conf.Keyring, Providers: s.conf.KeyProviders, NoFiles: s.conf.NoKeyFiles,
	})
	variableService := variables.New(variables.Config{Log: log.Named("variables"), State: s.state, Raft: s.raft, Keys: s.keyring})
	s.variables = variableService
	sealed := secrets.New(secrets.Config{Keys: s.keyring, Variable: variableService.Items})
	volumeReconciler := reconciler.New(reconciler.Config{Log: log.Named("volumes"), State: s.state, Raft: s.raft, Nodes: s.rpc, Secrets: sealed, Limits: s.conf.Volumes})
	volumeService := volumes.New(volumes.Config{
		Log: log.Named("volumes"), State: s.state, Raft: s.raft, Secrets: sealed, Drivers: volumeReconciler, Outcomes: volumeReconciler, Reconciler: volumeReconciler,
		Patience: s.conf.Volumes.Patience, LimitExpiry: s.conf.Volumes.LimitExpiry,
	})
	gcService := gc.New(gc.Config{
		State: s.state, Raft: s.raft, Log: log.Named("gc"), Limits: s.conf.GC,
		Extra: []gc.Step{
			{Name: "volume claims", Run: func(ctx context.Context, _ bool) error { return volumeReconciler.Settle(ctx) }},
			{Name: "root keys", Run: func(ctx context.Context, now bool) error {
				if !now {
					return nil // they have an interval of their own
				}
				return s.keyring.Collect(ctx, now)
			}},
		},
	})
	jobService := jobs.New(jobs.Config{
		Log: log.Named("jobs"), State: s.state, Raft: s.raft, Limits: s.conf.Jobs, Versions: s.conf.JobVersions,
		Preview: func(tx *state.Txn, j *api.Job) *jobs.Preview {
			return (*jobs.Preview)(evals.Plan(tx, j, time.Now()))
		},
	})
	operatorService := operator.New(operator.Config{
		ID: s.id, State: s.state, Raft: s.raft, NameOf: s.members.Name, Members: s.members, Cluster: s.raft, Archive: s.raft, Dir: s.conf.Dir,
		Peer: s.rpc.Peer, Address: s.advertise, Begin: s.conf.Begin,
	})
	deploymentService := deployments.New(deployments.Config{Log: log.Named("deployments"), State: s.state, Raft: s.raft})
	global := &regions.Regions{
		Log: log.Named("regions"), State: s.state, Raft: s.raft, Secrets: sealed, Servers: s.rpc, Region: s.conf.Region, ReplicationToken: s.conf.ReplicationToken,
	}
	if s.conf.AccessControl {
		global.Authoritative = s.conf.AuthoritativeRegion
	}
	aclService := acl.New(acl.Config{
		Log: log.Named("acl"), State: s.state, Raft: s.raft, Secrets: sealed, Enabled: s.conf.AccessControl, Dir: s.conf.Dir, Limits: s.conf.Tokens,
		Copies: global.Elsewhere(),
	})
	for _, service := range []interface{ Handlers() []wire.Handler }{
		aclService, nodeService, s.keyring, s.evals, volumeService, gcService, jobService, deploymentService,
		variableService, s.identity,
		allocs.New(allocs.Config{Log: log.Named("allocs"), State: s.state, Raft: s.raft, Nodes: s.rpc}),
		namespaces.New(namespaces.Config{State: s.state, Raft: s.raft}),
		services.New(services.Config{State: s.state, Raft: s.raft}),
		hostvolumes.New(hostvolumes.Config{Log: log.Named("host_volumes"), State: s.state, Raft: s.raft, Nodes: s.rpc}),
		agents.New(agents.Config{ID: s.id, Agent: s.conf.Inspect, Members: s.Members, Leader: s.Leader, Peer: s.rpc.Peer}),
		search.New(search.Config{State: s.state, Limits: s.conf.Search}),
		quotas.New(quotas.Config{State: s.state, Raft: s.raft, Region: s.conf.Region}),
		events.New(events.Config{State: s.state, Buffer: s.events, ID: s.id}),
		login.New(login.Config{
			Log: log.Named("login"), State: s.state, Raft: s.raft, Secrets: sealed, Providers: provider.New(s.clusterKey), Enabled: s.conf.AccessControl,
			MinTTL: s.conf.Tokens.MinTTL, MaxTTL: s.conf.Tokens.MaxTTL,
		}),
		operatorService, gate,
	} {
		s.rpc.Handle(global.Forwarded(service.Handlers()...)...)
	}
	s.rpc.Handle(
		wire.StatusMembers.Handle(func(context.Context, *api.QueryOptions) (*api.MembersResponse, error) {
			return &api.MembersResponse{Members: s.Members()}, nil
		}),
		wire.StatusPeerInfo.Handle(s.members.PeerInfo),
	)
	s.loops = []leaderLoop{
		{"first configuration", operatorService.Establish},
		{"members", s.members.Lead},
		{"autopilot", s.members.Oversee},
		{"keyring", s.keyring.Lead},
		{"age of root keys", s.keyring.Schedule},
		{"evals", s.evals.Run},
		{"nodes", nodeService.Run},
		{"volumes", volumeReconciler.Run},
		{"volume intents", volumeService.Run},
		{"deployments", deploymentService.Run},
		{"periodic", periodic.New(periodic.Config{Log: log.Named("periodic"), State: s.state, Launch: jobService.Launch}).Run},
		{"gc", gcService.Run},
		{"expired tokens", aclService.Run},
		{"locks of variables", variableService.Run},
		{"keys of variables", variableService.Rotate},
		{"keys of volume secrets", volumeService.Reseal},
		{"access of other regions", global.Replicate},
	}
	s.loops = append(s.loops, s.nextLoops()...)
}

// Health is the reason why this server cannot do its work; nil when it can.
func (s *Server) Health() error {
	if s.Leader() == "" {
		return errors.New("no leader")
	}
	return s.keyring.Health()
}

// Run serves until ctx ends, and then closes everything. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.port.Run(ctx) })
	group.Go(func() error { return s.rpc.Run(ctx, s.port) })
	group.Go(func() error { return s.members.Run(ctx) })
	group.Go(func() error { return s.evals.Work(ctx) })
	group.Go(func() error { return s.keyring.Run(ctx) })
	group.Go(func() error { return s.raft.Lead(ctx, s.lead) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-s.raft.Failed():
			return fmt.Errorf("raft log: %w; nomad operator raft recover looks at the log and can skip an entry", s.raft.Failure())
		}
	})
	err := group.Wait()
	return errors.Join(err, s.raft.Close())
}

// Close gives back what New opened when Run is never called.
func (s *Server) Close() error {
	return errors.Join(s.members.Close(), s.raft.Close(), s.port.Close())
}
