package tasks

import (
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

// KeepsLeases reports whether the drivers of all running tasks keep leases by themselves.
func (g *Group) KeepsLeases() bool {
	for _, t := range g.tasks {
		d, id := t.reached()
		if d == nil {
			continue
		}
		l, ok := d.(driver.Lessee)
		if !ok || errors.Is(l.Renew(id, 0), fault.Unimplemented) {
			return false
		}
	}
	return true
}

// reached is the driver that runs the task now and the name of the attempt; nil when it does not run.
func (t *task) reached() (driver.Driver, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.driver, t.id
}
