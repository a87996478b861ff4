package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// adoptWait bounds taking up the tasks of an earlier agent process before allocations are led again.
const adoptWait = 10 * time.Second

// pruner is a driver that can end tasks that were not taken up: those of a crash between the start of a task and the
// record of its handle, or of a lost database.
type pruner interface {
	// Prune ends and forgets the attempts that the driver does not know, but for those in spare. While not all
	// allocations are known, it ends only those that run with mounts of their own.
	Prune(ctx context.Context, spare []string, all bool) ([]string, error)
}

// adopted is a driver whose stored handles were taken up at the start, all before anything is pruned. Each result is
// returned once, to the task that recovers its handle.
type adopted struct {
	driver.Driver
	mu      sync.Mutex
	answers map[string]error
	// denied are users that its tasks do not run as.
	denied map[string]bool
	// unsure are the attempts that could be neither taken up nor released: they are spared.
	unsure []string
}

// Recover returns the result of taking up the handle.
func (a *adopted) Recover(ctx context.Context, h *driver.Handle) error {
	a.mu.Lock()
	err, known := a.answers[h.TaskID]
	delete(a.answers, h.TaskID)
	a.mu.Unlock()
	if known {
		return err
	}
	return a.Driver.Recover(ctx, h)
}

// Renew passes the news on. It implements [driver.LeaseKeeper]; an error of class fault.Unimplemented means that
// the driver keeps no leases.
func (a *adopted) Renew(id string, from int64) error {
	l, ok := a.Driver.(driver.LeaseKeeper)
	if !ok {
		return fault.New(fault.Unimplemented, "driver %s does not support leases", a.Name())
	}
	return l.Renew(id, from)
}

// Keep passes the news on. It implements [driver.Keeper].
func (a *adopted) Keep(from int64, needed func(allocID string) bool) {
	if k, ok := a.Driver.(driver.Keeper); ok {
		k.Keep(from, needed)
	}
}

// Recall passes the order on. It implements [driver.Keeper].
func (a *adopted) Recall(ctx context.Context) error {
	if k, ok := a.Driver.(driver.Keeper); ok {
		return k.Recall(ctx)
	}
	return nil
}

// Remains passes the question on. It implements [driver.Remainer].
func (a *adopted) Remains(id string) []driver.Remain {
	if r, ok := a.Driver.(driver.Remainer); ok {
		return r.Remains(id)
	}
	return nil
}

// Exec passes the command on. It implements [driver.Execer].
func (a *adopted) Exec(ctx context.Context, id string, c *driver.Command) (int, error) {
	if e, ok := a.Driver.(driver.Execer); ok {
		return e.Exec(ctx, id, c)
	}
	return 0, fault.New(fault.Invalid, "driver %s does not run commands in its tasks", a.Name())
}

// Find passes the question on. It implements [driver.Finder].
func (a *adopted) Find(ctx context.Context, id string) (*driver.Handle, error) {
	if f, ok := a.Driver.(driver.Finder); ok {
		return f.Find(ctx, id)
	}
	return nil, fault.New(fault.NotFound, "task %s of driver %s", id, a.Name())
}

// adopt takes up all running tasks of an earlier agent process. Of those that it does not know it ends what it can
// never know: an agent that was killed may have begun the next attempts of its tasks, and of allocations that the
// servers will list; their tasks look for them.
func (c *Client) adopt(ctx context.Context, records map[string]*store.AllocRecord) {
	ctx, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	var all sync.WaitGroup
	for _, r := range records {
		for _, t := range r.Tasks {
			var h driver.Handle
			if len(t.Handle) == 0 || json.Unmarshal(t.Handle, &h) != nil {
				continue
			}
			if d := c.drivers[h.Driver]; d != nil {
				all.Go(func() { d.adopt(ctx, &h) })
			}
		}
	}
	all.Wait()
	var next []attempt
	for id, r := range records {
		if g := r.Alloc.Group(); g != nil {
			for _, t := range g.Tasks {
				number := uint64(1)
				if rec := r.Tasks[t.Name]; rec != nil {
					number += rec.Attempt
				}
				next = append(next, attempt{t.Driver, tasks.Attempt(id, t.Name, number)})
			}
		}
	}
	spare := c.takeUp(ctx, next)
	c.recallLeases(ctx)
	c.prune(ctx, spare, c.stateLost)
}

// attempt is one that an agent process may have begun and had no time to record.
type attempt struct{ driver, id string }

// takeUp takes up those of the attempts that run, and returns the ids of all: their tasks look for them, which may be
// long after, and their leases go on before.
func (c *Client) takeUp(ctx context.Context, list []attempt) (ids []string) {
	var all sync.WaitGroup
	for _, a := range list {
		ids = append(ids, a.id)
		if d := c.drivers[a.driver]; d != nil {
			all.Go(func() { d.takeUp(ctx, a.id) })
		}
	}
	all.Wait()
	return ids
}

func (a *adopted) takeUp(ctx context.Context, id string) {
	h, err := a.Find(ctx, id)
	if err != nil || a.Driver.Recover(ctx, h) != nil { // the task looks for it again
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[id] = nil
}

// recallLeases takes up the processes that keep leases of tasks which have ended.
func (c *Client) recallLeases(ctx context.Context) {
	for name, d := range c.drivers {
		if err := d.Recall(ctx); err != nil {
			c.log.Warn("take up leases of tasks that have ended", "driver", name, "error", err)
		}
	}
}

// prune ends the unknown tasks; while not all allocations are known, it ends only some of them. It records whether all
// of them have ended.
func (c *Client) prune(ctx context.Context, spare []string, all bool) {
	c.pruned = all
	for name, d := range c.drivers {
		p, ok := d.Driver.(pruner)
		if !ok {
			continue
		}
		switch ended, err := p.Prune(ctx, slices.Concat(spare, d.unsure), all); {
		case err != nil:
			c.pruned = false
			c.log.Warn("end unknown tasks", "driver", name, "error", err)
		case len(ended) > 0:
			c.log.Warn("ended unknown tasks", "driver", name, "tasks", ended)
		}
	}
}

// pruneWait bounds ending unknown tasks once the servers have reported the node's allocations.
const pruneWait = 30 * time.Second

// endUnknownTasks ends tasks of unknown allocations, after all allocations are known: those of the node and those in
// first, the servers' first response.
func (c *Client) endUnknownTasks(ctx context.Context, first []*api.Allocation) {
	ctx, cancel := context.WithTimeout(ctx, pruneWait)
	defer cancel()
	c.recallLeases(ctx) // those that did not respond at first
	var spare []string
	for _, e := range c.table.all() {
		if e.group != nil {
			spare = append(spare, e.group.Upcoming()...)
		}
	}
	var begun []attempt
	for _, a := range first {
		if a == nil || a.Group() == nil {
			continue
		}
		for _, t := range a.Group().Tasks {
			id := tasks.Attempt(a.ID, t.Name, 1)
			if spare = append(spare, id); c.table.get(a.ID) == nil {
				begun = append(begun, attempt{t.Driver, id})
			}
		}
	}
	c.takeUp(ctx, begun)
	c.prune(ctx, spare, true)
}

func (a *adopted) adopt(ctx context.Context, h *driver.Handle) {
	err := a.Driver.Recover(ctx, h)
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
		a.unsure = append(a.unsure, h.TaskID) // the task asks again
		return
	}
	a.answers[h.TaskID] = err
}
