package reconciler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// errGone ends calls whose other end went away.
var errGone = errors.New("was lost during the call")

// flight is a call to a node: to its controller of the plugin, or with an empty plugin to the node itself.
type flight struct{ node, plugin string }

func (f flight) String() string {
	if f.plugin == "" {
		return "node " + f.node
	}
	return "the controller of plugin " + f.plugin + " on node " + f.node
}

// gone reports whether the node is lost or its plugin has no healthy controller, so that no reply can arrive.
func (f flight) gone(tx *state.Txn) bool {
	n := tx.Node(f.node)
	return ledger.Lost(n) || f.plugin != "" && n.HealthyController(f.plugin) == nil
}

// flights are the calls on their way, and the controllers that a call hung at.
type flights struct {
	mu   sync.Mutex
	next int
	all  map[int]inFlight
	hung map[flight]time.Time
}

type inFlight struct {
	flight
	cut context.CancelCauseFunc
}

func newFlights() *flights { return &flights{all: map[int]inFlight{}, hung: map[flight]time.Time{}} }

// begin follows a call: its context ends when the other end goes away. land must be called after it.
func (f *flights) begin(ctx context.Context, s *state.Store, to flight) (_ context.Context, land func()) {
	ctx, cut := context.WithCancelCause(ctx)
	f.mu.Lock()
	f.next++
	id := f.next
	f.all[id] = inFlight{to, cut}
	f.mu.Unlock()
	if to.gone(s.Read()) { // it went before it was followed
		cut(errGone)
	}
	return ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, id)
		cut(nil)
	}
}

// check ends the calls to a node, or with an empty id to all nodes, that will get no reply any more.
func (f *flights) check(tx *state.Txn, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.all)) { // in order, so that simulations repeat
		at := f.all[id]
		if (node == "" || at.node == node) && at.gone(tx) {
			at.cut(errGone)
		}
	}
}

// avoid has a controller asked after the others until a time.
func (f *flights) avoid(node, plugin string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hung[flight{node, plugin}] = until
}

func (f *flights) avoided(node, plugin string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hung[flight{node, plugin}].After(now)
}
