package docker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/config"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/spec"
	"github.com/open-nomad/open-nomad/plugins/driver/pace"
)

// Labels by which the driver finds its containers.
const (
	labelTask = "open-nomad.task"
	// labelAgent is the state directory of the agent: agents of one host leave the containers of others alone.
	labelAgent  = "open-nomad.agent"
	labelRecord = "open-nomad.record"
	// labelMounts is set on containers that have volumes.
	labelMounts = "open-nomad.mounts"
)

// record is what the driver needs to know of a task, in a label of its container.
type record struct {
	Name string
	Logs driver.Logs
}

// starts paces the starts of containers, without their pulls: an engine that is asked for 100 at once needs longer for each
// than a request may take. One that needs longer than the patience waits for a volume or a hanging engine.
var starts = pace.New(max(8, 4*runtime.NumCPU()), 10*time.Second)

// cleanMax bounds the removal of what a start that failed has left.
const cleanMax = time.Minute

// Start runs the task as a container.
func (d *Driver) Start(ctx context.Context, t *driver.Task) (*driver.Handle, error) {
	c, err := config.ParseTask(t.Config)
	if err != nil {
		return nil, err
	}
	if err := d.reserve(t.ID); err != nil {
		return nil, err
	}
	defer d.startLease(t)()
	started, err := d.launch(ctx, t, c)
	if err != nil {
		d.images.Release(t.ID)
		d.forget(t.ID)
		return nil, fmt.Errorf("start task %s: %w", t.Name, err)
	}
	d.adopt(started)
	return handleOf(t.ID, started.container, started.started)
}

func (d *Driver) launch(ctx context.Context, t *driver.Task, c *config.Task) (*task, error) {
	if err := d.config.Plugin.Allowed(c); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.config.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory of driver %s: %w", Name, err)
	}
	image, err := d.images.Ensure(ctx, t, c)
	if err != nil {
		return nil, err
	}
	labels, err := d.labels(t, c)
	if err != nil {
		return nil, err
	}
	program := ""
	if t.Network != "" {
		if program, err = d.guards.Program(); err != nil {
			return nil, err
		}
	}
	stage := filepath.Join(d.stageDir(), d.instance+rand.Text())
	s, err := spec.New(spec.Input{Task: t, Config: c, Plugin: &d.config.Plugin, Image: image, Labels: labels, Stage: stage, JoinProgram: program, JoinLabels: d.joinLabels(t.ID)})
	if err != nil {
		return nil, err
	}
	leave, err := starts.Take(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for other starts: %w", errors.Join(err, s.Close()))
	}
	defer leave()
	defer func() {
		if err := s.Close(); err != nil {
			d.log.Error("remove the binds of a start", "task", t.ID, "error", err)
		}
	}()
	err = d.joinNetwork(ctx, t, s)
	var id string
	if err == nil {
		id, err = d.create(ctx, t, c, s)
	}
	if err == nil {
		err = d.guard(ctx, t, id)
	}
	if err == nil {
		err = d.startContainer(ctx, id)
	}
	var started *task
	if err == nil {
		started, err = d.inspect(ctx, id)
	}
	if err == nil {
		return started, nil
	}
	if !errors.Is(err, fault.Conflict) { // else the container is that of another start
		d.clean(ctx, t.ID)
		if err := d.destroyGuard(context.WithoutCancel(ctx), t.ID); err != nil {
			d.log.Warn("end the process that keeps the lease of a start that failed", "task", t.ID, "error", err)
		}
	}
	if c.MACAddress != "" && errors.Is(err, fault.Invalid) {
		err = fmt.Errorf("%w (engines before 25.0 do not take a mac_address)", err)
	}
	return nil, err
}

func (d *Driver) labels(t *driver.Task, c *config.Task) (map[string]string, error) {
	r := record{Name: t.Name, Logs: t.Logs}
	r.Logs.Disabled = r.Logs.Disabled || r.Logs.Dir == "" || d.config.Plugin.DisableLogCollection
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := map[string]string{labelTask: t.ID, labelAgent: d.config.StateDir, labelRecord: string(text)}
	if slices.ContainsFunc(t.Mounts, func(m driver.Mount) bool { return m.Destination != spec.HostsFile && m.Destination != spec.ResolvFile }) {
		out[labelMounts] = "true"
	}
	return out, nil
}

// create creates the container. One with the same name is that of an earlier attempt which has left it, or of the same
// attempt whose start was not answered.
func (d *Driver) create(ctx context.Context, t *driver.Task, c *config.Task, s *spec.Spec) (string, error) {
	attempts := d.config.Plugin.ExistsAttempts
	if c.ExistsAttempts > 0 {
		attempts = c.ExistsAttempts
	}
	for {
		id, err := d.createOnce(ctx, s)
		if !errors.Is(err, fault.Conflict) {
			return id, err
		}
		if attempts--; attempts < 0 {
			return "", err
		}
		if err := d.clearName(ctx, t, s.Options.Name); err != nil {
			return "", err
		}
	}
}

func (d *Driver) createOnce(ctx context.Context, s *spec.Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, workMax)
	defer cancel()
	reply, err := d.engine.ContainerCreate(ctx, s.Options)
	for _, w := range reply.Warnings {
		d.log.Warn("the engine warns about a container", "container", s.Options.Name, "warning", w)
	}
	return reply.ID, engine.Error(fmt.Sprintf("create container %q", s.Options.Name), err)
}

// clearName removes the container that has the name of a new one, unless it is another's or runs for the same attempt.
func (d *Driver) clearName(ctx context.Context, t *driver.Task, name string) error {
	asking, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	found, err := d.engine.ContainerInspect(asking, name, client.ContainerInspectOptions{})
	if err = engine.Error(fmt.Sprintf("look at container %q", name), err); err != nil {
		if errors.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}
	old := found.Container
	of := old.Config.Labels[labelTask]
	switch {
	case old.Config.Labels[labelAgent] != d.config.StateDir || of == "":
		return fault.New(fault.Conflict, "the name %q is that of container %.12s, which this agent has not made; remove it", name, old.ID)
	case of == t.ID && old.State.Status != "created":
		return fault.New(fault.Conflict, "task %s runs already, or has run, in container %.12s", t.ID, old.ID)
	}
	if _, err := d.task(of); err == nil {
		return fault.New(fault.Conflict, "the name %q is that of container %.12s of task %s, which has not been removed yet", name, old.ID, of)
	}
	return d.remove(ctx, old.ID)
}

func (d *Driver) startContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, workMax)
	defer cancel()
	_, err := d.engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	err = engine.Error(fmt.Sprintf("start container %.12s", id), err)
	if errors.Is(err, fault.Conflict) || errors.Is(err, fault.NotFound) {
		// Neither a second start nor a missing container is meant: the engine has these classes for missing programs, too.
		return fault.New(fault.Invalid, "%s", err.Error())
	}
	return err
}

// clean removes the containers of a start that failed, also when the start was abandoned.
func (d *Driver) clean(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanMax)
	defer cancel()
	list, err := d.list(ctx, labelTask+"="+id)
	for _, c := range list {
		err = errors.Join(err, d.remove(ctx, c.ID))
	}
	if err != nil {
		d.log.Warn("a start that failed may have left a container", "task", id, "error", err)
	}
}
