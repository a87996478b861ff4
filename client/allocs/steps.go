package allocs

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/steps"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Scope is what the steps of one allocation share. Each field names its writer.
type Scope struct {
	// Alloc is the allocation as it was when Up began; written by Run.
	Alloc *api.Allocation
	// Mounts are the mounted volumes by their name in the group; written by the volumes step.
	Mounts map[string]driver.Mount
	// running is closed when the tasks have ended or were left; written by the tasks step, nil before.
	running chan struct{}
	// life ends with the agent; written by Run.
	life context.Context
}

// list is the life of an allocation: Up from top to bottom, Down from bottom to top.
func (a *Alloc) list() []steps.Step[Scope] {
	return []steps.Step[Scope]{
		directories{a.building, a.dir, a.tellWaiting},
		predecessors{a.conf.Ended},
		data{a},
		limit{a},
		network{a},
		volumes{a.conf.Volumes},
		workload{a.tasks},
	}
}

// eventWaiting is the event that names what an allocation waits for before its tasks are started.
const eventWaiting = "Waiting"

func (a *Alloc) tellWaiting(text string) { a.tasks.Tell(a.taskNames(), eventWaiting, text) }

const (
	// diskPause is the pause between tries to write to a disk that takes nothing.
	diskPause = time.Second
	// diskSilence is the time after which an unresponsive disk is reported.
	diskSilence = 2 * time.Second
)

// directories makes the allocation's directories. They stay until [Alloc.Destroy], because users read logs, except for the
// secrets that are in memory: these end with the tasks, or, if something is mounted there, with the files. It waits
// for a disk that accepts no writes or does not respond, and reports that once.
type directories struct {
	building *building
	dir      dirs.Alloc
	tell     func(text string)
}

// building changes directories, in a goroutine of its own: a disk that hangs holds up neither a stop nor the end of the agent.
type building struct {
	build func() error
	// silence is the time after which an unresponsive disk is reported; 0 means diskSilence.
	silence time.Duration
	mu      sync.Mutex
	// over is closed when the last try has ended, err is its outcome.
	over chan struct{}
	err  error
}

// begin begins a try unless one is under way; over is closed when it has ended.
func (b *building) begin() (over chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over != nil {
		select {
		case <-b.over:
		default:
			return b.over
		}
	}
	over = make(chan struct{})
	b.over = over
	go func() {
		err := b.build()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
		close(over)
	}()
	return over
}

// ended waits until no try is under way.
func (b *building) ended(ctx context.Context) error {
	b.mu.Lock()
	over := b.over
	b.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "the disk of its directory does not respond: %w", ctx.Err())
	}
}

func (b *building) outcome() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (directories) Name() string { return "directories" }

func (s directories) Up(ctx context.Context, _ *Scope) error {
	return s.building.untilDone(ctx, s.tell)
}

// untilDone repeats tries until one succeeds, fails for another reason than an unwritable disk, or ctx ends.
func (b *building) untilDone(ctx context.Context, report func(text string)) error {
	told := false
	tell := func(why string) {
		if !told {
			report("The disk of the node is waited for: " + why)
		}
		told = true
	}
	silence := time.NewTimer(cmp.Or(b.silence, diskSilence))
	defer silence.Stop()
	for {
		for over := b.begin(); over != nil; {
			select {
			case <-over:
				over = nil
			case <-silence.C:
				tell("it does not answer")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := b.outcome()
		if !dirs.Unwritable(err) {
			return err
		}
		tell(err.Error())
		if !retry.Sleep(ctx, diskPause) {
			return ctx.Err()
		}
	}
}

func (s directories) Down(context.Context, *Scope) error {
	_ = s.dir.UnmountSecrets() // Destroy does it again, and reports why it fails
	return nil
}

// predecessors waits for allocations on this node that this one replaces, whose ports it may need.
type predecessors struct {
	ended func(allocID string) <-chan struct{}
}

func (predecessors) Name() string { return "predecessors" }

func (s predecessors) Up(ctx context.Context, scope *Scope) error {
	if s.ended == nil {
		return nil
	}
	for _, id := range append([]string{scope.Alloc.PreviousAllocation}, scope.Alloc.PreemptedAllocations...) {
		over := s.ended(id)
		if over == nil {
			continue
		}
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (predecessors) Down(context.Context, *Scope) error { return nil }

// network makes the network of the allocation when its group asks for another one than the host's.
type network struct{ *Alloc }

func (network) Name() string { return "network" }

func (s network) Up(ctx context.Context, scope *Scope) error {
	if s.conf.Networks == nil {
		return nil
	}
	status, err := s.conf.Networks.Up(ctx, scope.Alloc)
	if err != nil {
		return err
	}
	if status != nil {
		s.setNetwork(status)
		scope.Alloc = s.Present()
	}
	return nil
}

func (s network) Down(ctx context.Context, scope *Scope) error {
	if s.conf.Networks == nil {
		return nil
	}
	return s.conf.Networks.Down(ctx, scope.Alloc)
}

// volumes mounts and unmounts what the group asks for. Groups without volumes are taken down too: they may have
// provided a plugin.
type volumes struct{ service Volumes }

func (volumes) Name() string { return "volumes" }

func (s volumes) Up(ctx context.Context, scope *Scope) (err error) {
	if g := scope.Alloc.Group(); s.service == nil || g == nil || len(g.Volumes) == 0 {
		return nil
	}
	scope.Mounts, err = s.service.Up(ctx, scope.Alloc)
	return err
}

func (s volumes) Down(ctx context.Context, scope *Scope) error {
	if s.service == nil || scope.Alloc.Group() == nil {
		return nil
	}
	return s.service.Down(ctx, scope.Alloc.ID)
}

// workload runs the tasks.
type workload struct{ tasks Tasks }

func (workload) Name() string { return "tasks" }

func (s workload) Up(_ context.Context, scope *Scope) error {
	scope.running = make(chan struct{})
	go func() {
		defer close(scope.running)
		_ = s.tasks.Run(scope.life, scope.Mounts)
	}()
	return nil
}

func (s workload) Down(ctx context.Context, scope *Scope) error {
	if scope.running == nil {
		s.tasks.Abandon(ctx, nil)
		return ctx.Err()
	}
	s.tasks.Stop()
	select {
	case <-scope.running:
		return scope.life.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
