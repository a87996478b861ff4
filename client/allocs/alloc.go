package allocs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/checks"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/steps"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Volumes mounts the volumes of allocations.
type Volumes interface {
	// Up mounts all volumes of the allocation and returns them by their name in the group. An error is
	// final: what passes is retried inside.
	Up(ctx context.Context, a *api.Allocation) (map[string]driver.Mount, error)
	// Adopt returns what an earlier agent process mounted for the allocation, without any effect; an error means that
	// something of it is not there.
	Adopt(a *api.Allocation) (map[string]driver.Mount, error)
	// Down unmounts them, also when Up failed or an earlier agent process ran it.
	Down(ctx context.Context, allocID string) error
}

// Networks makes the networks of allocations whose groups do not use that of the host.
type Networks interface {
	// Up makes the network, or what is missing of it. The status is nil when the allocation has no address of its own.
	Up(ctx context.Context, a *api.Allocation) (*api.AllocNetworkStatus, error)
	// Down removes it, also when Up failed or an earlier agent process ran it.
	Down(ctx context.Context, a *api.Allocation) error
}

// Tasks is the group of tasks of one allocation.
type Tasks interface {
	Run(ctx context.Context, mounts map[string]driver.Mount) error
	Stop()
	Abandon(ctx context.Context, err error)
	Update(a *api.Allocation)
	States() map[string]*api.TaskState
	// RestartFailed restarts a running task as after a failure.
	RestartFailed(task, reason string)
	// RunScript runs a program in a running task and returns its exit code.
	RunScript(ctx context.Context, task string, args []string, out io.Writer) (code int, err error)
	// Tell records an event of the named tasks.
	Tell(names []string, kind, text string)
}

// Pages reads a page of the data of an allocation on another node, as the method Alloc.DiskData, and passes it to use.
type Pages func(ctx context.Context, r *api.DiskDataRequest, use func(*api.DiskDataResponse) error) error

// Store keeps the records of allocations.
type Store interface {
	PutAlloc(a *api.Allocation) error
	DeleteAlloc(id string) error
}

// Config is what an allocation needs.
type Config struct {
	Dirs    dirs.Tree
	Store   Store
	Journal steps.Journal
	Volumes Volumes
	// Networks makes the networks; nil makes none.
	Networks Networks
	// Tasks makes the tasks; changed is called after every change of a task and does not block.
	Tasks func(a *api.Allocation, dir dirs.Alloc, restored map[string]*store.TaskRecord, changed func()) (Tasks, error)
	// Checks runs the checks of services; nil when there are none.
	Checks *checks.Prober
	// Ended returns a channel that is closed once the tasks of another allocation of this node have ended;
	// nil when there is no such allocation.
	Ended func(allocID string) <-chan struct{}
	// Find returns another allocation of this node, nil when there is none; a nil Find finds none.
	Find func(allocID string) *Alloc
	// Pages reads pages of data from other nodes; nil reads none.
	Pages Pages
	// Changed is called after every change that the servers should hear of. It must not block.
	Changed func(allocID string)
	// StepDone is called after each step of its start; nil is not.
	StepDone func(step string, took time.Duration, err error)
	Pace     steps.Pace
	Log      hclog.Logger
}

// Alloc is one allocation on this node.
type Alloc struct {
	conf Config
	id   string
	dir  dirs.Alloc
	// building makes its directories.
	building *building
	// moving moves the data of its predecessor here.
	moving *building
	tasks  Tasks
	// settled is set when it has the data of its predecessor, or will not get it.
	settled atomic.Bool
	// checks is nil when no checks are run.
	checks *checks.Set
	// marks are what the journal said when an earlier agent process had the allocation.
	marks map[string]string
	clock *clock

	stopping, ended, down chan struct{}
	// pulse is signalled when the health may have changed.
	pulse             chan struct{}
	stopOnce, endOnce sync.Once
	// removing is full while the files are removed, or data is moved out of them; removed is set then when they may be incomplete.
	removing chan struct{}
	removed  bool
	// awaited is until when another node is assumed to wait for the data, in nanoseconds since 1970.
	awaited atomic.Int64

	mu    sync.Mutex
	alloc *api.Allocation
	// broken is the reason why the allocation can never run.
	broken error
}

// New makes an allocation; restored is its record from an earlier agent process, or nil.
func New(c Config, a *api.Allocation, restored *store.AllocRecord) (*Alloc, error) {
	dir, err := c.Dirs.Alloc(a.ID)
	if err != nil {
		return nil, err
	}
	out := &Alloc{conf: c, id: a.ID, dir: dir, alloc: a, clock: newClock(), stopping: make(chan struct{}), ended: make(chan struct{}), down: make(chan struct{})}
	out.building, out.moving = &building{build: dir.Build}, &building{}
	out.pulse, out.removing = make(chan struct{}, 1), make(chan struct{}, 1)
	var old map[string]*store.TaskRecord
	if restored != nil {
		old, out.marks = restored.Tasks, restored.Steps
		out.settled.Store(out.marks[data{}.Name()] == steps.MarkUp || out.marks[settledMark] == steps.MarkUp)
	} else if err := c.Store.PutAlloc(a); err != nil {
		return nil, fmt.Errorf("store allocation %s: %w", a.ID, err)
	}
	if out.tasks, err = c.Tasks(a, dir, old, out.changed); err != nil {
		out.broken, out.tasks = err, none{}
	}
	if c.Checks != nil {
		out.checks = c.Checks.Set(a, out.tasks, out.beat)
	}
	if a.ServerTerminal() {
		out.Stop()
	}
	out.noteEnd()
	return out, nil
}

// ID is the id of the allocation.
func (a *Alloc) ID() string { return a.id }

// Dir is where its files are.
func (a *Alloc) Dir() dirs.Alloc { return a.dir }

// Tasks returns its tasks, for what users ask of them.
func (a *Alloc) Tasks() Tasks { return a.tasks }

// Checks returns the last results of the checks of its services by their id.
func (a *Alloc) Checks() map[string]*api.AllocCheckStatus {
	if a.checks == nil {
		return nil
	}
	return a.checks.Results()
}

// Present returns the allocation as the servers sent it last. It is read-only.
func (a *Alloc) Present() *api.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.alloc
}

// Ended is closed when all tasks have ended.
func (a *Alloc) Ended() <-chan struct{} { return a.ended }

// Down is closed when everything that the allocation used on the node is given back but its files.
func (a *Alloc) Down() <-chan struct{} { return a.down }

// Stop asks the allocation to end. It may be called any number of times.
func (a *Alloc) Stop() { a.stopOnce.Do(func() { close(a.stopping) }) }

// Update takes over the servers' current version of the allocation.
func (a *Alloc) Update(next *api.Allocation) {
	a.mu.Lock()
	next = keepNetwork(a.alloc, keepHealth(a.alloc, next))
	a.alloc = next
	a.mu.Unlock()
	a.adopt(next)
	if next.ServerTerminal() {
		a.Stop()
	}
}

// setNetwork takes over the network that the allocation got.
func (a *Alloc) setNetwork(status *api.AllocNetworkStatus) {
	a.mu.Lock()
	if now := a.alloc.NetworkStatus; now != nil && reflect.DeepEqual(now, status) {
		a.mu.Unlock()
		return
	}
	next := *a.alloc
	next.NetworkStatus = status
	a.alloc = &next
	a.mu.Unlock()
	a.adopt(&next)
	a.conf.Changed(a.id)
}

// keepNetwork copies the network that the allocation has on this node, which the servers may not have received, into the
// servers' version.
func keepNetwork(now, next *api.Allocation) *api.Allocation {
	if now == nil || now.NetworkStatus == nil {
		return next
	}
	kept := *next
	kept.NetworkStatus = now.NetworkStatus
	return &kept
}

// adopt stores the present version of the allocation and passes it on.
func (a *Alloc) adopt(next *api.Allocation) {
	if err := a.conf.Store.PutAlloc(next); err != nil {
		a.conf.Log.Error("store allocation", "alloc_id", a.id, "error", err)
	}
	a.tasks.Update(next)
	if a.checks != nil {
		a.checks.Update(next)
	}
	a.beat()
}

// Run leads the allocation to its end and returns nil; when ctx ends it leaves tasks and mounts as they
// are and returns its error. It may be called once.
func (a *Alloc) Run(ctx context.Context) error {
	scope := &Scope{Alloc: a.Present(), life: ctx}
	if a.marks == nil { // what an earlier agent process began has its spans
		scope.life = tracing.OfEvaluation(ctx, scope.Alloc.EvalID)
	}
	engine := steps.New(a.list(), a.conf.Journal, a.conf.Pace, a.conf.Log.With("alloc_id", a.id))
	engine.Observe = a.conf.StepDone
	defer func() {
		if scope.running != nil {
			<-scope.running
		}
	}()
	if a.isBroken() != nil {
		a.conf.Changed(a.id)
	}
	attended, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { a.attendHealth(attended) })
	beside.Go(func() { a.attendRuntime(attended) })
	beside.Go(func() { a.probe(attended) })
	if err := a.markVolumes(); err != nil {
		return err
	}
	if err := a.up(ctx, engine, scope); err != nil {
		return err
	}
	if err := engine.Down(ctx, scope); err != nil {
		return err
	}
	a.noteEnd()
	close(a.down)
	a.conf.Log.Debug("allocation is down", "alloc_id", a.id)
	return nil
}

// probe runs the checks until the allocation is stopped or ctx ends.
func (a *Alloc) probe(ctx context.Context) {
	if a.checks == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-a.stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	a.checks.Run(ctx)
}

// markVolumes makes sure that the volumes are taken down even if the allocation is stopped before their
// step begins: they were claimed when it was placed.
func (a *Alloc) markVolumes() error {
	name := volumes{}.Name()
	if g := a.Present().Group(); g == nil || len(g.Volumes) == 0 || a.marks[name] != "" {
		return nil
	}
	if err := a.conf.Journal.Mark(name, steps.MarkBegun); err != nil {
		return fmt.Errorf("record step %s of allocation %s: %w", name, a.id, err)
	}
	return nil
}

// up brings the allocation up and stays until its tasks have ended or a stop is asked. The error is that
// of ctx; a step that failed ends the tasks instead.
func (a *Alloc) up(ctx context.Context, engine *steps.Engine[Scope], scope *Scope) error {
	if a.over() {
		if !allDead(a.tasks.States()) && !a.resume(ctx, scope) {
			a.tasks.Abandon(ctx, nil)
		}
		return ctx.Err()
	}
	rising, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-a.stopping:
			cancel()
		case <-rising.Done():
		}
	})
	err := a.rise(rising, engine, scope)
	stopped := rising.Err() != nil
	cancel()
	watch.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && stopped && scope.running == nil:
		if !a.resume(ctx, scope) {
			a.tasks.Abandon(ctx, nil)
		}
		return ctx.Err()
	case err != nil && scope.running == nil:
		a.conf.Log.Warn("allocation cannot be set up", "alloc_id", a.id, "error", err)
		a.tasks.Abandon(ctx, fmt.Errorf("failed to setup alloc: %w", err))
		return ctx.Err()
	}
	select {
	case <-scope.running:
	case <-a.stopping:
	}
	return ctx.Err()
}

// rise runs the steps, in the trace of the evaluation that placed the allocation.
func (a *Alloc) rise(ctx context.Context, engine *steps.Engine[Scope], scope *Scope) error {
	if a.marks == nil {
		ctx = tracing.OfEvaluation(ctx, scope.Alloc.EvalID)
	}
	ctx, span := tracing.Start(ctx, "allocation", "")
	span.Set("alloc_id", a.id)
	span.Set("node_id", scope.Alloc.NodeID)
	err := engine.Up(ctx, scope)
	span.End(err)
	if id := tracing.ID(ctx); id != "" {
		a.conf.Log.Debug("allocation is set up", "alloc_id", a.id, "trace_id", id)
	}
	return err
}

// resume continues the end of tasks that an earlier agent process led: they end in their order, and poststop tasks,
// which may use the volumes, are run. It reports false when there is nothing to continue, or not all volumes are
// mounted.
func (a *Alloc) resume(ctx context.Context, scope *Scope) bool {
	step := workload{a.tasks}
	if mark := a.marks[step.Name()]; mark != steps.MarkBegun && mark != steps.MarkUp || a.isBroken() != nil {
		return false
	}
	if a.conf.Volumes != nil {
		var err error
		if scope.Mounts, err = a.conf.Volumes.Adopt(scope.Alloc); err != nil {
			a.conf.Log.Warn("tasks that were being stopped are ended at once", "alloc_id", a.id, "error", err)
			return false
		}
	}
	a.tasks.Stop()
	return step.Up(ctx, scope) == nil
}

// over reports whether there is nothing to bring up: the tasks have ended, or must.
func (a *Alloc) over() bool {
	select {
	case <-a.ended:
		return true
	case <-a.stopping:
		return true
	default:
	}
	return a.marks["tasks"] == steps.MarkDown || a.isBroken() != nil
}

func (a *Alloc) isBroken() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken
}

// changed follows a change of a task.
func (a *Alloc) changed() {
	a.noteEnd()
	if a.checks != nil {
		a.checks.TasksChanged()
	}
	a.beat()
	a.conf.Changed(a.id)
}

func (a *Alloc) noteEnd() {
	if a.tasks == nil { // still being made
		return
	}
	if s, _ := status(a.tasks.States(), a.isBroken()); s == api.AllocClientStatusComplete || s == api.AllocClientStatusFailed {
		if allDead(a.tasks.States()) {
			a.endOnce.Do(func() { close(a.ended) })
		}
	}
}

// Destroy removes the files and the record of an allocation that is down. The collector and a user may call it at the same
// time; the second call then finds nothing.
func (a *Alloc) Destroy(ctx context.Context) error {
	select {
	case <-a.down:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, b := range []*building{a.building, a.moving} { // they would make them again
		if err := b.ended(ctx); err != nil {
			return fmt.Errorf("destroy allocation %s: %w", a.id, err)
		}
	}
	select {
	case a.removing <- struct{}{}:
		defer func() { <-a.removing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	a.removed = true
	if err := a.dir.Remove(); err != nil {
		return fmt.Errorf("destroy allocation %s: %w", a.id, err)
	}
	return a.conf.Store.DeleteAlloc(a.id)
}

// none stands for the tasks of an allocation that has none it can run.
type none struct{}

func (none) Run(context.Context, map[string]driver.Mount) error { return errors.New("nothing to run") }
func (none) Stop()                                              {}
func (none) Abandon(context.Context, error)                     {}
func (none) Update(*api.Allocation)                             {}
func (none) RestartFailed(string, string)                       {}
func (none) RunScript(context.Context, string, []string, io.Writer) (int, error) {
	return 0, fault.New(fault.Conflict, "the allocation has no tasks")
}
func (none) Tell([]string, string, string)     {}
func (none) States() map[string]*api.TaskState { return nil }
