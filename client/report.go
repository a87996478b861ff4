package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// The least time between two reports; the first after a quiet time goes out at once. News that change the
// status of an allocation wait less, for a scheduler or a user waits for them.
const (
	reportGap = 50 * time.Millisecond
	statusGap = 5 * time.Millisecond
)

// reports is what the servers have not heard yet.
type reports struct {
	mu    sync.Mutex
	dirty map[string]bool
	// extra are reports about allocations that are not in the table.
	extra map[string]*api.Allocation
	kick  chan struct{}
}

func newReports() *reports {
	return &reports{dirty: map[string]bool{}, extra: map[string]*api.Allocation{}, kick: make(chan struct{}, 1)}
}

// add notes that an allocation has news. It does not block.
func (r *reports) add(id string) {
	r.mu.Lock()
	r.dirty[id] = true
	r.mu.Unlock()
	r.wake()
}

// gone reports the end of an allocation that the servers ended and the node never had, or no longer has.
func (r *reports) gone(a *api.Allocation) {
	r.put(a, api.AllocClientStatusComplete, "All tasks have completed")
}

// refuse reports an allocation that the node cannot even begin.
func (r *reports) refuse(a *api.Allocation, err error) {
	r.put(a, api.AllocClientStatusFailed, err.Error())
}

func (r *reports) put(a *api.Allocation, status, description string) {
	r.mu.Lock()
	r.extra[a.ID] = &api.Allocation{
		ID: a.ID, Namespace: a.Namespace, JobID: a.JobID, NodeID: a.NodeID, TaskGroup: a.TaskGroup,
		ClientStatus: status, ClientDescription: description, TaskStates: a.TaskStates,
	}
	r.mu.Unlock()
	r.wake()
}

func (r *reports) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// last keeps the news of an allocation that leaves the table.
func (r *reports) last(report *api.Allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirty[report.ID] {
		delete(r.dirty, report.ID)
		r.extra[report.ID] = report
	}
}

// take empties the list.
func (r *reports) take() (ids map[string]bool, extra map[string]*api.Allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids, extra = r.dirty, r.extra
	r.dirty, r.extra = map[string]bool{}, map[string]*api.Allocation{}
	return ids, extra
}

// putBack returns what could not be sent; newer news win.
func (r *reports) putBack(list []*api.Allocation) {
	r.mu.Lock()
	for _, a := range list {
		if r.extra[a.ID] == nil {
			r.extra[a.ID] = a
		}
	}
	r.mu.Unlock()
	r.wake()
}

// sendReports sends the states of tasks to the servers.
func (c *Client) sendReports(ctx context.Context) error {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return ctx.Err()
	}
	pauses := retry.Between(retryMin, retryMax)
	var last time.Time
	for {
		select {
		case <-c.reports.kick:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.waitGap(ctx, last)
		last = time.Now()
		list := c.news()
		if err := c.report(ctx, list); err != nil && ctx.Err() == nil {
			pause := pauses.Next()
			c.log.Warn("report allocations", "count", len(list), "retry_in", pause, "error", err)
			c.reports.putBack(list)
			retry.Sleep(ctx, pause)
			continue
		}
		pauses.Reset()
		c.acknowledged(list)
	}
}

// acknowledged notes which ends the servers know.
func (c *Client) acknowledged(list []*api.Allocation) {
	for _, a := range list {
		if e := c.table.get(a.ID); e != nil && a.ClientTerminal() && !e.heard.Swap(true) {
			c.wakeCollect()
		}
	}
}

// waitGap waits until the next report may go out.
func (c *Client) waitGap(ctx context.Context, last time.Time) {
	for ctx.Err() == nil {
		gap := reportGap
		if c.urgent() {
			gap = statusGap
		}
		wait := gap - time.Since(last)
		if wait <= 0 {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-c.reports.kick: // it may be urgent
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// urgent reports whether an allocation has a status that the servers have not heard.
func (c *Client) urgent() bool {
	c.reports.mu.Lock()
	ids, extra := slices.Collect(maps.Keys(c.reports.dirty)), len(c.reports.extra)
	c.reports.mu.Unlock()
	return extra > 0 || slices.ContainsFunc(ids, func(id string) bool {
		e := c.table.get(id)
		return e != nil && e.alloc.Status() != e.told
	})
}

// news is what the servers have not heard; of an allocation that is still here, as it is now.
func (c *Client) news() []*api.Allocation {
	ids, extra := c.reports.take()
	var out []*api.Allocation
	for id := range ids {
		if e := c.table.get(id); e != nil {
			delete(extra, id)
			r := e.alloc.Report()
			if e.told != r.ClientStatus {
				c.reported(e, r.ClientStatus)
			}
			e.told = r.ClientStatus
			out = append(out, r)
		}
	}
	for _, a := range extra {
		out = append(out, a)
	}
	return out
}

func (c *Client) report(ctx context.Context, list []*api.Allocation) error {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callMargin)
	defer cancel()
	process, number := c.sequence.next()
	_, err := wire.NodeUpdateAllocs.Call(ctx, c.conf.Servers, &api.AllocUpdateRequest{
		NodeID: c.id, NodeSecret: c.credential(), Allocs: list, Process: process, Number: number, WriteRequest: api.WriteRequest{Region: c.conf.Region},
	})
	return err
}
