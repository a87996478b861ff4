package rawexec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
	"github.com/open-nomad/open-nomad/plugins/driver/pace"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise/frame"
)

// task is a task that this driver knows; process is nil while it is being started, and when its start hangs.
type task struct {
	process *supervise.Process
	// starter is the pid of the supervising process while process is nil; 0 before there is one.
	starter atomic.Int64
	// hangs is set when the start was abandoned and has not ended.
	hangs *supervise.Hang

	mu       sync.Mutex
	measured time.Time
	last     supervise.Usage
}

// reserve takes the id so that two starts of one task cannot both succeed.
func (d *Driver) reserve(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, taken := d.tasks[id]; taken {
		if t.hangs != nil {
			return nil, hanging("an earlier start", t.hangs)
		}
		return nil, fault.New(fault.Conflict, "task %s is already known to driver %s", id, d.Name())
	}
	t := &task{}
	d.tasks[id] = t
	return t, nil
}

// giveUp keeps the id of a task whose start hangs until that has ended.
func (d *Driver) giveUp(id string, h *supervise.Hang) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id].hangs = h
	go func() {
		<-h.Gone
		d.mu.Lock()
		defer d.mu.Unlock()
		if t := d.tasks[id]; t != nil && t.hangs == h {
			delete(d.tasks, id)
		}
	}()
	return hanging("its start", h)
}

func hanging(what string, h *supervise.Hang) error {
	var left []string
	for _, r := range h.Left {
		left = append(left, driver.Remain(r).String())
	}
	return fault.New(fault.Unavailable, "%s hangs: %s: it ends when its storage answers, and begins nothing more", what, strings.Join(left, ", "))
}

func (d *Driver) adopt(id string, p *supervise.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[id] = &task{process: p}
	d.detachSame(p)
}

func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
}

func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[id]
	if t == nil || t.process == nil {
		return nil, fault.New(fault.NotFound, "task %s of driver %s", id, d.Name())
	}
	return t, nil
}

// starts and ends pace those of all tasks of the node that are processes of the host. The kernel removes mount namespaces one
// after the other: of 200 isolated tasks that are killed at once the last ones would look as if they did not end.
var (
	starts = pace.New(max(16, 4*runtime.NumCPU()), time.Second)
	ends   = pace.New(max(16, 4*runtime.NumCPU()), time.Second)
)

// inTurn is launch when fewer other starts use the processors.
func (d *Driver) inTurn(ctx context.Context, program string, spec *frame.Spec, t *task) (*supervise.Process, error) {
	leave, err := starts.Take(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for other starts: %w", err)
	}
	defer leave()
	return d.launch(ctx, program, spec, t)
}

func (d *Driver) launch(ctx context.Context, program string, spec *frame.Spec, t *task) (*supervise.Process, error) {
	if err := d.clearState(ctx, spec.State); err != nil {
		return nil, err
	}
	return supervise.Start(ctx, program, spec, func(pid int) { t.starter.Store(int64(pid)) })
}

// clearState removes what an earlier start of the same task left, unless that one runs or has run.
func (d *Driver) clearState(ctx context.Context, state string) error {
	if !leftTraces(state) {
		return nil
	}
	if _, ok := supervise.ExitOf(state); ok {
		return fault.New(fault.Conflict, "the task has run already")
	}
	switch id, err := d.find(ctx, state); {
	case err == nil:
		return fault.New(fault.Conflict, "task %s runs already, as process %d", id.TaskID, id.TaskPID)
	case !errors.Is(err, fault.NotFound):
		return err
	}
	return supervise.Remove(state)
}

// leftTraces reports whether there is a file at a state path; the lock, which comes first, is asked for first.
func leftTraces(state string) bool {
	for _, ending := range []string{".lock", ".exit", ".sock"} {
		if unix.Access(state+ending, unix.F_OK) == nil {
			return true
		}
	}
	return false
}

func (t *task) wait(ctx context.Context) error {
	select {
	case <-t.process.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for task %s: %w", t.process.Ident().TaskID, ctx.Err())
	}
}

// obeyWait is how long a supervising process has to kill its task before that is done without it.
const obeyWait = 2 * time.Second

// kill ends the task's tree, also when the supervising process does not obey. That process has time to report the end,
// unless it is stopped, and little time when it has never responded. A process whose task the kernel does not end is
// left alone: it reports the end when that comes, and keeps the lease of its volumes until then. kill returns an error
// of class fault.Unavailable for it.
func (t *task) kill(ctx context.Context) error {
	select {
	case <-t.process.Done():
		return nil
	default:
	}
	leave, err := ends.Take(ctx)
	if err != nil {
		return fmt.Errorf("wait for the ends of other tasks: %w", err)
	}
	defer leave()
	if !t.process.Stopped() && t.process.Kill() == nil && t.waitFor(ctx, obeyWait) {
		return nil
	}
	t.process.Force()
	if left := t.stuck(); len(left) > 0 && t.process.Answers() && !t.process.Stopped() {
		return fault.New(fault.Unavailable, "end task %s: %s", t.process.Ident().TaskID, driver.Explain(left))
	}
	patience := killWait
	if !t.process.Answers() {
		patience = obeyWait
	}
	if !t.process.Stopped() && t.waitFor(ctx, patience) {
		return nil
	}
	if ctx.Err() == nil {
		t.process.GiveUp()
	}
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	return t.wait(ctx)
}

// stuck lists the processes that the kernel does not end.
func (t *task) stuck() (out []driver.Remain) {
	for _, r := range t.process.Remains() {
		if r := driver.Remain(r); r.Stuck() {
			out = append(out, r)
		}
	}
	return out
}

// waitFor reports whether the task has exited within the time.
func (t *task) waitFor(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.wait(ctx) == nil
}

func (t *task) exit() *driver.Exit { return exitOf(t.process.Exit(), t.process.Ident().Memory) }

// usage measures processor use since the last call; the first call measures since the start.
func (t *task) usage(now time.Time) *api.TaskResourceUsage {
	t.mu.Lock()
	defer t.mu.Unlock()
	u, running := t.process.Usage()
	ident := t.process.Ident()
	counted := limits.Measure(ident.Cgroup, ident.Scopes)
	if counted.Counted {
		u.User, u.System = counted.User, counted.System
	}
	if !running {
		return &api.TaskResourceUsage{Timestamp: now.UnixNano(), ResourceUsage: &api.ResourceUsage{
			MemoryStats: &api.MemoryStats{}, CpuStats: &api.CpuStats{},
		}}
	}
	span := t.process.Age()
	if !t.measured.IsZero() {
		span = now.Sub(t.measured)
	}
	percent := func(now, before time.Duration, span time.Duration) float64 {
		return 100 * max(now-before, 0).Seconds() / max(span.Seconds(), 0.001)
	}
	user, system := percent(u.User, t.last.User, span), percent(u.System, t.last.System, span)
	t.measured, t.last = now, u
	pids := make(map[string]*api.ResourceUsage, len(u.PIDs))
	for _, pid := range u.PIDs {
		pids[strconv.Itoa(pid)] = &api.ResourceUsage{}
	}
	cpu := &api.CpuStats{
		UserMode: user, SystemMode: system, Percent: user + system, ThrottledPeriods: counted.ThrottledPeriods, ThrottledTime: uint64(counted.Throttled),
		Measured: []string{"System Mode", "User Mode", "Percent"},
	}
	if counted.Counted {
		cpu.Measured = append(cpu.Measured, "Throttled Periods", "Throttled Time")
	}
	memory := counted.Memory
	if memory == nil {
		memory = &api.MemoryStats{RSS: u.RSSBytes, Usage: u.RSSBytes, Measured: []string{"RSS", "Usage"}}
	}
	return &api.TaskResourceUsage{Timestamp: now.UnixNano(), Pids: pids, ResourceUsage: &api.ResourceUsage{MemoryStats: memory, CpuStats: cpu}}
}

// Remains lists the processes of a task that have not ended, and those that start it. It implements [driver.Remainer].
func (d *Driver) Remains(id string) (out []driver.Remain) {
	d.mu.Lock()
	t := d.tasks[id]
	d.mu.Unlock()
	var left []supervise.Remain
	switch {
	case t == nil:
	case t.process != nil:
		left = t.process.Remains()
	case t.starter.Load() != 0:
		left = supervise.Starting(int(t.starter.Load()))
	}
	return remainsOf(left)
}

func remainsOf(left []supervise.Remain) (out []driver.Remain) {
	for _, r := range left {
		out = append(out, driver.Remain(r))
	}
	return out
}
