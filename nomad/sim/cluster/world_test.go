package cluster

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Options say how a seed is played.
type Options struct {
	// Steps is how many events there are, at least, before all faults cease.
	Steps int
	Bug   Bug
}

// Tally counts what happened.
type Tally struct {
	// Events are actions, entries of the log, calls to the driver, mounts and unmounts.
	Events, Actions, Entries, Faults, Elections, Mounts, Leases, Given, Snapshots, Installs, Replaced, Restores int
	// Healing is the longest time until all was well after the faults.
	Healing time.Duration
}

func (t *Tally) add(o Tally) {
	t.Events += o.Events
	t.Faults += o.Faults
	t.Elections += o.Elections
	t.Mounts += o.Mounts
	t.Given += o.Given
	t.Actions += o.Actions
	t.Entries += o.Entries
	t.Leases += o.Leases
	t.Snapshots += o.Snapshots
	t.Installs += o.Installs
	t.Replaced += o.Replaced
	t.Restores += o.Restores
	t.Healing = max(t.Healing, o.Healing)
}

// World is one run.
type World struct {
	seed  uint64
	bug   Bug
	root  context.Context
	began time.Time
	dice  dice
	rnd   *rand.Rand // of the goroutine that leads the run

	mu       sync.Mutex
	log      log
	archives archives
	servers  []*server
	nodes    []*node
	hosts    []*node // of controllers
	storage  *fake.Storage
	// attachedAs are the modes in which the storage was asked to attach, by external volume and node.
	attachedAs map[string]api.AccessMode
	excused    int               // violations of the storage that were looked at
	secrets    map[string]string // that the storage wants, by external volume
	busy       map[string]*working
	frozen     map[string]map[string]string // secrets, for a planted bug
	cut        map[[2]string]bool
	calm       bool
	outcast    map[string]bool // mounts whose node was given up
	disowned   map[string]bool // external volumes of which a user forgot a spec
	assumed    map[string]bool // those of them by an operator
	dead       *node           // for good, as far as the others know
	calls      map[string]int  // controller calls in flight, by term and volume
	digests    map[int]string  // of states, by applied entries
	electing   bool
	founded    bool
	replacing  bool // a server that was destroyed

	lines  []string
	told   []time.Duration // when, for each line
	tally  Tally
	broken string
	jobs   []*job
	placed int
	lease  time.Duration     // of volumes without attach
	losses map[string]string // on_node_loss by volume
}

// dice are thrown per place: what one place gets does not depend on when others throw.
type dice struct {
	mu   sync.Mutex
	seed uint64
	n    map[string]uint64
}

func (d *dice) roll(place string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n[place]++
	if *messages {
		fmt.Printf("%s dice %s: %d\n", time.Now().Format("04:05.000000000"), place, d.n[place])
	}
	return rand.New(rand.NewPCG(d.seed^h.Sum64(), d.n[place]))
}

// locked is a source for several goroutines.
type locked struct {
	mu  sync.Mutex
	src rand.Source
}

// Uint64 implements [rand.Source].
func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.src.Uint64()
}

func newWorld(ctx context.Context, seed uint64, o Options) *World {
	w := &World{
		seed: seed, bug: o.Bug, root: ctx, began: time.Now(),
		dice: dice{seed: seed * 0x9e3779b97f4a7c15, n: map[string]uint64{}},
		rnd:  rand.New(&locked{src: rand.NewPCG(seed, 11)}),
		cut:  map[[2]string]bool{}, outcast: map[string]bool{}, disowned: map[string]bool{}, assumed: map[string]bool{}, calls: map[string]int{}, digests: map[int]string{},
		storage: fake.NewStorage(), attachedAs: map[string]api.AccessMode{}, secrets: map[string]string{}, busy: map[string]*working{}, frozen: map[string]map[string]string{},
	}
	w.archives = archives{forgotten: map[string]bool{}, spared: map[string]bool{}, doomed: map[string]bool{}}
	w.lease = []time.Duration{10 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute}[w.rnd.IntN(4)]
	w.losses = map[string]string{
		"a3": []string{api.NodeLossFence, api.NodeLossAssume}[w.rnd.IntN(2)],
		"s1": []string{"", api.NodeLossFence, api.NodeLossWait}[w.rnd.IntN(3)],
	}
	if o.Bug == BugWriteBack || o.Bug == BugToldServers { // of which more end
		w.lease = 20 * time.Second
	}
	return w
}

// Run plays one seed inside of a bubble.
func Run(seed uint64, o Options) *World {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld(ctx, seed, o)
	w.found()
	if !w.founded {
		w.fail("the cluster was not founded")
	}
	for w.events() < o.Steps && !w.failed() {
		w.pause(w.rnd)
		w.step()
		w.quiet()
		w.check()
	}
	if !w.failed() {
		w.finish()
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	cancel()
	for _, n := range w.all() {
		n.kernel.Wake()
	}
	time.Sleep(time.Hour)
	return w
}

// all are the nodes and the hosts of controllers.
func (w *World) all() []*node { return append(slices.Clone(w.hosts), w.nodes...) }

// quiet waits until nobody has anything to do at this moment.
func (w *World) quiet() { synctest.Wait() }

func (w *World) events() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tally.Events
}

// pause lets time go by until the next action: mostly little, sometimes much.
func (w *World) pause(r *rand.Rand) {
	switch n := r.IntN(100); {
	case n < 60:
		time.Sleep(w.some(r, 400*time.Millisecond))
	case n < 95:
		time.Sleep(w.some(r, 3*time.Second))
	default:
		time.Sleep(w.some(r, min(w.lease, time.Minute)/2))
	}
}

// some is a random duration below most, never the same.
func (w *World) some(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most))) + 1
}

func (w *World) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != ""
}

// brief describes a command; seeds do not depend on where its type is declared.
func brief(cmd fsm.Command) string {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", cmd), ".")
	switch c := cmd.(type) {
	case *commands.Attached:
		return fmt.Sprintf("%s %s %s by %d published=%v %s", name, c.ExternalID, c.NodeID, c.Fence, c.Published, c.Reason)
	case *commands.Evict:
		return fmt.Sprintf("%s %s %v on %s: %s by %s", name, c.VolumeID, c.AllocIDs, c.NodeID, c.Proof, c.By)
	case *commands.Report:
		return fmt.Sprintf("%s %s %s on %s %s", name, c.VolumeID, c.AllocID, c.NodeID, c.Reason)
	case *commands.Provisioned:
		return fmt.Sprintf("%s %s %s %s", name, c.Answer.ID, c.ExternalID, c.Answer.Reason)
	case *commands.EndDelete:
		return fmt.Sprintf("%s %s %s", name, c.Answer.ID, c.Answer.Reason)
	case *commands.EndExpand:
		return fmt.Sprintf("%s %s %s", name, c.Answer.ID, c.Answer.Reason)
	case *commands.WriteOff:
		return fmt.Sprintf("%s %s %s", name, c.ExternalID, c.NodeID)
	case *commands.BeginDelete:
		return name + " " + c.ID
	case *commands.Deregister:
		return name + " " + c.ID
	case *commands.BeginExpand:
		return name + " " + c.ID
	case *commands.NodeExpanded:
		return name + " " + c.ID + " " + c.NodeID
	case *nodes.SetStatus:
		return fmt.Sprintf("%s %s %s silent for %s", name, c.NodeID, c.Status, c.Silence)
	case *nodes.RegisterNode:
		return fmt.Sprintf("%s %s %s", name, c.Node.ID, c.Node.BootID)
	case *allocs.UpdateClient:
		for _, a := range c.Allocs {
			name += " " + a.ID + " " + a.ClientStatus
		}
	case *plan.Apply:
		for _, e := range c.Plans {
			for _, s := range e.Stops {
				name += " stop " + s.ID + " " + s.Why
			}
			for _, a := range e.Places {
				name += " place " + a.ID + " on " + a.NodeID
			}
		}
	}
	return name
}

func orError(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

var quiet = hclog.NewNullLogger()

// sleep waits, and reports whether ctx and the world go on.
func (w *World) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
	case <-w.root.Done():
	}
	return false
}

// tell adds to the story; the lock is held.
func (w *World) tell(format string, args ...any) {
	if w.root.Err() == nil && w.broken == "" {
		// What several do at the same moment is told in the order of the words: nobody was first.
		at := time.Since(w.began)
		line := fmt.Sprintf("%10.4fs  ", at.Seconds()) + fmt.Sprintf(format, args...)
		i := len(w.lines)
		for i > 0 && w.told[i-1] == at && w.lines[i-1] > line {
			i--
		}
		w.lines, w.told = slices.Insert(w.lines, i, line), slices.Insert(w.told, i, at)
	}
}

// say is tell without the lock.
func (w *World) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(format, args...)
}

// fail notes a broken invariant; the lock is held.
func (w *World) fail(format string, args ...any) {
	if w.broken == "" && w.root.Err() == nil {
		w.tell("BROKEN: "+format, args...)
		w.broken = fmt.Sprintf(format, args...)
	}
}

// faulty throws dice for harm, in percent; there is none in the end.
func (w *World) faulty(r *rand.Rand, percent int) bool { return w.rarely(r, 10*percent) }

// rarely is faulty in thousandths.
func (w *World) rarely(r *rand.Rand, permille int) bool {
	yes := r.IntN(1000) < permille
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || !yes {
		return false
	}
	w.tally.Faults++
	return true
}

// Story tells the run.
func (w *World) Story() string { return strings.Join(w.lines, "\n") }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var _ fsm.Proposer = (*server)(nil)
