package rawexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/limits"
	"github.com/open-nomad/open-nomad/plugins/driver/supervise"
)

// Name is the name of the driver in job files.
const Name = "raw_exec"

const (
	handleVersion = 1
	defaultSignal = "SIGINT"
	// killWait bounds the wait for the end of a killed tree; the supervising process gives up after ten seconds.
	killWait = 15 * time.Second
	// tryMax bounds how long the supervising program may take to end without a task.
	tryMax = 10 * time.Second
)

// Driver runs tasks as plain processes. Use New.
type Driver struct {
	config  Config
	variant *Variant
	log     hclog.Logger
	// host has the cgroups of tasks; it is nil when tasks stay in that of the agent.
	host func() *limits.Host

	mu    sync.Mutex
	tasks map[string]*task
	// kept are the supervising processes of forgotten tasks that keep their leases.
	kept []*supervise.Process
	// path is the supervising program, once it was installed.
	path       atomic.Pointer[string]
	installing sync.Mutex
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.LeaseKeeper = (*Driver)(nil)
	_ driver.Keeper      = (*Driver)(nil)
	_ driver.Finder      = (*Driver)(nil)
	_ driver.Execer      = (*Driver)(nil)
)

// New makes the driver; it touches nothing before its first task.
func New(config Config, log hclog.Logger) *Driver { return NewVariant(nil, config, log) }

// NewVariant makes a driver that starts its tasks as the variant defines; nil is raw_exec.
func NewVariant(v *Variant, config Config, log hclog.Logger) *Driver {
	d := &Driver{config: config, variant: v, tasks: map[string]*task{}}
	d.log = log.Named(d.Name())
	d.host = sync.OnceValue(func() *limits.Host {
		if config.NoCgroups {
			return nil
		}
		return limits.Find(config.CgroupParent)
	})
	return d
}

// program is the supervising program as it was installed. Of many that ask at once one installs it.
func (d *Driver) program() (string, error) {
	if path := d.path.Load(); path != nil {
		return *path, nil
	}
	d.installing.Lock()
	defer d.installing.Unlock()
	if path := d.path.Load(); path != nil {
		return *path, nil
	}
	return d.install()
}

// Program returns the path of the supervising program, which it installs when it is not there.
func (d *Driver) Program() (string, error) { return d.program() }

// install makes the directories and the program, where they are not there undamaged.
func (d *Driver) install() (string, error) {
	path, err := d.prepareState()
	if err == nil {
		d.path.Store(&path)
	}
	return path, err
}

func (d *Driver) prepareState() (string, error) {
	for i := range uint64(shards) {
		for _, dir := range []string{d.config.StateDir, d.leaseDir()} {
			if err := os.MkdirAll(shardOf(dir, i), 0o700); err != nil {
				return "", fmt.Errorf("make the state directory of driver %s: %w", d.Name(), err)
			}
		}
	}
	if d.config.Program != "" {
		return d.config.Program, nil
	}
	return supervise.Install(d.config.StateDir)
}

// Capabilities of the driver: mounts, signals and commands; raw_exec has no isolation.
func (d *Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Mounts: true, Owners: true, Signals: true, Exec: true, Networks: true, Isolation: d.isolation()}
}

// ValidateConfig checks the config block of a task.
func (d *Driver) ValidateConfig(config map[string]any) error {
	if d.variant != nil {
		return d.variant.Validate(config)
	}
	return ValidateConfig(config)
}

// Fingerprint reports whether tasks can run.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	return driver.Fingerprints(ctx, d.health), nil
}

func (d *Driver) health(ctx context.Context) driver.Fingerprint {
	if !d.config.Enabled {
		return driver.Fingerprint{
			Health: driver.Undetected, Description: "disabled",
			Attributes: map[string]string{"driver." + d.Name(): ""},
		}
	}
	f := driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: map[string]string{"driver." + d.Name(): "true"}}
	if f = d.probe(ctx, f); f.Health != driver.Healthy {
		return f
	}
	if os.Geteuid() != 0 {
		f.Health, f.Description = driver.Unhealthy, "the agent must run as root for this driver"
	} else if err := d.try(ctx); err != nil {
		f.Health, f.Description = driver.Unhealthy, err.Error()
	} else if d.limits() {
		if err := d.host().Ready(); err != nil {
			f.Health, f.Description = driver.Unhealthy, err.Error()
		}
		f.Attributes["driver."+d.Name()+".limits"] = strings.Join(d.host().Controllers(), ",")
	}
	return f
}

// try does what the start of a task needs: the program is installed, whole, and runs.
func (d *Driver) try(ctx context.Context) error {
	path, err := d.install()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tryMax)
	defer cancel()
	if err := supervise.Try(ctx, path); err != nil || d.variant == nil {
		return err
	}
	return d.variant.Try(ctx, path)
}

// Start runs the task under a supervising process.
func (d *Driver) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	if !d.config.Enabled {
		return nil, fault.New(fault.Invalid, "driver %s is disabled on this node", d.Name())
	}
	spec, err := d.specOf(t)
	if err != nil {
		return nil, err
	}
	program, err := d.program()
	if err != nil {
		return nil, err
	}
	reserved, err := d.reserve(t.ID)
	if err != nil {
		return nil, err
	}
	p, err := d.inTurn(ctx, program, spec, reserved)
	var hang *supervise.Hang
	if errors.As(err, &hang) {
		return nil, fmt.Errorf("start task %s: %w", t.Name, d.giveUp(t.ID, hang))
	}
	if err != nil {
		d.forget(t.ID)
		d.dropLease(spec.LeaseOf)
		return nil, fmt.Errorf("start task %s: %w", t.Name, err)
	}
	d.adopt(t.ID, p)
	d.releaseKeepers(p.Ident().LeaseOf)
	return d.handleOf(p.Ident())
}

func (d *Driver) handleOf(id supervise.Ident) (*driver.Handle, error) {
	state, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	return &driver.Handle{Driver: d.Name(), TaskID: id.TaskID, Version: handleVersion, StartedAt: id.StartedAt, State: state}, nil
}

// Recover takes up the task of a handle.
func (d *Driver) Recover(ctx context.Context, h *driver.Handle) error {
	var id supervise.Ident
	if h.Driver != d.Name() || h.Version != handleVersion || json.Unmarshal(h.State, &id) != nil || id.TaskID != h.TaskID {
		return fault.New(fault.NotFound, "task %s: its handle is not one of driver %s", h.TaskID, d.Name())
	}
	t, err := d.reserve(h.TaskID)
	if err != nil {
		return err
	}
	t.starter.Store(int64(id.PID))
	p, err := supervise.Attach(ctx, id)
	if err != nil {
		d.forget(h.TaskID)
		if errors.Is(err, fault.NotFound) {
			_ = supervise.Remove(id.State)
		}
		return err
	}
	d.adopt(h.TaskID, p)
	return nil
}

// Wait blocks until the task has exited.
func (d *Driver) Wait(ctx context.Context, id string) (*driver.Exit, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	if err := t.wait(ctx); err != nil {
		return nil, err
	}
	return t.exit(), nil
}

// Stop signals the task, waits and then kills its tree.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = defaultSignal
	}
	sig, err := driver.ParseSignal(signal)
	if err == nil && timeout > 0 {
		err = t.process.Signal(sig)
	}
	switch {
	case err != nil: // it cannot be asked; that is no reason to let it run
		d.log.Warn("signal task before it is killed", "task", id, "signal", signal, "error", err)
	case timeout > 0 && t.waitFor(ctx, timeout):
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.kill(ctx)
}

// Destroy kills the task if it runs, and removes its files.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if err := t.kill(ctx); err != nil {
		return err
	}
	if t.process.Keeping() {
		if err := supervise.RemoveExit(t.process.Ident().State); err != nil {
			return fmt.Errorf("destroy task %s: %w", id, err)
		}
		d.keep(t.process)
		return nil
	}
	if err := supervise.Remove(t.process.Ident().State); err != nil {
		return fmt.Errorf("destroy task %s: %w", id, err)
	}
	d.forget(id)
	d.dropLease(t.process.Ident().LeaseOf)
	return nil
}

// Signal sends a signal to the task's main process.
func (d *Driver) Signal(_ context.Context, id, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	sig, err := driver.ParseSignal(signal)
	if err != nil {
		return err
	}
	return t.process.Signal(sig)
}

// Renew extends the lease of a task after a successful heartbeat. It implements [driver.LeaseKeeper].
func (d *Driver) Renew(id string, from int64) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if err := t.process.Renew(from); err != nil {
		return err
	}
	if t.process.Ident().LeaseOf == "" { // or that of an earlier agent, which did not record it
		return fault.New(fault.Unimplemented, "task %s has no lease", id)
	}
	return nil
}

// Close releases all tasks, which run on: the agent ends. They are known again after Recover.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, t := range d.tasks {
		if t.process != nil {
			t.process.Detach()
		}
		delete(d.tasks, id)
	}
	for _, p := range d.kept {
		p.Detach()
	}
	d.kept = nil
	return nil
}

// Inspect returns the state of the task.
func (d *Driver) Inspect(id string) (*driver.Status, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	ident := t.process.Ident()
	st := &driver.Status{ID: id, State: driver.StateRunning, StartedAt: ident.StartedAt, Attributes: map[string]string{
		"pid": strconv.Itoa(ident.TaskPID), "supervisor_pid": strconv.Itoa(ident.PID),
	}}
	select {
	case <-t.process.Done():
		st.State, st.Exit, st.FinishedAt = driver.StateExited, t.exit(), t.process.Exit().FinishedAt
	default:
	}
	return st, nil
}

// Stats measures the task's processes.
func (d *Driver) Stats(_ context.Context, id string) (*api.TaskResourceUsage, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.usage(time.Now()), nil
}

// exitOf describes the end of a task that may use so many bytes of memory; 0 is no limit.
func exitOf(x supervise.Exit, memory int64) *driver.Exit {
	e := &driver.Exit{Code: x.Code, Signal: x.Signal, OOMKilled: x.OOMKilled, LeaseEnded: x.LeaseEnded}
	switch {
	case x.LeaseEnded:
		e.Err = "the lease of its volumes ended: no server answered this node for too long"
	case x.Lost:
		e.Code, e.Signal, e.Err = 128+int(syscall.SIGKILL), int(syscall.SIGKILL), "the supervising process ended unexpectedly"
	case x.OOMKilled && memory > 0:
		e.Err = fmt.Sprintf("the task used more than its memory limit of %d MiB", memory>>20)
	}
	return e
}
