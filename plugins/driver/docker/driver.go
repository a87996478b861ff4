package docker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/image"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/logs"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// Name is the name of the driver in job files.
const Name = config.Name

const (
	handleVersion = 1
	defaultSignal = "SIGTERM"
	// askMax bounds a question to the engine, workMax what it needs to create, start or remove a container, killWait the
	// wait for the end of a killed one.
	askMax   = 30 * time.Second
	workMax  = 5 * time.Minute
	killWait = 15 * time.Second
)

// Config is the part of the agent's configuration about the driver.
type Config struct {
	Plugin config.Plugin
	// StateDir keeps a small file per task, and distinguishes the agents of a host. It must survive a restart of the agent.
	StateDir string
	// LeaseDir is that of [rawexec.Config]; empty means one of the driver's own.
	LeaseDir string
}

// ParseConfig reads the config of the plugin block of the agent's configuration; what it does not know is an error.
func ParseConfig(block map[string]any) (Config, error) {
	p, err := config.ParsePlugin(block)
	return Config{Plugin: p}, err
}

// Driver runs tasks as containers. Use New.
type Driver struct {
	config Config
	log    hclog.Logger
	engine *client.Client
	images *image.Store
	// instance begins the names of the directories of binds that this agent process makes.
	instance string
	// broken is why there is no client of the engine.
	broken error

	mu    sync.Mutex
	tasks map[string]*task
	// unsure are attempts of which the engine could not say whether they run.
	unsure map[string]bool
	// guards are the processes that keep the leases of containers, by the ids of those; guarded are their containers, by task.
	guards  *rawexec.Driver
	guarded map[string]string
	// starting are the leases of tasks that are being started.
	starting map[string]*driver.Lease
	// seen is set once the engine has answered.
	seen bool
}

var (
	_ driver.Driver      = (*Driver)(nil)
	_ driver.LeaseKeeper = (*Driver)(nil)
	_ driver.Keeper      = (*Driver)(nil)
	_ driver.Finder      = (*Driver)(nil)
	_ driver.Execer      = (*Driver)(nil)
)

// New makes the driver; it touches nothing before its first task.
func New(c Config, log hclog.Logger) *Driver {
	d := &Driver{config: c, instance: rand.Text() + "-", log: log.Named(Name), tasks: map[string]*task{}, unsure: map[string]bool{}, guarded: map[string]string{}, starting: map[string]*driver.Lease{}}
	leases := rawexec.Config{Enabled: true, NoCgroups: true, StateDir: filepath.Join(c.StateDir, "leases"), LeaseDir: c.LeaseDir}
	d.guards = rawexec.New(leases, d.log)
	d.engine, d.broken = engine.Open(&d.config.Plugin)
	d.images = image.New(&d.config.Plugin, d.engine, d.log)
	return d
}

// Name is "docker".
func (d *Driver) Name() string { return Name }

// Capabilities of docker: mounts, signals and commands, networks of allocations, the files of an image.
func (d *Driver) Capabilities() driver.Capabilities {
	return driver.Capabilities{Mounts: true, Owners: true, Signals: true, Exec: true, Networks: true, Isolation: driver.IsolationImage}
}

// ValidateConfig checks the config block of a task, also against what the agent permits.
func (d *Driver) ValidateConfig(block map[string]any) error {
	c, err := config.ParseTask(block)
	if err != nil {
		return err
	}
	return d.config.Plugin.Allowed(c)
}

// used reports whether this agent has ever started a container.
func (d *Driver) used() bool {
	_, err := os.Stat(d.config.StateDir)
	return err == nil
}

// cursorPath names the file that keeps how far the output of a container is copied.
func (d *Driver) cursorPath(container string) string {
	return filepath.Join(d.config.StateDir, container+".json")
}

// stageDir has the binds of containers that are being started.
func (d *Driver) stageDir() string { return filepath.Join(d.config.StateDir, "binds") }

// state is what a handle keeps.
type state struct {
	Container string
}

func handleOf(id, container string, started time.Time) (*driver.Handle, error) {
	text, err := json.Marshal(state{container})
	if err != nil {
		return nil, err
	}
	return &driver.Handle{Driver: Name, TaskID: id, Version: handleVersion, StartedAt: started, State: text}, nil
}

// Recover takes up the task of a handle.
func (d *Driver) Recover(ctx context.Context, h *driver.Handle) error {
	var s state
	if h.Driver != Name || h.Version != handleVersion || json.Unmarshal(h.State, &s) != nil || s.Container == "" {
		return fault.New(fault.NotFound, "task %s: its handle is not one of driver %s", h.TaskID, Name)
	}
	if err := d.reserve(h.TaskID); err != nil {
		return err
	}
	d.recoverGuard(ctx, h.TaskID, s.Container) // it keeps the lease, whether the engine responds or not
	t, err := d.inspect(ctx, s.Container)
	if err == nil && (t.id != h.TaskID || !t.ran) {
		err = fault.New(fault.NotFound, "task %s: container %.12s is not that of the task", h.TaskID, s.Container)
	}
	if err != nil {
		d.forget(h.TaskID)
		d.doubt(h.TaskID, err)
		if errors.Is(err, fault.NotFound) {
			logs.Forget(d.cursorPath(s.Container))
			err = errors.Join(err, d.destroyGuard(ctx, h.TaskID))
		}
		return err
	}
	d.adopt(t)
	return nil
}

// doubt notes whether the engine could say what became of an attempt.
func (d *Driver) doubt(id string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || errors.Is(err, fault.NotFound) {
		delete(d.unsure, id)
	} else {
		d.unsure[id] = true
	}
}

// reserve takes the id so that two starts of one task cannot both succeed.
func (d *Driver) reserve(id string) error {
	if d.broken != nil {
		return d.broken
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.tasks[id]; taken {
		return fault.New(fault.Conflict, "task %s is already known to driver %s", id, Name)
	}
	d.tasks[id] = nil
	return nil
}

// adopt makes a task known and watches its container.
func (d *Driver) adopt(t *task) {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	d.images.Use(t.image, t.id)
	d.mu.Lock()
	d.tasks[t.id] = t
	delete(d.unsure, t.id)
	d.mu.Unlock()
	t.watching.Go(func() { d.watch(ctx, t) })
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
	if t == nil {
		return nil, fault.New(fault.NotFound, "task %s of driver %s", id, Name)
	}
	return t, nil
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

// Stop signals the task, waits and then kills the container.
func (d *Driver) Stop(ctx context.Context, id, signal string, timeout time.Duration) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if signal == "" {
		signal = t.stopSignal
	}
	_, bad := driver.ParseSignal(signal)
	if bad == nil && timeout > 0 {
		bad = d.send(ctx, t, signal)
	}
	switch {
	case errors.Is(bad, fault.Unavailable):
		return bad
	case bad != nil: // it cannot be asked; that is no reason to let it run
		d.log.Warn("signal task before it is killed", "task", id, "signal", signal, "error", bad)
	case timeout > 0 && t.waitFor(ctx, timeout):
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return d.kill(ctx, t)
}

// send sends a signal; a container that has ended needs none.
func (d *Driver) send(ctx context.Context, t *task, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	_, err := d.engine.ContainerKill(ctx, t.container, client.ContainerKillOptions{Signal: signal})
	err = engine.Error(fmt.Sprintf("send %s to container %.12s", signal, t.container), err)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Conflict) || err != nil && strings.Contains(err.Error(), "is not running") {
		return nil
	}
	return err
}

// kill ends the container's processes.
func (d *Driver) kill(ctx context.Context, t *task) error {
	if t.ended() {
		return nil
	}
	t.killed.Store(true)
	if err := d.send(ctx, t, "SIGKILL"); err != nil {
		// The lease of a volume does not wait for the engine. The kernel kills all other processes of the container, too,
		// unless they share the host's process ids.
		if t.process != nil && unix.PidfdSendSignal(int(t.process.Fd()), unix.SIGKILL, nil, 0) == nil {
			d.log.Warn("killed a container without its engine", "task", t.id, "error", err)
		}
		return err
	}
	if t.waitFor(ctx, killWait) {
		return nil
	}
	if t.exited.Load() && d.stopGuard(ctx, t.id) == nil && t.waitFor(ctx, killWait) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "container %.12s of task %s has not ended %v after SIGKILL: a process of it may wait for storage that does not answer",
		t.container, t.id, killWait)
}

// Destroy kills the task if it runs, and removes its container.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if err := d.kill(ctx, t); err != nil {
		return err
	}
	var left error
	if d.config.Plugin.GC.Container {
		// The task has ended. What cannot be removed now is collected later, since the driver does not know it any more.
		left = d.remove(ctx, t.container)
	}
	if t.joined != "" {
		left = errors.Join(left, d.remove(ctx, t.joined))
	}
	if err := d.destroyGuard(ctx, id); err != nil {
		return errors.Join(left, err)
	}
	t.cancel()
	t.watching.Wait()
	_ = t.process.Close()
	logs.Forget(d.cursorPath(t.container))
	d.images.Release(id)
	d.forget(id)
	return left
}

// remove ends and removes a container; one that does not exist is no error.
func (d *Driver) remove(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(ctx, workMax)
	defer cancel()
	_, err := d.engine.ContainerRemove(ctx, container, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	err = engine.Error(fmt.Sprintf("remove container %.12s", container), err)
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// Signal sends a signal to the task's main process.
func (d *Driver) Signal(ctx context.Context, id, signal string) error {
	t, err := d.task(id)
	if err != nil {
		return err
	}
	if _, err := driver.ParseSignal(signal); err != nil {
		return err
	}
	return d.send(ctx, t, signal)
}

// Inspect returns the state of the task.
func (d *Driver) Inspect(id string) (*driver.Status, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	st := &driver.Status{ID: id, State: driver.StateRunning, StartedAt: t.started, Attributes: map[string]string{"container_id": t.container}}
	if t.ended() {
		x := t.exit
		st.State, st.Exit, st.FinishedAt = driver.StateExited, &x, t.finished
	}
	return st, nil
}

// Close releases all tasks, which run on: the agent ends. They are known again after Recover.
func (d *Driver) Close() error {
	d.mu.Lock()
	var all []*task
	for id, t := range d.tasks {
		if t != nil {
			all = append(all, t)
		}
		delete(d.tasks, id)
	}
	d.mu.Unlock()
	for _, t := range all {
		t.cancel()
	}
	for _, t := range all {
		t.watching.Wait()
		_ = t.process.Close()
	}
	d.images.Close()
	err := d.guards.Close()
	if d.engine == nil {
		return err
	}
	return errors.Join(err, d.engine.Close())
}
