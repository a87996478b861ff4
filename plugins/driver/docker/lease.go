package docker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const leaseEnded = "the lease of its volumes ended: no server answered this node for too long"

// guard starts the process that keeps the lease of a container.
func (d *Driver) guard(ctx context.Context, t *driver.Task, container string) error {
	if t.Lease == nil {
		return nil
	}
	own := *t.Lease
	own.Container = container
	own.From = d.startingFrom(t)
	if err := d.guards.Guard(ctx, container, t.AllocID, &own); err != nil {
		return fault.New(fault.Unavailable, "keep the lease of its volumes: %w", err)
	}
	d.setGuarded(t.ID, container)
	return nil
}

func (d *Driver) setGuarded(id, container string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guarded[id] = container
}

func (d *Driver) guardOf(id string) (container string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	container, ok = d.guarded[id]
	return container, ok
}

// recoverGuard takes up the guard of a container that an earlier agent process has started. Where there is none, the agent
// alone keeps the lease.
func (d *Driver) recoverGuard(ctx context.Context, id, container string) {
	h, err := d.guards.Find(ctx, container)
	if err == nil {
		err = d.guards.Recover(ctx, h)
	}
	switch {
	case err == nil || errors.Is(err, fault.Conflict):
		d.setGuarded(id, container)
	case !errors.Is(err, fault.NotFound):
		d.log.Warn("take up the process that keeps the lease of a container", "task", id, "error", err)
	}
}

// endGuard ends the guard's own task when the container has ended, and reports whether that was the end of the lease. It
// waits for the guard, which reports an end of the lease once the volumes are written back; it keeps the lease until
// they are unmounted, see [driver.Keeper].
func (d *Driver) endGuard(ctx context.Context, id string) (leaseEnded bool) {
	container, ok := d.guardOf(id)
	if !ok {
		return false
	}
	if err := d.guards.Signal(ctx, container, "SIGKILL"); err != nil {
		d.log.Warn("end the process that keeps the lease of a container", "task", id, "error", err)
	}
	x, err := d.guards.Wait(ctx, container)
	return err == nil && x.LeaseEnded
}

// stopGuard ends the guard of a container that has ended, also when the guard does not respond.
func (d *Driver) stopGuard(ctx context.Context, id string) error {
	container, ok := d.guardOf(id)
	if !ok {
		return nil
	}
	return d.guards.Stop(ctx, container, "SIGKILL", 0)
}

// destroyGuard forgets the guard of a task. A task without one is no error.
func (d *Driver) destroyGuard(ctx context.Context, id string) error {
	container, ok := d.guardOf(id)
	if !ok {
		return nil
	}
	if err := d.guards.Destroy(ctx, container); err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.guarded, id)
	return nil
}

// Renew extends the lease of a task. It implements [driver.LeaseKeeper].
func (d *Driver) Renew(id string, from int64) error {
	container, ok := d.guardOf(id)
	if !ok {
		return fault.New(fault.NotFound, "no process keeps a lease of task %s", id)
	}
	return d.guards.Renew(container, from)
}

// startLease notes that a task with a lease is being started, until the returned function is called. A pull may take longer
// than the lease, and only running tasks are renewed by [Driver.Renew].
func (d *Driver) startLease(t *driver.Task) (done func()) {
	if t.Lease == nil {
		return func() {}
	}
	own := *t.Lease
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starting[t.ID] = &own
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.starting, t.ID)
	}
}

// startingFrom is the time from which the lease of a task that is being started counts now.
func (d *Driver) startingFrom(t *driver.Task) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.starting[t.ID]; l != nil {
		return l.From
	}
	return t.Lease.From
}

// Keep implements [driver.Keeper]. It also renews the leases of tasks that are being started, unless they have ended.
func (d *Driver) Keep(from int64, needed func(allocID string) bool) {
	var all sync.WaitGroup
	defer all.Wait()
	d.mu.Lock()
	for id, l := range d.starting {
		if from <= l.From || time.Duration(from-l.From) >= l.Term.Stop() {
			continue
		}
		l.From = from
		if container, guarded := d.guarded[id]; guarded {
			all.Go(func() { // one that does not respond delays no other
				if err := d.guards.Renew(container, from); err != nil && !errors.Is(err, fault.NotFound) {
					d.log.Warn("renew the lease of a task that starts", "task", id, "error", err)
				}
			})
		}
	}
	d.mu.Unlock()
	d.guards.Keep(from, needed)
}

// Recall implements [driver.Keeper].
func (d *Driver) Recall(ctx context.Context) error {
	if !d.used() {
		return nil
	}
	return d.guards.Recall(ctx)
}
