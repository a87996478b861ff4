package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

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
	calm   bool   // no more faults
	next   int    // for ids
	back   string // the node that came back last
	ops    []func(*state.Txn) error

	// outcast are the claims whose node was given up: allocation + volume.
	outcast map[string]bool
	// secrets are those that the storage wants, by external volume; frozen the first ones that a planted bug saw.
	secrets, frozen map[string]string
	// disowned are external volumes of which a user deregistered a spec: what the provider keeps is his.
	disowned map[string]bool
	wanted   string // the volume that the next allocation uses; empty for any
	story    Story
	broken   string
	checked  uint64 // index whose records hold the invariants
}

// letter is something under way; it arrives in any order.
type letter struct {
	what    string
	arrives func()
}

func newWorld(seed uint64, bug Bug) (*World, error) {
	s := state.New()
	w := &World{
		seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1_800_000_000, 0), store: s,
		rules: bug.rules(ledger.Standard()), bug: bug, driver: newDriver(), outcast: map[string]bool{}, disowned: map[string]bool{},
		secrets: map[string]string{}, frozen: map[string]string{},
	}
	w.leader = newLeader(0)
	registry := fsm.NewRegistry(commands.All)
	registry.Register(func() fsm.Command { return &op{world: w} })
	w.raft = fsm.NewLocal(s, registry)
	w.raft.Now = func() time.Time { return w.now }
	tx := s.Write(s.Read().Index()+1, w.now)
	tx.Commit()
	w.found()
	return w, nil
}

// found sets up nodes with two plugins, one that attaches and one that does not, and volumes of
// several kinds.
func (w *World) found() {
	for i := range 3 {
		w.nodes = append(w.nodes, &node{id: fmt.Sprintf("n%d", i+1), mounts: map[string]mount{}, owed: map[string]ledger.Hold{}})
	}
	w.must("found", func(tx *state.Txn) error {
		for _, n := range w.nodes {
			tx.PutNode(fingerprint(n.id))
		}
		for _, v := range w.volumes() {
			tx.PutVolume(v)
		}
		return nil
	})
}

// specs are the volumes that users have: two of each plugin, and a second spec of one of them.
var specs = []struct{ id, plugin, external string }{
	{"attach-0", "attach", "x-attach-0"},
	{"attach-1", "attach", "x-attach-1"},
	{"attach-2", "attach", "x-attach-1"},
	{"plain-0", "plain", "x-plain-0"},
	{"plain-1", "plain", "x-plain-1"},
}

// modes are those that volumes have beside single-node-writer.
var modes = []api.AccessMode{
	api.AccessSingleNodeWriter, api.AccessMultiNodeSingleWriter, api.AccessMultiNodeMultiWriter,
	api.AccessSingleNodeMulti, api.AccessMultiNodeReader,
}

func (w *World) volumes() []*api.Volume {
	var list []*api.Volume
	for _, s := range specs {
		mode := modes[w.rnd.IntN(len(modes))]
		if s.id == "attach-0" || s.id == "plain-0" {
			mode = api.AccessSingleNodeWriter
		}
		list = append(list, &api.Volume{
			VolumeSpec: api.VolumeSpec{
				ID: s.id, Name: s.id, Namespace: "default", PluginID: s.plugin, ExternalID: s.external,
				RequestedCapabilities: w.capabilities(mode),
			},
			Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: s.external},
		})
		for _, c := range list[len(list)-1].RequestedCapabilities {
			w.tell("volume %s is %s of %s, %s %s", s.id, s.external, s.plugin, c.AccessMode, c.AttachmentMode)
		}
	}
	return list
}

// capabilities are up to three of a volume, with the mode first.
func (w *World) capabilities(mode api.AccessMode) []*api.VolumeCapability {
	list := []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}}
	for range w.rnd.IntN(3) {
		next := &api.VolumeCapability{AccessMode: modes[w.rnd.IntN(len(modes))], AttachmentMode: api.AttachmentFileSystem}
		if w.rnd.IntN(6) == 0 {
			next.AttachmentMode = api.AttachmentBlock
		}
		if !slices.ContainsFunc(list, func(c *api.VolumeCapability) bool { return *c == *next }) {
			list = append(list, next)
		}
	}
	return list
}

func fingerprint(id string) *api.Node {
	info := func(plugin string, attaches bool) *api.CSIInfo {
		return &api.CSIInfo{
			PluginID: plugin, Healthy: true, RequiresControllerPlugin: attaches,
			NodeInfo: &api.CSINodeInfo{ID: "provider-" + id},
		}
	}
	controller := info("attach", true)
	controller.ControllerInfo = &api.CSIControllerInfo{SupportsAttachDetach: true, SupportsCreateDelete: true, SupportsExpand: true}
	return &api.Node{
		ID: id, Status: api.NodeStatusReady,
		CSINodePlugins:       map[string]*api.CSIInfo{"attach": info("attach", true), "plain": info("plain", false)},
		CSIControllerPlugins: map[string]*api.CSIInfo{"attach": controller},
	}
}

func (w *World) step() {
	w.story.Events++
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
	w.story.Lines = append(w.story.Lines, fmt.Sprintf("%8.1fs  ", w.now.Sub(time.Unix(1_800_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (w *World) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// chance is a whim with the given probability in percent; there are none in the end.
func (w *World) chance(percent int) bool { return !w.calm && w.rnd.IntN(100) < percent }

// faulty is a whim that does harm.
func (w *World) faulty(percent int) bool {
	yes := w.chance(percent)
	if yes {
		w.story.Faults++
	}
	return yes
}

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
