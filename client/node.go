package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
)

const (
	// firstWait bounds the wait for what should be part of the first registration.
	firstWait = 5 * time.Second
	// changeWait gathers changes of the node record into one registration.
	changeWait = 20 * time.Millisecond
	// aloneEvery is how often a node without a reply from any server looks for allocations that must end then.
	aloneEvery = 500 * time.Millisecond
	// registerRounds is how often a registration is repeated at once because the servers were restored meanwhile.
	registerRounds = 3
	// beatRetry is the pause after a heartbeat without a reply.
	beatRetry = time.Second
)

// serveNode registers the node, keeps it alive and passes on its changes.
func (c *Client) serveNode(ctx context.Context) error {
	c.awaitFirst(ctx)
	ttl, err := c.registerUntilDone(ctx)
	if err != nil {
		return err
	}
	c.conf.Servers.SetNode(c.id, c.credential())
	close(c.registered)
	c.log.Info("node is registered", "node_id", c.id, "heartbeat_ttl", ttl)
	due, at := time.NewTimer(ttl), time.Now().Add(ttl)
	defer due.Stop()
	in := func(d time.Duration) { at = time.Now().Add(d); due.Reset(d) }
	soon := func() { // what comes thick does not put it off
		if time.Until(at) > changeWait {
			in(changeWait)
		}
	}
	changed := false // since the last registration
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.node.changed:
			changed = true
			soon()
		case <-c.node.told:
			soon()
		case <-c.lease.hurry:
			in(0)
		case <-due.C:
			if !changed {
				in(c.beat(ctx))
				continue
			}
			next, err := c.register(ctx)
			if err == nil {
				changed = false
				c.sendEvents(ctx)
			} else if ctx.Err() == nil {
				c.log.Warn("register node", "retry_in", next, "error", err)
			}
			in(next)
		}
	}
}

// awaitFirst waits, bounded, for what must be part of the first registration: the reports of the task
// drivers and of the device plugins, whether the disks can be written, the dynamic host volumes, and the plugins that went on running while the agent was away. Without
// the last the servers would take a restart of the agent for a loss of the plugins.
func (c *Client) awaitFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if err := c.watch.WaitFirst(ctx); err != nil {
		c.log.Warn("task drivers are slow to report: the node registers without them", "error", err)
	}
	for _, first := range []<-chan struct{}{c.tried, c.hostVolumes.Restored(), c.devices.First()} {
		select {
		case <-first:
		case <-ctx.Done():
		}
	}
	for missing := c.missingPlugins(); len(missing) > 0; missing = c.missingPlugins() {
		select {
		case <-c.node.changed:
		case <-ctx.Done():
			c.log.Warn("plugins that ran before are not healthy yet: the node registers without them", "plugins", missing)
			return
		}
	}
	select { // what was heard is part of the first registration
	case <-c.node.changed:
	default:
	}
}

// missingPlugins lists the plugins of running tasks that are not known to be healthy.
func (c *Client) missingPlugins() (missing []string) {
	n := c.node.present()
	for _, e := range c.table.all() {
		a := e.alloc.Present()
		if a.Group() == nil {
			continue
		}
		states := e.alloc.Tasks().States()
		for _, t := range a.Group().Tasks {
			p, s := t.CSIPluginConfig, states[t.Name]
			if p == nil || s == nil || s.State != api.TaskStateRunning {
				continue
			}
			controller, node := n.CSIControllerPlugins[p.ID], n.CSINodePlugins[p.ID]
			if controller != nil && controller.Healthy || node != nil && node.Healthy {
				continue
			}
			missing = append(missing, p.ID)
		}
	}
	return missing
}

// registerUntilDone registers the node as it is; it gives up only when ctx ends. Each try is bounded: see [Client.register].
func (c *Client) registerUntilDone(ctx context.Context) (time.Duration, error) {
	pauses, refused := retry.Between(retryMin, retryMax), ""
	for {
		ttl, err := c.register(ctx)
		if err == nil || ctx.Err() != nil {
			return ttl, err
		}
		pause := pauses.Next()
		switch {
		case !errors.Is(err, fault.Denied):
			c.log.Warn("register node", "retry_in", pause, "error", err)
		case err.Error() == refused:
			c.log.Debug("the node is still refused", "retry_in", pause)
		default: // once for each reason: only an operator can help
			refused = err.Error()
			c.log.Error("the servers refuse this node", "node_id", c.id, "state_dir", c.conf.StateDir, "error", err)
		}
		retry.Sleep(ctx, pause)
	}
}

// register registers the node as it is and returns when something is to be sent next.
func (c *Client) register(ctx context.Context) (time.Duration, error) {
	call, cancel := context.WithTimeout(ctx, c.beatWait()) // for all rounds together
	defer cancel()
	for range registerRounds {
		n := *c.node.present()
		n.StaleMounts = c.volumes.Mounts()
		sent := bootTime()
		process, number := c.sequence.next()
		resp, err := wire.NodeRegister.Call(call, c.conf.Servers, &api.NodeRegisterRequest{
			Node: &n, Rollback: c.rollback, Process: process, Number: number, WriteRequest: api.WriteRequest{Region: c.conf.Region},
			Identity: c.identitySigned(), Introduction: c.intro,
		})
		switch {
		case err != nil:
			if errors.Is(err, fault.Denied) { // an operator may have put a token there meanwhile
				c.intro = cmp.Or(c.conf.IntroToken, c.readToken(introFile))
			}
			c.withoutLeader(ctx)
			return beatRetry + jitter(beatRetry), err
		case resp.Late:
			c.sequence.rename()
		case resp.Rollback == 0:
			return c.heard(resp, sent), nil
		default:
			c.rollback = resp.Rollback // what was sent may be older than the restore: it is said again
		}
	}
	return beatRetry + jitter(beatRetry), fault.New(fault.Unavailable, "the servers are restored again and again, or another agent is this node, too")
}

// heard takes over the content of a reply to a heartbeat or registration that was sent at a time of [bootTime].
func (c *Client) heard(resp *api.NodeUpdateResponse, sent int64) time.Duration {
	c.renewLeases(sent)
	c.answered.Store(sent)
	c.storeHeartbeat(sent)
	c.serversReceived(resp.Servers)
	c.votersReceived(resp.Voters)
	c.identityReceived(resp.Identity)
	if resp.HeartbeatTTL <= 0 {
		return beatRetry
	}
	c.conf.Servers.SetPace(resp.HeartbeatTTL)
	if resp.Held {
		return min(resp.HeartbeatTTL, beatRetry)
	}
	if l := c.volumes.ShortestLease(); l.Term > 0 {
		return min(resp.HeartbeatTTL, l.Beat())
	}
	return resp.HeartbeatTTL
}

// beat sends a heartbeat and returns when the next is due.
func (c *Client) beat(ctx context.Context) time.Duration {
	events := c.node.takeEvents()
	call, cancel := context.WithTimeout(ctx, c.beatWait())
	defer cancel()
	sent := bootTime()
	process, number := c.sequence.next()
	resp, err := wire.NodeHeartbeat.Call(call, c.conf.Servers, &api.NodeHeartbeatRequest{
		NodeID: c.id, NodeSecret: c.credential(), Status: api.NodeStatusReady, Events: events, Process: process, Number: number,
		RenewIdentity: c.renewIdentity.Load(), WriteRequest: api.WriteRequest{Region: c.conf.Region},
	})
	switch {
	case err == nil:
		return c.heard(resp, sent)
	case ctx.Err() != nil:
		return beatRetry
	}
	c.node.putBack(events)
	c.log.Warn("heartbeat was not answered", "error", err)
	c.withoutLeader(ctx)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Denied) {
		c.node.wake() // purged, another process has registered, or the identity has expired: register again
	}
	return beatRetry + jitter(beatRetry)
}

// watchSilence ends what must not run while no server replies. It is a loop of its own: a heartbeat that waits for a
// reply must not delay it.
func (c *Client) watchSilence(ctx context.Context) error {
	tick := time.NewTicker(aloneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		c.stopAlone(c.alone())
	}
}

// stopAlone stops allocations that must not run for longer without servers.
func (c *Client) stopAlone(silence time.Duration) {
	for _, e := range c.table.all() {
		if limit := aloneMax(e.alloc.Present().Group()); limit > 0 && silence > limit {
			c.log.Warn("stop allocation: no server has answered for too long", "alloc_id", e.alloc.ID(), "silence", silence)
			e.alloc.Stop()
		}
	}
}

// aloneMax is how long a group may run without servers; 0 means indefinitely.
func aloneMax(g *api.TaskGroup) time.Duration {
	switch {
	case g == nil:
		return 0
	case g.Disconnect != nil && g.Disconnect.StopOnClientAfter > 0:
		return g.Disconnect.StopOnClientAfter
	}
	return g.StopAfterClientDisconnect
}

// sendEvents sends what has happened on the node without waiting for the next heartbeat.
func (c *Client) sendEvents(ctx context.Context) {
	c.node.mu.RLock()
	n := len(c.node.events)
	c.node.mu.RUnlock()
	if n > 0 {
		c.beat(ctx)
	}
}
