package reconciler

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config is what the reconciler needs.
type Config struct {
	Log   hclog.Logger
	State *state.Store
	Raft  fsm.Proposer
	// Nodes reaches client agents, which host the controllers.
	Nodes rpc.NodeCaller
	// Secrets opens the secrets of volumes for the drivers.
	Secrets *secrets.Box
	Limits  Limits
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// Chance returns a random duration below the given one, for what is named; nil means chance itself.
	// Simulations have it repeat.
	Chance func(what string, below time.Duration) time.Duration
	// Begin is called before the loop looks at something; nil does nothing. Simulations bring an order into
	// what happens at once.
	Begin func(ctx context.Context, what string)
}

// Reconciler does what the state asks for; see the package.
type Reconciler struct {
	log      hclog.Logger
	state    *state.Store
	raft     fsm.Proposer
	nodes    rpc.NodeCaller
	secrets  *secrets.Box
	limits   Limits
	now      func() time.Time
	chance   func(string, time.Duration) time.Duration
	begin    func(context.Context, string)
	places   *places
	flights  *flights
	troubled *troubled

	// hold is the hold after a restore as it was last seen.
	hold *api.Rollback

	mu sync.Mutex
	// refusals are final errors of drivers, for the callers that wait for them.
	refusals map[request]error
	outcomes map[request]outcome
	losses   losses
	// retry wakes keys of the running loop and forgets their failed tries; nil while the loop does not run.
	retry func(...key)
	// termIndex is the raft index at which this leader's term began.
	termIndex uint64
}

// New makes a reconciler.
func New(c Config) *Reconciler {
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
	limits := c.Limits.orDefault()
	return &Reconciler{
		log: c.Log, state: c.State, raft: c.Raft, nodes: c.Nodes, secrets: c.Secrets, limits: limits,
		now: c.Now, chance: c.Chance, begin: c.Begin,
		places: newPlaces(), flights: newFlights(), troubled: newTroubled(2 * limits.RetryMax), refusals: map[request]error{}, outcomes: map[request]outcome{},
	}
}

// inherited reports whether an intent is older than this leader's term: a former leader may have called.
func (r *Reconciler) inherited(intent uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return intent <= r.termIndex
}
