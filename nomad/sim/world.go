package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Failure is a broken invariant with the story that led to it.
type Failure struct {
	Seed   uint64
	Broken string
	Story  []string
}

// Times of the played cluster.
const (
	silence    = 20 * time.Second // after which a node may be marked down
	fenceAfter = 30 * time.Second
	lease      = 5 * time.Minute
)

// World is one run.
type World struct {
	seed   uint64
	rnd    *rand.Rand
	now    time.Time
	store  *state.Store
	raft   *fsm.Local
	rules  ledger.Rules
	bug    Bug
	nodes  []*node
	driver *driver
	leader *leader
	mail   []letter
	calm   bool // no more faults
	next   int  // for ids
	ops    []func(*state.Txn) error

	// outcast are the claims whose node was given up: allocation + volume.
	outcast map[string]bool
	story   []string
	broken  string
}

// letter is something under way; it arrives in any order.
type letter struct {
	what    string
	arrives func()
}

// Run plays one seed for a number of steps and answers what broke, or nil.
func Run(seed uint64, steps int, bug Bug) *Failure {
	w := newWorld(seed, bug)
	for range steps {
		w.step()
		if w.check(); w.broken != "" {
			return w.failure()
		}
	}
	w.settle()
	if w.broken != "" {
		return w.failure()
	}
	return nil
}

// Tell plays one seed and answers its story.
func Tell(seed uint64, steps int) string {
	w := newWorld(seed, NoBug)
	for range steps {
		w.step()
	}
	w.settle()
	return strings.Join(w.story, "\n")
}

func newWorld(seed uint64, bug Bug) *World {
	s, err := state.New()
	if err != nil {
		panic(err) // the schema is wrong
	}
	w := &World{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_800_000_000, 0), store: s,
		rules: bug.rules(ledger.Standard()), bug: bug, driver: newDriver(), outcast: map[string]bool{},
	}
	w.leader = &leader{inFlight: map[string]int{}}
	registry := fsm.NewRegistry()
	volumes.Commands(registry)
	registry.Register(func() fsm.Command { return &op{world: w} })
	w.raft = fsm.NewLocal(s, registry)
	w.raft.Now = func() time.Time { return w.now }
	w.found()
	return w
}

// found sets up nodes with two plugins, one that attaches and one that does not, and volumes of
// several kinds.
func (w *World) found() {
	for i := range 3 {
		w.nodes = append(w.nodes, &node{id: fmt.Sprintf("n%d", i+1), mounts: map[string]mount{}, owed: map[string]bool{}})
	}
	modes := []api.AccessMode{
		api.AccessSingleNodeWriter, api.AccessMultiNodeSingleWriter, api.AccessMultiNodeMultiWriter, api.AccessSingleNodeMulti,
	}
	w.must("found", func(tx *state.Txn) error {
		for _, n := range w.nodes {
			tx.PutNode(fingerprint(n.id))
		}
		for i, plugin := range []string{"attach", "plain"} {
			for k := range 2 {
				mode := modes[(i+k+w.rnd.IntN(len(modes)))%len(modes)]
				if k == 0 {
					mode = api.AccessSingleNodeWriter
				}
				id := fmt.Sprintf("%s-%d", plugin, k)
				tx.PutVolume(&api.Volume{
					VolumeSpec: api.VolumeSpec{
						ID: id, Namespace: "default", PluginID: plugin, ExternalID: "x-" + id,
						RequestedCapabilities: []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}},
					},
					Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "x-" + id},
				})
			}
		}
		return nil
	})
}

func fingerprint(id string) *api.Node {
	info := func(plugin string, attaches bool) *api.CSIInfo {
		return &api.CSIInfo{
			PluginID: plugin, Healthy: true, RequiresControllerPlugin: attaches,
			NodeInfo: &api.CSINodeInfo{ID: "provider-" + id},
		}
	}
	controller := info("attach", true)
	controller.ControllerInfo = &api.CSIControllerInfo{SupportsAttachDetach: true, SupportsCreateDelete: true}
	return &api.Node{
		ID: id, Status: api.NodeStatusReady,
		CSINodePlugins:       map[string]*api.CSIInfo{"attach": info("attach", true), "plain": info("plain", false)},
		CSIControllerPlugins: map[string]*api.CSIInfo{"attach": controller},
	}
}

func (w *World) step() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(4000)) * time.Millisecond)
	switch n := w.rnd.IntN(100); {
	case n < 35 && len(w.mail) > 0:
		w.deliver(w.rnd.IntN(len(w.mail)))
	case n < 55:
		w.leader.act(w)
	case n < 75:
		w.nodes[w.rnd.IntN(len(w.nodes))].act(w)
	case n < 92:
		w.user()
	default:
		w.fault()
	}
	for _, n := range w.nodes {
		n.enforce(w)
	}
}

func (w *World) send(what string, arrives func()) {
	w.mail = append(w.mail, letter{what, arrives})
}

func (w *World) deliver(i int) {
	l := w.mail[i]
	w.mail = append(w.mail[:i:i], w.mail[i+1:]...)
	w.tell("arrives: %s", l.what)
	l.arrives()
}

func (w *World) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8.1fs  ", w.now.Sub(time.Unix(1_800_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (w *World) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *World) failure() *Failure { return &Failure{Seed: w.seed, Broken: w.broken, Story: w.story} }

// chance reports a fault with the given probability in percent, while there are faults.
func (w *World) chance(percent int) bool { return !w.calm && w.rnd.IntN(100) < percent }

// propose brings a change into the log.
func (w *World) propose(what string, fn func(*state.Txn) error) error {
	w.ops = append(w.ops, fn)
	_, err := w.raft.Propose(context.Background(), &op{ID: uint64(len(w.ops))})
	if err != nil {
		w.tell("refused: %s: %v", what, err)
	} else {
		w.tell("%s", what)
	}
	return err
}

func (w *World) command(what string, c fsm.Command) (fsm.Result, error) {
	res, err := w.raft.Propose(context.Background(), c)
	if err != nil {
		w.tell("refused: %s: %v", what, err)
	} else {
		w.tell("%s", what)
	}
	return res, err
}

func (w *World) must(what string, fn func(*state.Txn) error) {
	if err := w.propose(what, fn); err != nil {
		w.fail("%s: %v", what, err)
	}
}
