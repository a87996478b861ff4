package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/identities"
	"github.com/open-nomad/open-nomad/client/secrets"
	"github.com/open-nomad/open-nomad/client/steps"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/client/tasks"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

const (
	// assignWait bounds one blocking query, callMargin the call beyond that.
	assignWait = 5 * time.Minute
	// settleAgain bounds the time until ending unknown tasks is tried again after a failure.
	settleAgain = 10 * time.Second
	callMargin  = 30 * time.Second
	callWait    = 10 * time.Second
	retryMin    = 100 * time.Millisecond
	retryMax    = 5 * time.Second
)

// restore takes up the allocations of an earlier agent process.
func (c *Client) restore(ctx context.Context, records map[string]*store.AllocRecord) {
	ids := slices.SortedFunc(maps.Keys(records), func(a, b string) int { // predecessors first: their successors look for them
		return cmp.Or(cmp.Compare(records[a].Alloc.CreateIndex, records[b].Alloc.CreateIndex), cmp.Compare(a, b))
	})
	for _, id := range ids {
		r := records[id]
		if err := c.take(ctx, r.Alloc, r); err != nil {
			c.log.Error("take up allocation", "alloc_id", id, "error", err)
			continue
		}
		c.reports.add(id)
	}
	if len(records) > 0 {
		c.log.Info("took up allocations of an earlier agent", "count", c.table.len())
	}
}

// known lists the allocations of an earlier agent process for the volumes.
func known(records map[string]*store.AllocRecord) map[string]volumes.Known {
	out := make(map[string]volumes.Known, len(records))
	for id, r := range records {
		g := r.Alloc.Group()
		ended := g != nil && len(r.Tasks) >= len(g.Tasks)
		for _, t := range r.Tasks {
			ended = ended && t.State != nil && t.State.State == api.TaskStateDead
		}
		out[id] = volumes.Known{Alloc: r.Alloc, Ended: ended}
	}
	return out
}

// take makes an allocation and leads it.
func (c *Client) take(ctx context.Context, a *api.Allocation, restored *store.AllocRecord) error {
	e := &entry{}
	made, err := allocs.New(allocs.Config{
		Dirs: c.tree, Store: c.db, Journal: c.db.Journal(a.ID), Volumes: c.mounts(a), Networks: c.networks, Checks: c.checks,
		Tasks: func(a *api.Allocation, dir dirs.Alloc, old map[string]*store.TaskRecord, changed func()) (allocs.Tasks, error) {
			g, err := c.group(a, dir, old, changed)
			if err != nil {
				return nil, err
			}
			e.group = g
			return g, nil
		},
		Ended: c.table.ended, Find: c.table.alloc, Pages: c.diskPages, Changed: c.reports.add, StepDone: c.stepDone,
		Pace: steps.DefaultPace, Log: c.log.Named("allocs"),
	}, a, restored)
	if err != nil {
		return err
	}
	e.alloc = made
	c.table.add(ctx, e, c.wakeCollect)
	return nil
}

func (c *Client) group(a *api.Allocation, dir dirs.Alloc, old map[string]*store.TaskRecord, changed func()) (*tasks.Group, error) {
	return tasks.New(c.tasksConfig(a, dir, old, changed))
}

func (c *Client) tasksConfig(a *api.Allocation, dir dirs.Alloc, old map[string]*store.TaskRecord, changed func()) tasks.Config {
	var serve func(net.Listener, string)
	if c.conf.ServeTask != nil {
		serve = func(l net.Listener, task string) { c.conf.ServeTask(l, a.ID, task) }
	}
	return tasks.Config{
		Alloc: a, Dirs: dir, Store: taskRecords{c.db, a.ID}, Restored: old, Node: c.node.present, Region: c.conf.Region,
		HostEnv: c.hostEnv, Driver: c.driver, Plugin: c.plugin, Lease: func() *driver.Lease { return c.leaseOf(a.ID) }, KillTimeoutMax: c.conf.MaxKillTimeout,
		Identities: &identities.Signer{
			Servers: afterRegistration{c.conf.Servers, c.registered, c.credential}, NodeID: c.id, Secret: c.credential, Region: c.conf.Region,
		},
		Secrets:   &secrets.Fetcher{Servers: c.conf.Servers, Region: c.conf.Region, Dir: c.conf.secretsDir()},
		Devices:   c.devices,
		Network:   func() tasks.Network { return c.networkOf(a) },
		Artifacts: c.artifacts, ServeAPI: serve, Templates: c.templates,
		Mounted:  func() error { return c.volumes.Mounted(a.ID) },
		Stuck:    func(reason string) { go c.volumes.Explain(context.Background(), a.ID, reason) },
		Happened: func(task string, e *api.TaskEvent) { c.happened(a, task, e) },
		Changed:  changed, Jitter: jitter, Log: c.log.Named("tasks").With("alloc_id", a.ID),
	}
}

// taskRecords stores the tasks of one allocation.
type taskRecords struct {
	db      *store.DB
	allocID string
}

// PutTask stores a record.
func (t taskRecords) PutTask(task string, r *store.TaskRecord, durable bool) error {
	return t.db.PutTask(t.allocID, task, r, durable)
}

// followAssignments keeps the set of allocations as the servers want it until ctx ends; the allocations live
// as long as life.
func (c *Client) followAssignments(ctx, life context.Context) error {
	select {
	case <-c.registered:
	case <-ctx.Done():
		return ctx.Err()
	}
	known := map[string]uint64{}
	for _, e := range c.table.all() {
		known[e.alloc.ID()] = e.alloc.Present().AllocModifyIndex
	}
	var index, line uint64
	pauses, settled, first := retry.Between(retryMin, retryMax), false, true
	for ctx.Err() == nil {
		wait := assignWait
		if !settled {
			wait = settleAgain
		}
		resp, err := c.assignments(ctx, known, index, line, wait)
		switch {
		case err != nil:
			pause := pauses.Next()
			if errors.Is(err, fault.NotFound) {
				c.node.wake() // purged, or not in the state that was restored: register again
			}
			if ctx.Err() == nil {
				c.log.Warn("ask for assignments", "retry_in", pause, "error", err)
			}
			retry.Sleep(ctx, pause)
		case resp.Index < index:
			// The servers went back in time. What they no longer list is removed when they leave it out again.
			c.log.Warn("servers answered with older assignments", "index", resp.Index, "had", index)
			index = 0
			retry.Sleep(ctx, retryMin)
		default:
			index, line = resp.Index, resp.Line
			pauses.Reset()
			if first {
				c.volumes.Listed(resp.Changed)
			}
			if !settled {
				if !c.pruned {
					c.endUnknownTasks(life, resp.Changed)
				}
				if settled = c.pruned; settled {
					c.volumes.Settled()
				}
			}
			first = false
			c.apply(life, resp, known)
		}
	}
	return ctx.Err()
}

// assignments asks for the differences to the known allocations. With the line of an earlier response, a summary is
// enough.
func (c *Client) assignments(ctx context.Context, known map[string]uint64, index, line uint64, wait time.Duration) (*api.NodeAssignmentsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+wait/16+callMargin)
	defer cancel()
	r := &api.NodeAssignmentsRequest{
		NodeID: c.id, NodeSecret: c.credential(), Known: known,
		QueryOptions: api.QueryOptions{Region: c.conf.Region, Namespace: api.AllNamespaces, MinIndex: index, MaxWait: wait},
	}
	if index > 0 && line > 0 {
		r.Known, r.Line, r.Count = nil, line, len(known)
		for _, modified := range known {
			r.Newest = max(r.Newest, modified)
		}
	}
	resp, err := wire.NodeAssignments.Call(ctx, c.conf.Servers, r)
	if err != nil || !partial(resp) {
		return resp, err
	}
	return c.rest(ctx, r, resp, known)
}

// partial reports whether a response does not contain all changes.
func partial(r *api.NodeAssignmentsResponse) bool { return r.Index == 0 && len(r.Changed) > 0 }

// rest asks for the changes that a partial response leaves out, repeatedly if needed, and joins the responses.
func (c *Client) rest(ctx context.Context, r *api.NodeAssignmentsRequest, resp *api.NodeAssignmentsResponse, known map[string]uint64) (*api.NodeAssignmentsResponse, error) {
	r.Known, r.MinIndex, r.Line, r.Newest, r.Count = maps.Clone(known), 0, 0, 0, 0
	changed := map[string]*api.Allocation{}
	for {
		for _, a := range resp.Changed {
			if a != nil {
				changed[a.ID], r.Known[a.ID] = a, a.AllocModifyIndex
			}
		}
		if !partial(resp) {
			break
		}
		var err error
		if resp, err = wire.NodeAssignments.Call(ctx, c.conf.Servers, r); err != nil {
			return nil, err
		}
	}
	resp.Changed = nil
	for _, id := range resp.Assigned { // others were forgotten meanwhile
		if a := changed[id]; a != nil {
			resp.Changed = append(resp.Changed, a)
		}
	}
	return resp, nil
}

// apply starts, updates and removes allocations. known is sent to the servers in the next request.
func (c *Client) apply(ctx context.Context, resp *api.NodeAssignmentsResponse, known map[string]uint64) {
	if !resp.Kept {
		c.forgetOthers(ctx, resp.Assigned, known)
	}
	slices.SortStableFunc(resp.Changed, pluginsLast)
	for _, a := range resp.Changed {
		if a == nil || a.ID == "" {
			continue
		}
		if err := c.place(ctx, a); err != nil {
			c.log.Error("take allocation", "alloc_id", a.ID, "error", err)
			c.reports.refuse(a, err)
		}
		known[a.ID] = a.AllocModifyIndex
	}
	if c.conf.GC.MaxAllocs > 0 && c.table.len() > c.conf.GC.MaxAllocs {
		c.wakeCollect()
	}
}

// forgetOthers forgets the allocations that the servers no longer list.
func (c *Client) forgetOthers(ctx context.Context, listed []string, known map[string]uint64) {
	assigned := make(map[string]bool, len(listed))
	for _, id := range listed {
		assigned[id] = true
	}
	var gone []*api.Allocation
	for id := range known {
		if assigned[id] {
			continue
		}
		delete(known, id)
		if e := c.table.get(id); e != nil {
			gone = append(gone, e.alloc.Present())
		}
	}
	slices.SortFunc(gone, pluginsLast)
	for _, a := range gone {
		c.forget(ctx, a.ID)
	}
}

// pluginsLast orders plugins after other allocations: a plugin that is stopped waits for the allocations that leave, so
// these must be known before.
func pluginsLast(a, b *api.Allocation) int {
	plugin := func(a *api.Allocation) int {
		if runsPlugin(a) {
			return 1
		}
		return 0
	}
	return cmp.Compare(plugin(a), plugin(b))
}

// place starts or updates one allocation. One that the servers ended before it began here is taken as well,
// to give back what was claimed for it, unless the node may have forgotten that it mounted something.
func (c *Client) place(ctx context.Context, a *api.Allocation) error {
	if e := c.table.get(a.ID); e != nil {
		e.alloc.Update(a)
		if a.ClientStatus != e.alloc.Status() { // as after the servers lost sight of it
			c.reports.add(a.ID)
		}
		return nil
	}
	switch {
	case a.ClientTerminal():
		return nil
	case a.ServerTerminal() && c.stateLost:
		c.reports.gone(a)
		return nil
	}
	return c.take(ctx, a, nil)
}

// forget ends an allocation that the servers no longer know, and removes it.
func (c *Client) forget(ctx context.Context, id string) {
	e := c.table.get(id)
	if e == nil {
		return
	}
	e.alloc.Stop()
	c.table.runs.Go(id, func() {
		if err := c.destroy(ctx, e); err != nil && ctx.Err() == nil {
			c.log.Error("remove allocation", "alloc_id", id, "error", err)
		}
	})
}

// destroy removes an allocation as soon as it is down.
func (c *Client) destroy(ctx context.Context, e *entry) error {
	if err := e.alloc.Destroy(ctx); err != nil {
		return err
	}
	c.reports.last(e.alloc.Report())
	c.table.remove(e.alloc.ID())
	return nil
}

// find returns an allocation that users ask for.
func (c *Client) find(id string) (*entry, error) {
	if e := c.table.get(id); e != nil {
		return e, nil
	}
	return nil, fault.New(fault.NotFound, "Unknown allocation %q", id)
}

// networkOf returns the network of an allocation as its tasks see it.
func (c *Client) networkOf(a *api.Allocation) tasks.Network {
	n := tasks.Network{Namespace: c.networks.Path(a), Hostname: c.networks.Hostname(a)}
	for _, f := range c.networks.Files(a) {
		n.Files = append(n.Files, driver.Mount{Source: f.Path, Destination: f.At, ReadOnly: true})
	}
	return n
}
