package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/engine"
	"github.com/open-nomad/open-nomad/plugins/driver/docker/spec"
)

// list lists this agent's containers with a label.
func (d *Driver) list(ctx context.Context, label string) ([]container.Summary, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	filter := client.Filters{}.Add("label", label, labelAgent+"="+d.config.StateDir)
	reply, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	return reply.Items, engine.Error("list containers", err)
}

// Find returns the handle of an attempt whose container has started. A container that was created and not started is
// removed: the engine ends a start that is under way first. It implements [driver.Finder].
func (d *Driver) Find(ctx context.Context, id string) (*driver.Handle, error) {
	if !d.used() {
		return nil, fault.New(fault.NotFound, "task %s of driver %s: this agent has started no container", id, Name)
	}
	h, err := d.find(ctx, id)
	d.doubt(id, err)
	return h, err
}

func (d *Driver) find(ctx context.Context, id string) (*driver.Handle, error) {
	list, err := d.list(ctx, labelTask+"="+id)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	for _, c := range list {
		t, err := d.inspect(ctx, c.ID)
		switch {
		case errors.Is(err, fault.NotFound):
			continue
		case err != nil:
			return nil, fault.Wrap(fault.Unavailable, err)
		case t.ran:
			return handleOf(id, t.container, t.started)
		}
		if err := d.remove(ctx, c.ID); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err)
		}
		d.recoverGuard(ctx, id, c.ID)
		if err := d.destroyGuard(ctx, id); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err)
		}
	}
	d.removeJoiners(ctx, id)
	return nil, fault.New(fault.NotFound, "task %s of driver %s has no container", id, Name)
}

// Prune ends and removes the containers of attempts that this driver does not know, but for those in spare, and returns
// the ids of those that ran. Unless all is set more attempts may be asked for later: only those that run with volumes are
// ended then.
func (d *Driver) Prune(ctx context.Context, spare []string, all bool) ([]string, error) {
	if !d.used() {
		return nil, nil
	}
	if err := spec.Sweep(d.stageDir(), func(name string) bool { return strings.HasPrefix(name, d.instance) }); err != nil {
		return nil, fmt.Errorf("remove the binds of an earlier agent: %w", err)
	}
	list, err := d.list(ctx, labelTask)
	if err != nil {
		return nil, err
	}
	var pruned, guarded []string
	var errs []error
	for _, c := range list {
		id, runs := c.Labels[labelTask], c.State == container.StateRunning
		switch {
		case d.knows(id) || slices.Contains(spare, id):
			guarded = append(guarded, c.ID)
			continue
		case !all && !(runs && c.Labels[labelMounts] != ""), !runs && !d.config.Plugin.GC.Container:
			continue
		}
		if err := d.remove(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", id, err))
		} else if runs && c.Labels[labelJoin] == "" {
			pruned = append(pruned, id)
		}
	}
	_, err = d.guards.Prune(ctx, guarded, all)
	slices.Sort(pruned)
	return pruned, errors.Join(append(errs, err)...)
}

// knows reports whether a container of the task is not to be removed: the task is known, is being started, or the engine
// could not say yet what became of it.
func (d *Driver) knows(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.tasks[id]
	return known || d.unsure[id]
}

// collect removes containers of unknown tasks, again and again, until ctx ends.
func (d *Driver) collect(ctx context.Context) {
	conf := d.config.Plugin.GC.Dangling
	if !conf.Enabled {
		return
	}
	tick := time.NewTicker(conf.Period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.collectOnce(ctx, time.Now().Add(-conf.CreationGrace))
		case <-ctx.Done():
			return
		}
	}
}

// collectOnce removes containers of unknown tasks that were created before a time.
func (d *Driver) collectOnce(ctx context.Context, before time.Time) {
	if !d.used() {
		return
	}
	list, err := d.list(ctx, spec.LabelPrefix+"alloc_id")
	if err != nil {
		d.log.Warn("look for containers of unknown tasks", "error", err)
		return
	}
	for _, c := range list {
		id, runs := c.Labels[labelTask], c.State == container.StateRunning
		if d.knows(id) || !time.Unix(c.Created, 0).Before(before) || !runs && !d.config.Plugin.GC.Container {
			continue
		}
		if d.config.Plugin.GC.Dangling.DryRun {
			d.log.Info("container of an unknown task would be removed", "container", c.ID, "task", id)
			continue
		}
		if err := d.remove(ctx, c.ID); err != nil {
			d.log.Warn("remove the container of an unknown task", "container", c.ID, "task", id, "error", err)
			continue
		}
		d.log.Info("removed the container of an unknown task", "container", c.ID, "task", id)
	}
}
