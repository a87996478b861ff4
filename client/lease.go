package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// leaderWait bounds asking one server whether it knows a leader.
const leaderWait = 2 * time.Second

// leaseBeats is how many heartbeats are sent in the time of the shortest lease.
const leaseBeats = 3

// freshenPause is the pause between looks for the answer to a heartbeat, freshenMax the longest wait for it.
const (
	freshenPause = 10 * time.Millisecond
	freshenMax   = 2 * time.Second
)

// bootTime is CLOCK_BOOTTIME in nanoseconds: it goes on while the host sleeps and is never set back.
func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// lease is the node's promise to the servers: tasks stop using volumes that must have one user, and whose
// storage cannot cut this node off, when no heartbeat was answered for the term that comes with the claim.
type lease struct {
	// from is when the last answered heartbeat was sent; 0 before the first.
	from atomic.Int64
	born int64
	// hurry asks for a heartbeat now.
	hurry chan struct{}
}

// renewLeases takes note that a heartbeat which was sent at a time of [bootTime] counts.
func (c *Client) renewLeases(sent int64) {
	if sent <= c.lease.from.Load() {
		return
	}
	c.lease.from.Store(sent)
	for _, e := range c.table.all() {
		if e.group != nil {
			e.group.Renew(sent)
		}
	}
}

// beatWait bounds a heartbeat. While leases count, there must be time to ask the servers for their leader.
func (c *Client) beatWait() time.Duration {
	if term := c.volumes.ShortestLease(); term > 0 {
		return min(callWait, term/leaseBeats)
	}
	return callWait
}

// leaseOf is what the tasks of an allocation have to keep, nil when nothing.
func (c *Client) leaseOf(allocID string) *driver.Lease {
	if c.ownsTheServers() {
		return nil
	}
	term, paths := c.volumes.Lease(allocID)
	if term <= 0 {
		return nil
	}
	c.freshen(term)
	return &driver.Lease{Term: term, From: c.lease.from.Load(), Unmount: paths}
}

// freshen sees to it that a lease which begins does not begin half over: heartbeats were rarer before it.
func (c *Client) freshen(term time.Duration) {
	for until := bootTime() + int64(min(term/2, freshenMax)); bootTime() < until && bootTime()-c.lease.from.Load() > int64(term)/2; {
		select {
		case c.lease.hurry <- struct{}{}:
		default:
		}
		time.Sleep(freshenPause)
	}
}

// ownsTheServers reports whether the only server runs in this process. Then nobody else can be given the
// volumes while this node is silent.
func (c *Client) ownsTheServers() bool { return c.conf.ServerHere != nil && c.conf.ServerHere() }

// withoutLeader renews the leases when the voters prove that there is no leader: nobody can give the volumes
// to another node then, and the next leader waits for a whole term. An outage of the servers does not become
// one of the tasks.
func (c *Client) withoutLeader(ctx context.Context) {
	voters := c.voters.Load()
	if voters == nil {
		return
	}
	sent := bootTime()
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	var mu sync.Mutex
	var answers []*api.StatusLeaderResponse
	c.conf.Servers.Each(ctx, slices.Collect(maps.Values(voters.Servers)), func(ctx context.Context, server wire.Caller) {
		if r, err := wire.StatusLeader.Call(ctx, server, &api.QueryOptions{Region: c.conf.Region}); err == nil {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, r)
		}
	})
	if voters.Leaderless(answers) {
		c.log.Info("the servers have no leader: leases of volumes go on", "voters", len(voters.Servers), "answers", len(answers))
		c.renewLeases(sent)
	}
}

// endOverdue stops allocations whose leases ended and whose drivers leave that to the agent.
func (c *Client) endOverdue() {
	silence := time.Duration(bootTime() - max(c.lease.from.Load(), c.lease.born))
	if term := c.volumes.ShortestLease(); term <= 0 || silence < term || c.ownsTheServers() {
		return
	}
	for _, e := range c.table.all() {
		if e.group == nil {
			continue
		}
		if term, _ := c.volumes.Lease(e.alloc.ID()); term > 0 && silence >= term && !e.group.KeepsLeases() {
			c.log.Warn("stop allocation: the lease of its volumes ended", "alloc_id", e.alloc.ID(), "term", term)
			e.alloc.Stop()
		}
	}
}
