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
	"github.com/open-nomad/open-nomad/internal/retry"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// leaderWait bounds asking one server whether it knows a leader.
const leaderWait = 2 * time.Second

// freshenPause is the pause between checks for the reply to a heartbeat, freshenMax the longest wait for it.
const (
	freshenPause = 10 * time.Millisecond
	freshenMax   = 2 * time.Second
)

// bootTime returns CLOCK_BOOTTIME in nanoseconds: it counts while the host sleeps and is never set back.
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
	// lost is set when the heartbeats of an earlier agent process are not known, and something is mounted under a lease.
	lost bool
	// noted is set while the note of it exists.
	noted atomic.Bool
	// hurry asks for a heartbeat now.
	hurry chan struct{}
}

// renewLeases takes note that a heartbeat which was sent at a time of [bootTime] counts.
func (c *Client) renewLeases(sent int64) {
	if sent <= c.lease.from.Load() {
		return
	}
	c.endMissed(sent)
	c.lease.from.Store(sent)
	c.storeLease()
	forEachEntry(c.table.all(), func(e *entry) { e.renew(sent) })
	c.keepEnded(sent)
}

// keepEnded renews the leases of tasks that have ended, and lets go of those whose volumes are unmounted.
func (c *Client) keepEnded(sent int64) {
	for _, d := range c.drivers {
		d.Keep(sent, c.volumes.Leased())
	}
}

// endMissed ends the leases that expired before the heartbeat was sent and are not ended yet: the host slept. The
// servers may have given their volumes to other nodes, whatever they reply now.
func (c *Client) endMissed(sent int64) {
	if c.volumes == nil || c.ownsTheServers() {
		return
	}
	silence := time.Duration(sent - c.lease.since())
	if l := c.volumes.ShortestLease(); l.Term > 0 && silence >= l.Stop() {
		c.endLeases(context.Background(), silence, map[string]bool{})
	}
}

// beatWait bounds a heartbeat. While leases count, there must be time to ask the servers for their leader.
func (c *Client) beatWait() time.Duration {
	if l := c.volumes.ShortestLease(); l.Term > 0 {
		return min(callWait, l.Beat())
	}
	return callWait
}

// leaseOf is what the tasks of an allocation have to keep, nil when nothing.
func (c *Client) leaseOf(allocID string) *driver.Lease {
	if c.ownsTheServers() {
		return nil
	}
	l := c.volumes.Lease(allocID)
	if l == nil {
		return nil
	}
	c.freshen(l.Term.Stop())
	from := c.lease.since()
	c.storeLease()
	return &driver.Lease{Term: l.Term, From: from, Unmount: l.Unmount, Beside: l.Beside}
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

// ownsTheServers reports whether the only server runs in this process. Then no other node can be given the volumes
// while this node is silent.
func (c *Client) ownsTheServers() bool { return c.conf.ServerHere != nil && c.conf.ServerHere() }

// withoutLeader renews the leases when the voters prove that there is no leader: no server can give the volumes to
// another node then, and the next leader waits for a whole term. So an outage of the servers does not become an outage
// of the tasks.
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
			if answers = append(answers, r); voters.Leaderless(answers) {
				c.renewLeases(sent)
				cancel() // those who cannot be reached are not waited for
			}
		}
	})
	if c.lease.from.Load() >= sent {
		c.log.Info("the servers have no leader: leases of volumes go on", "voters", len(voters.Servers), "answers", len(answers))
	}
}

// watchLeases ends what no other process ends when leases expire: tasks of drivers that keep none, and mounts whose
// supervising process is dead, or stopped, or not needed any more.
func (c *Client) watchLeases(ctx context.Context) error {
	told := map[string]bool{}
	for {
		l := c.volumes.ShortestLease()
		pause := aloneEvery
		if l.Term > 0 {
			pause = min(pause, max((l.Term-l.Last())/2, freshenPause))
		}
		if !retry.Sleep(ctx, pause) {
			return ctx.Err()
		}
		silence := c.silence()
		c.keepEnded(0)
		if l.Term <= 0 {
			c.removeLeaseFile()
		}
		if l.Term <= 0 || silence < l.Stop() {
			clear(told)
			c.volumes.EndLeases(silence, func(string) bool { return true })
			continue
		}
		c.endLeases(ctx, silence, told)
	}
}

// since returns when the lease began; the lease of an earlier agent process continues.
func (l *lease) since() int64 {
	if from := l.from.Load(); from > 0 {
		return from
	}
	if l.lost {
		return longAgo
	}
	return l.born
}

// silence returns how long no server has replied; it is 0 where no other node can be given the volumes.
func (c *Client) silence() time.Duration {
	if c.ownsTheServers() {
		return 0
	}
	return time.Duration(bootTime() - c.lease.since())
}

func (c *Client) endLeases(ctx context.Context, silence time.Duration, told map[string]bool) {
	all := c.table.all()
	kept, terms := leasesKept(all), c.volumes.LeaseTerms()
	for _, e := range all {
		id := e.alloc.ID()
		l, leased := terms[id]
		if e.group == nil || !leased || silence < l.Stop() {
			continue
		}
		e.group.KillUnleased(ctx)
		if kept[id] && silence < l.Last() {
			continue
		}
		if !told[id] {
			told[id] = true
			c.log.Warn("stop allocation: the lease of its volumes ends", "alloc_id", id, "term", l.Term, "silence", silence)
		}
		e.alloc.Stop()
	}
	c.volumes.EndLeases(silence, func(id string) bool { return kept[id] })
}
