package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/gc"
	"github.com/open-nomad/open-nomad/client/stats"
)

func (c *Client) wakeCollect() {
	select {
	case c.collect <- struct{}{}:
	default:
	}
}

// collectEnded removes ended allocations when there are too many, or when the disk is full.
func (c *Client) collectEnded(ctx context.Context) error {
	every := c.conf.GCInterval
	if every <= 0 {
		every = time.Minute
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-c.collect:
		}
		for ctx.Err() == nil {
			ids := gc.Choose(c.ended(true), c.usage(), c.conf.GC)
			if len(ids) == 0 || !c.destroyAll(ctx, ids) {
				break
			}
		}
	}
}

// ended lists the allocations of which only files are left, which no other allocation waits for, and of whose end the servers
// know. With likely, those that another node may be about to ask for are left out, too.
func (c *Client) ended(likely bool) []gc.Alloc {
	var out []gc.Alloc
	all := c.table.all()
	wanted := map[string]bool{}
	for _, e := range all {
		wanted[e.alloc.Predecessor()] = true
	}
	for _, e := range all {
		if !e.heard.Load() || wanted[e.alloc.ID()] {
			continue
		}
		select {
		case <-e.alloc.Down():
			if last := lastFinish(e.alloc.Report().TaskStates); !e.alloc.Awaited() && (!likely || !e.alloc.MayBeAwaited(last)) {
				out = append(out, gc.Alloc{ID: e.alloc.ID(), Ended: last})
			}
		default:
		}
	}
	return out
}

func lastFinish(states map[string]*api.TaskState) (last time.Time) {
	for _, s := range states {
		if s.FinishedAt.After(last) {
			last = s.FinishedAt
		}
	}
	return last
}

func (c *Client) usage() gc.Usage {
	u := gc.Usage{Total: c.table.len()}
	if d, err := stats.Disk(c.conf.AllocDir); err == nil {
		u.DiskPercent, u.InodePercent = d.UsedPercent, d.InodesUsedPercent
	}
	return u
}

// destroyAll removes the allocations and reports whether any was removed.
func (c *Client) destroyAll(ctx context.Context, ids []string) bool {
	limit := make(chan struct{}, max(1, c.conf.GC.Parallel))
	var all sync.WaitGroup
	var mu sync.Mutex
	removed := false
	for _, id := range ids {
		e := c.table.get(id)
		if e == nil {
			continue
		}
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			if err := c.destroy(ctx, e); err != nil {
				c.log.Error("remove ended allocation", "alloc_id", id, "error", err)
				return
			}
			mu.Lock()
			removed = true
			mu.Unlock()
		})
	}
	all.Wait()
	return removed
}

// CollectAll removes every ended allocation at once.
func (c *Client) CollectAll(ctx context.Context) error {
	var errs []error
	for _, a := range c.ended(false) {
		if e := c.table.get(a.ID); e != nil {
			errs = append(errs, c.destroy(ctx, e))
		}
	}
	return errors.Join(errs...)
}
