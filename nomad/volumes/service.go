package volumes

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the room needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Nodes reaches client agents, which host the controllers.
	Nodes  rpc.NodeCaller
	Limits Limits
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// Chance answers a random duration below the given one, for what is named; nil means chance itself.
	// Simulations have it repeat.
	Chance func(what string, below time.Duration) time.Duration
	// Begin is called before the loop looks at something; nil does nothing. Simulations bring an order into
	// what happens at once.
	Begin func(ctx context.Context, what string)
}

// Limits are the room's bounds and times; zero fields mean those of [Default].
type Limits struct {
	// FenceAfter is how long a node is down before its attachments are taken away.
	FenceAfter time.Duration
	// LeaseMargin is added to the lease of a node that was lost: it counts from when its heartbeat was sent.
	LeaseMargin time.Duration
	// FenceHook is a program that shuts a lost node off, given its id and name; its exit with 0 is proof. Empty means none.
	FenceHook string
	// NudgeAfter is how long a node has to report an unmount before it is asked.
	NudgeAfter time.Duration
	// RetryMin and RetryMax bound the wait between two tries of the same call.
	RetryMin, RetryMax time.Duration
	// AttachTimeout bounds one attach, detach or unmount; MakeTimeout one create, delete, expand or
	// snapshot; ListTimeout one list or validation.
	AttachTimeout, MakeTimeout, ListTimeout time.Duration
	// SlowAfter is how long an attach or detach keeps others of its plugin and node waiting.
	SlowAfter time.Duration
	// Patience is how long a caller waits for another try after the first one failed.
	Patience time.Duration
	// NoRoomFor is how long a node gets no more of a plugin's volumes after its driver had no room for one.
	NoRoomFor time.Duration
	// Attaching, Detaching and Making bound the calls in flight per plugin.
	Attaching, Detaching, Making int
}

// Default returns the usual limits.
func Default() Limits {
	return Limits{
		FenceAfter: 30 * time.Second, LeaseMargin: 2 * time.Second, NudgeAfter: 2 * time.Second,
		RetryMin: time.Second, RetryMax: time.Minute,
		AttachTimeout: 2 * time.Minute, MakeTimeout: 5 * time.Minute, ListTimeout: 30 * time.Second,
		SlowAfter: time.Second, Patience: 10 * time.Second, NoRoomFor: 5 * time.Minute, Attaching: 8, Detaching: 8, Making: 8,
	}
}

func (l Limits) orDefault() Limits {
	d := Default()
	for _, f := range []struct{ have, standard *time.Duration }{
		{&l.FenceAfter, &d.FenceAfter},
		{&l.LeaseMargin, &d.LeaseMargin},
		{&l.NudgeAfter, &d.NudgeAfter},
		{&l.RetryMin, &d.RetryMin},
		{&l.RetryMax, &d.RetryMax},
		{&l.AttachTimeout, &d.AttachTimeout},
		{&l.MakeTimeout, &d.MakeTimeout},
		{&l.ListTimeout, &d.ListTimeout},
		{&l.SlowAfter, &d.SlowAfter},
		{&l.Patience, &d.Patience},
		{&l.NoRoomFor, &d.NoRoomFor},
	} {
		if *f.have <= 0 {
			*f.have = *f.standard
		}
	}
	for _, f := range []struct{ have, standard *int }{
		{&l.Attaching, &d.Attaching}, {&l.Detaching, &d.Detaching}, {&l.Making, &d.Making},
	} {
		if *f.have <= 0 {
			*f.have = *f.standard
		}
	}
	return l
}

// Service is the room.
type Service struct {
	log    hclog.Logger
	state  *state.Store
	raft   fsm.Proposer
	nodes  rpc.NodeCaller
	limits Limits
	now    func() time.Time
	chance func(string, time.Duration) time.Duration
	begin  func(context.Context, string)
	gates  *gates

	mu sync.Mutex
	// refusals are final answers of drivers by intent, for the callers that wait for them.
	refusals map[uint64]error
	outcomes map[uint64]outcome
	losses   losses
}

// New makes the room.
func New(c Config) *Service {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Chance == nil {
		c.Chance = func(_ string, below time.Duration) time.Duration { return rand.N(below) }
	}
	if c.Begin == nil {
		c.Begin = func(context.Context, string) {}
	}
	return &Service{
		log: c.Log, state: c.State, raft: c.Raft, nodes: c.Nodes, limits: c.Limits.orDefault(),
		now: c.Now, chance: c.Chance, begin: c.Begin,
		gates: newGates(), refusals: map[uint64]error{}, outcomes: map[uint64]outcome{},
	}
}

// Handlers binds the room's methods.
func (s *Service) Handlers() []wire.Handler {
	return []wire.Handler{
		wire.VolumeRegister.Handle(s.Register),
		wire.VolumeCreate.Handle(s.Create),
		wire.VolumeDeregister.Handle(s.Deregister),
		wire.VolumeDelete.Handle(s.Delete),
		wire.VolumeDetach.Handle(s.Detach),
		wire.VolumeList.Handle(s.List),
		wire.VolumeGet.Handle(s.Get),
		wire.VolumeClaim.Handle(s.Claim),
		wire.VolumeUnpublish.Handle(s.Unpublish),
		wire.VolumeListExternal.Handle(s.ListExternal),
		wire.VolumeSnapshotCreate.Handle(s.CreateSnapshots),
		wire.VolumeSnapshotDelete.Handle(s.DeleteSnapshot),
		wire.VolumeSnapshotList.Handle(s.ListSnapshots),
		wire.PluginList.Handle(s.ListPlugins),
		wire.PluginGet.Handle(s.GetPlugin),
	}
}

func namespaceOf(ns string) string {
	if ns == "" {
		return api.DefaultNamespace
	}
	return ns
}

func missing(ns, id string) error {
	return fault.New(fault.NotFound, "volume %q in namespace %q does not exist", id, ns)
}

// write proposes a command and answers its index.
func (s *Service) write(ctx context.Context, c fsm.Command) (uint64, error) {
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return 0, err
	}
	return res.Index, nil
}
