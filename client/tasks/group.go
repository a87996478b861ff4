package tasks

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/templates"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Store keeps the records of the tasks of one allocation.
type Store interface {
	// PutTask stores a record; with durable it returns when it cannot be lost any more.
	PutTask(task string, r *store.TaskRecord, durable bool) error
}

// Plugin is what a task with a csi_plugin block needs around its life.
type Plugin interface {
	// Prepare makes what the plugin needs before it starts: mounts and variables of its environment.
	Prepare() ([]driver.Mount, map[string]string, error)
	// Supervise watches the running plugin until ctx ends. emit records an event of the task, restart asks
	// for a restart that counts as a failure.
	Supervise(ctx context.Context, emit func(eventType, message string), restart func(reason string))
	// Quiesce waits, bounded, until those who leave the node do not need the plugin any more. emit records an
	// event of the task.
	Quiesce(ctx context.Context, emit func(eventType, message string))
	// Cleanup removes what Prepare made, after the task has ended.
	Cleanup()
}

// Config is what a group of tasks needs.
type Config struct {
	Alloc *api.Allocation
	Dirs  dirs.Alloc
	Store Store
	// Restored are the records of an earlier agent process, by task.
	Restored map[string]*store.TaskRecord
	// Node returns the node as it is now.
	Node   func() *api.Node
	Region string
	// HostEnv is what tasks without image inherit from the agent.
	HostEnv map[string]string
	// Driver finds a task driver by its name.
	Driver func(name string) (driver.Driver, error)
	// Plugin returns what a csi_plugin task needs; isolated is set when the task has file system isolation.
	Plugin func(a *api.Allocation, t *api.Task, isolated bool) (Plugin, error)
	// Devices prepares the devices of tasks; nil when the node has none.
	Devices Devices
	// Network returns the network that the tasks run in; a nil func is that of the host.
	Network func() Network
	// Identities signs the identities of tasks; nil when the node has none.
	Identities Signer
	// ServeAPI begins to serve the API on the socket of a task until the listener is closed; nil when there is none.
	ServeAPI func(l net.Listener, task string)
	// Secrets fetches what secret blocks name; nil refuses them.
	Secrets Secrets
	// Artifacts downloads artifacts; nil refuses them.
	Artifacts Artifacts
	// Templates renders templates with functions; nil refuses them.
	Templates *templates.Program
	// Lease returns, at the start of each attempt, the lease that the task has to keep; nil when none.
	Lease func() *driver.Lease
	// Mounted returns an error when a volume of the allocation is not mounted any more; nil skips the check. It is
	// called before and after the start of each attempt of a task that mounts one.
	Mounted func() error
	// KillTimeoutMax caps the kill timeout of tasks; 0 means no cap.
	KillTimeoutMax time.Duration
	// Stuck receives the reason why a task cannot be ended; may be nil. It must not block.
	Stuck func(reason string)
	// Changed is called after every change of a task's state. It must not block.
	Changed func()
	// Happened is called for each event of a task; may be nil. It must not block.
	Happened func(task string, e *api.TaskEvent)
	// Jitter returns a random duration below its argument.
	Jitter func(time.Duration) time.Duration
	Log    hclog.Logger
}

// Group is all tasks of one allocation.
type Group struct {
	conf   Config
	tasks  []*task
	wakeup chan struct{}

	// asked is closed by Stop, skipDelay when shutdown delays are skipped.
	asked, skipDelay chan struct{}
	askOnce          sync.Once
	skipDelayOnce    sync.Once

	mu       sync.Mutex
	alloc    *api.Allocation
	mounts   map[string]driver.Mount
	stopping bool
	// lead starts leading a task; nil while the group does not run.
	lead func(*task)
}

// New makes the group of an allocation; nothing runs before [Group.Run].
func New(c Config) (*Group, error) {
	tg := c.Alloc.Group()
	if tg == nil {
		return nil, fault.New(fault.Invalid, "allocation %s has no task group %q in its job", c.Alloc.ID, c.Alloc.TaskGroup)
	}
	g := &Group{
		conf: c, alloc: c.Alloc, wakeup: make(chan struct{}, 1),
		asked: make(chan struct{}), skipDelay: make(chan struct{}),
	}
	for _, spec := range tg.Tasks {
		g.tasks = append(g.tasks, newTask(g, spec, c.Restored[spec.Name]))
	}
	g.skipShutdownDelay(c.Alloc)
	return g, nil
}

// Run leads the tasks until all are dead, and returns nil; when ctx ends it leaves them running and returns its error.
// It may be called once. A group that was already stopped continues the stop of an earlier agent process: its tasks end
// in their order, and poststop tasks run to their end.
func (g *Group) Run(ctx context.Context, mounts map[string]driver.Mount) error {
	var all sync.WaitGroup
	defer all.Wait()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	// Tasks outlast running: one that is dead still removes the traces of its last attempt.
	lead := func(t *task) { all.Go(func() { t.run(ctx) }) }
	g.mu.Lock()
	g.mounts, g.lead = mounts, lead
	select {
	case <-g.asked:
		g.stopping = true // the delay was an earlier process's
	default:
	}
	stopping := g.stopping
	g.mu.Unlock()
	if stopping {
		g.follow() // ends tasks before their attempts are taken up: one that ends now is not started again
	}
	for _, t := range g.tasks {
		lead(t)
	}
	all.Go(func() { g.delayStop(running) })
	for !g.follow() || !g.close() {
		select {
		case <-g.wakeup:
		case <-ctx.Done():
			g.mu.Lock()
			g.lead = nil
			g.mu.Unlock()
			return ctx.Err()
		}
	}
	return nil
}

// close ends the group unless a task was revived meanwhile.
func (g *Group) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tasks {
		if !t.row().dead() {
			return false
		}
	}
	g.lead = nil
	return true
}

// revive starts a dead task again while the group runs.
func (g *Group) revive(t *task) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lead == nil || g.stopping || !t.resetDead() {
		return fault.New(fault.Conflict, "Task not running")
	}
	g.lead(t)
	g.wake()
	return nil
}

// delayStop waits for the group's shutdown delay after Stop before the tasks end, and reports long waits.
func (g *Group) delayStop(ctx context.Context) {
	select {
	case <-g.asked:
	case <-ctx.Done():
		return
	}
	delay := g.present().Group().ShutdownDelay
	g.reportDelay(delay)
	if !pause(ctx, delay, g.skipDelay) {
		return
	}
	g.mu.Lock()
	g.stopping = true
	g.mu.Unlock()
	g.wake()
	g.reportPoststop(ctx)
}

// pause waits for the delay, or less when skip is closed; it reports whether ctx still lives.
func pause(ctx context.Context, delay time.Duration, skip <-chan struct{}) bool {
	if delay <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-skip:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// follow gives the orders that the present states ask for and reports whether all tasks are dead.
func (g *Group) follow() bool {
	rows := make([]row, len(g.tasks))
	over := true
	for i, t := range g.tasks {
		rows[i] = t.row()
		over = over && rows[i].dead()
	}
	if over {
		return true
	}
	g.mu.Lock()
	stopping := g.stopping
	g.mu.Unlock()
	next := order(rows, stopping)
	for _, t := range g.tasks {
		if slices.Contains(next.open, t.name) {
			t.open()
		}
		if because, ok := next.end[t.name]; ok {
			t.end(because)
		}
	}
	return false
}

func (g *Group) wake() {
	select {
	case g.wakeup <- struct{}{}:
	default:
	}
}

func (g *Group) present() *api.Allocation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.alloc
}

// changed notifies the group and its owner that a task has a new state.
func (g *Group) changed() {
	g.wake()
	g.conf.Changed()
}
