package tasks

import (
	"context"
	"errors"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Renew moves on the time from which the leases of running tasks count; see [driver.Lease].
func (g *Group) Renew(from int64) {
	for _, t := range g.tasks {
		d, id := t.reached()
		l, ok := d.(driver.Lessee)
		if !ok {
			continue
		}
		if err := l.Renew(id, from); err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Unimplemented) {
			g.conf.Log.Warn("renew the lease of a task's volumes", "task", t.name, "error", err)
		}
	}
}

// LeaseKept reports whether a task runs whose driver keeps the lease by itself.
func (g *Group) LeaseKept() bool {
	for _, t := range g.tasks {
		d, id := t.reached()
		if l, ok := d.(driver.Lessee); ok && l.Renew(id, 0) == nil {
			return true
		}
	}
	return false
}

// KillUnleased kills the running tasks whose drivers keep no leases: kill timeouts do not count any more.
func (g *Group) KillUnleased(ctx context.Context) {
	for _, t := range g.tasks {
		d, id := t.reached()
		if d == nil {
			continue
		}
		if l, ok := d.(driver.Lessee); ok && !errors.Is(l.Renew(id, 0), fault.Unimplemented) {
			continue
		}
		go func() {
			if err := d.Stop(ctx, id, "SIGKILL", 0); err != nil && !errors.Is(err, fault.NotFound) {
				g.conf.Log.Warn("kill a task at the end of its lease", "task", t.name, "error", err)
			}
		}()
	}
}

// reached is the driver that runs the task now and the name of the attempt; nil when it does not run.
func (t *task) reached() (driver.Driver, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.driver, t.id
}
