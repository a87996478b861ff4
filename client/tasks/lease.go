package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Renew moves on the time from which the leases of running tasks count; see [driver.Lease]. A driver that does not
// respond does not delay the other tasks.
func (g *Group) Renew(from int64) {
	var all sync.WaitGroup
	for _, t := range g.tasks {
		all.Go(func() { t.renew(from) })
	}
	all.Wait()
}

func (t *task) renew(from int64) {
	d, id := t.runningAttempt()
	l, ok := d.(driver.LeaseKeeper)
	if !ok {
		return
	}
	if err := l.Renew(id, from); err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Unimplemented) {
		t.g.conf.Log.Warn("renew the lease of a task's volumes", "task", t.name, "error", err)
	}
}

// LeaseKept reports whether tasks run that use volumes, and each has a process which ends it with the lease.
func (g *Group) LeaseKept() (kept bool) {
	for _, t := range g.tasks {
		if d, id := t.runningAttempt(); d != nil && t.usesVolumes() {
			if kept = keeps(d, id); !kept {
				return false
			}
		}
	}
	return kept
}

// KillUnleased kills the running tasks that use volumes and that no other process ends with the lease: kill timeouts do
// not count any more.
func (g *Group) KillUnleased(ctx context.Context) {
	for _, t := range g.tasks {
		d, id := t.runningAttempt()
		if d == nil || !t.usesVolumes() || keeps(d, id) || !t.setKilledAtLease(id) {
			continue
		}
		go func() {
			defer t.setKilledAtLease("")
			if err := d.Stop(ctx, id, "SIGKILL", 0); err != nil && !errors.Is(err, fault.NotFound) {
				g.conf.Log.Warn("kill a task at the end of its lease", "task", t.name, "error", err)
			}
		}()
	}
}

// keeps reports whether the driver has a process that keeps the lease of a task.
func keeps(d driver.Driver, id string) bool {
	l, ok := d.(driver.LeaseKeeper)
	return ok && l.Renew(id, 0) == nil
}

// keepsLeases reports whether the driver keeps leases at all.
func keepsLeases(d driver.Driver) bool {
	l, ok := d.(driver.LeaseKeeper)
	return ok && !errors.Is(l.Renew("", 0), fault.Unimplemented)
}

// sharesLease reports whether tasks of the group use volumes of which no process keeps the lease for them: their drivers keep
// none, or have lost that process, or the tasks are those of an agent whose drivers kept none.
func (g *Group) sharesLease() bool {
	for _, t := range g.tasks {
		if !t.usesVolumes() {
			continue
		}
		if d, id := t.runningAttempt(); d != nil && !keeps(d, id) {
			return true
		}
		if d, err := g.conf.Driver(t.present().Driver); err == nil && !keepsLeases(d) {
			return true
		}
	}
	return false
}

func (t *task) usesVolumes() bool { return len(t.present().VolumeMounts) > 0 }

// setKilledAtLease records the attempt that is being killed at the end of its lease; an empty id removes the record. It
// reports false when that attempt is recorded already.
func (t *task) setKilledAtLease(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id != "" && t.killedAtLease == id {
		return false
	}
	t.killedAtLease = id
	return true
}

// runningAttempt returns the driver that runs the task now and the id of the attempt; nil when it does not run. An attempt of an
// earlier agent process counts before it is taken up again, also one that the driver alone knows: the allocation's volumes
// may be waited for first.
func (t *task) runningAttempt() (driver.Driver, string) {
	t.mu.Lock()
	d, id, raw, name := t.driver, t.id, t.rec.Handle, t.spec.Driver
	t.mu.Unlock()
	if d != nil {
		return d, id
	}
	if len(raw) == 0 {
		_, id = t.upcoming()
		return t.inspect(name, id)
	}
	var h driver.Handle
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, ""
	}
	d, err := t.g.conf.Driver(h.Driver)
	if err != nil {
		return nil, ""
	}
	return d, h.TaskID
}

// inspect returns the driver when it runs the attempt.
func (t *task) inspect(name, id string) (driver.Driver, string) {
	d, err := t.g.conf.Driver(name)
	if err != nil {
		return nil, ""
	}
	if st, err := d.Inspect(id); err != nil || st == nil || st.State != driver.StateRunning {
		return nil, ""
	}
	return d, id
}
