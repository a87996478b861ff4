package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Name is the name of the driver in job files.
const Name = "mock_driver"

const handleVersion = 1

// Driver runs tasks that are timers. Use New.
type Driver struct {
	log hclog.Logger

	mu    sync.Mutex
	tasks map[string]*task
}

var _ driver.Driver = (*Driver)(nil)

// New makes the driver.
func New(log hclog.Logger) *Driver { return &Driver{log: log.Named(Name), tasks: map[string]*task{}} }

// Name is "mock_driver".
func (d *Driver) Name() string { return Name }

// Capabilities of mock_driver: it accepts mounts and makes none.
func (d *Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Mounts: true, Signals: true, Exec: true, Networks: true, Isolation: driver.IsolationNone}
}

// ValidateConfig checks the config block of a task.
func (d *Driver) ValidateConfig(config map[string]any) error { return ValidateConfig(config) }

// Fingerprint is always healthy.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	return driver.Fingerprints(ctx, func(context.Context) driver.Fingerprint {
		return driver.Fingerprint{Health: driver.Healthy, Description: "Healthy", Attributes: map[string]string{"driver." + Name: "true"}}
	}), nil
}

// state is what a handle holds: enough to continue the timers.
type state struct {
	Config map[string]any
	Ends   time.Time
}

// Start begins a task.
func (d *Driver) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	c, err := decode(t.Config)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, c.StartBlockFor); err != nil {
		return nil, fmt.Errorf("start task %s: %w", t.Name, err)
	}
	if c.StartError != "" {
		class := fault.Invalid
		if c.StartErrorRecoverable {
			class = fault.Unavailable
		}
		return nil, fault.New(class, "start task %s: %s", t.Name, c.StartError)
	}
	now := time.Now()
	s := state{Config: t.Config, Ends: now.Add(c.RunFor)}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fault.New(fault.Invalid, "start task %s: %w", t.Name, err)
	}
	if err := d.add(newTask(t.ID, c, now, s.Ends)); err != nil {
		return nil, err
	}
	printOutput(t, c)
	return &driver.Handle{Driver: Name, TaskID: t.ID, Version: handleVersion, StartedAt: now, State: raw}, nil
}

// Recover continues a task whose time has not elapsed yet.
func (d *Driver) Recover(_ context.Context, h *driver.Handle) error {
	var s state
	if h.Driver != Name || h.Version != handleVersion || json.Unmarshal(h.State, &s) != nil {
		return fault.New(fault.NotFound, "task %s: its handle is not one of driver %s", h.TaskID, Name)
	}
	c, err := decode(s.Config)
	if err != nil || !s.Ends.After(time.Now()) {
		return fault.New(fault.NotFound, "task %s of driver %s", h.TaskID, Name)
	}
	return d.add(newTask(h.TaskID, c, h.StartedAt, s.Ends))
}

func (d *Driver) add(t *task) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.tasks[t.id]; taken {
		return fault.New(fault.Conflict, "task %s is already known to driver %s", t.id, Name)
	}
	d.tasks[t.id] = t
	t.arm()
	return nil
}

func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, fault.New(fault.NotFound, "task %s of driver %s", id, Name)
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
	x := t.exit
	return &x, nil
}

// Stop signals the task and kills it after the timeout.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = "SIGINT"
	}
	sig, err := driver.ParseSignal(signal)
	if err != nil {
		t.end(killed(syscall.SIGKILL))
		return nil
	}
	t.signal(sig)
	grace, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := t.wait(grace); err == nil || ctx.Err() != nil {
		return err
	}
	t.end(killed(syscall.SIGKILL))
	return nil
}

// Destroy ends and forgets the task.
func (d *Driver) Destroy(_ context.Context, id string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	t.end(killed(syscall.SIGKILL))
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
	return nil
}

// Inspect returns the state of the task.
func (d *Driver) Inspect(id string) (*driver.Status, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	return t.status(), nil
}

// Stats is nothing: a timer uses nothing.
func (d *Driver) Stats(_ context.Context, id string) (*api.TaskResourceUsage, error) {
	if _, err := d.task(id); err != nil {
		return nil, err
	}
	return &api.TaskResourceUsage{Timestamp: time.Now().UnixNano(), ResourceUsage: &api.ResourceUsage{
		MemoryStats: &api.MemoryStats{}, CpuStats: &api.CpuStats{},
	}}, nil
}

// Signal sends a signal to the task.
func (d *Driver) Signal(_ context.Context, id, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	sig, err := driver.ParseSignal(signal)
	if err != nil {
		return err
	}
	if t.config.SignalErr != "" {
		return fault.New(fault.Internal, "signal task %s: %s", id, t.config.SignalErr)
	}
	t.signal(sig)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// printOutput writes all that the task prints at once.
func printOutput(t *driver.Task, c *taskConfig) {
	if t.Logs.Disabled || t.Logs.Dir == "" {
		return
	}
	for stream, text := range map[string]string{
		"stdout": strings.Repeat(c.StdoutString, 1+max(c.StdoutRepeat, 0)),
		"stderr": strings.Repeat(c.StderrString, 1+max(c.StderrRepeat, 0)),
	} {
		f, err := os.OpenFile(filepath.Join(t.Logs.Dir, t.Name+"."+stream+".0"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			continue
		}
		_, _ = f.WriteString(text)
		_ = f.Close()
	}
}
