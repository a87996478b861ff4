package cluster

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes"
)

// agent is the client process of a node: the real service of volumes, and around it what the client does.
type agent struct {
	n *node
	// life names the agent among those of its node: the dice of one do not depend on what the others threw at the
	// moment of their death.
	life string
	ctx  context.Context
	die  context.CancelFunc
	svc  *volumes.Service
	from time.Duration // of the last answered heartbeat
	live map[string]*runner
	// index and line are those of the last answer about allocations, has what it said of them.
	index, line uint64
	has         map[string]uint64
	told        chan struct{} // closed when the servers know this boot
	news        chan struct{} // the fingerprint has changed
	calls       map[string]wire.Handler
	at          int // the server that is asked first
	// named are the servers that gossip thought alive when the last heartbeat was answered.
	named []*server
	// controllers and nodes are the fingerprint of the plugins.
	controllers, nodes map[string]*api.CSIInfo
	serving            map[string]context.CancelFunc // of instances of plugins
}

// start starts an agent; the lock is held.
func (n *node) start() {
	if n.agent != nil || n.os.Err() != nil {
		return
	}
	n.lives++
	a := &agent{
		n: n, life: fmt.Sprintf("%s/%d", n.id, n.lives), live: map[string]*runner{}, has: map[string]uint64{}, told: make(chan struct{}), news: make(chan struct{}, 1), calls: map[string]wire.Handler{},
		at: n.w.dice.roll("at " + n.id).IntN(3), serving: map[string]context.CancelFunc{},
	}
	a.ctx, a.die = context.WithCancel(n.os)
	n.agent = a
	n.corrupt()
	first := time.Duration(0)
	if !n.booted {
		n.booted = true
		first = bootTime + n.w.some(n.w.dice.roll("boot "+n.id), bootTime)
	}
	go a.run(first)
}

// dies reports whether the agent dies at a moment, or is dead already. Another one is started after it.
func (a *agent) dies(moment string) bool {
	n, w := a.n, a.n.w
	if a.ctx.Err() != nil {
		return true
	}
	r := w.dice.roll("dies " + a.life + " " + moment)
	if !w.rarely(r, 4) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.agent != a {
		return true
	}
	w.tell("the agent of %s dies %s", n.id, moment)
	n.kill()
	time.AfterFunc(w.some(r, 6*time.Second), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n.os.Err() == nil && n.agent == nil {
			w.tell("the agent of %s starts", n.id)
			n.start()
		}
	})
	return true
}

// begin makes the service of volumes from what is on the disk.
func (a *agent) begin() error {
	n, w := a.n, a.n.w
	svc, err := volumes.New(volumes.Config{
		StateDir: "/state", NodeID: func() string { return n.id }, NodeSecret: func() string { return "secret-" + n.id },
		Servers: claims{a}, Journal: bucket{a, "volumes"}, Registry: bucket{a, "plugins"}, Fences: bucket{a, "fences"}, Updated: a.updated,
		Host: hands{n.kernel, a}, Connect: a.connect, Tasks: workloads{a},
		PluginWait: 30 * time.Second, RetryMax: 4 * time.Second, HealthInterval: 2 * time.Minute,
		Chance: func(what string, below time.Duration) time.Duration {
			if a.ctx.Err() != nil { // what the dead throw is in no order
				return below
			}
			return w.some(w.dice.roll(a.life+" "+what), below)
		},
		Begin: func(ctx context.Context, what string) {
			a.sleep(ctx, "begins "+what+numberOf(ctx), time.Millisecond)
		},
		Log: quiet,
	})
	if err != nil {
		return err
	}
	known := map[string]volumes.Known{}
	w.mu.Lock()
	for _, p := range n.plugins {
		known[p.alloc] = volumes.Known{}
	}
	for id, k := range n.disk.known {
		known[id] = volumes.Known{Alloc: k.alloc, Ended: k.ended}
	}
	w.mu.Unlock()
	svc.Restored(known) // it may write to the disk
	svc.Listed(nil)     // the disk has all allocations that the servers have here
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range svc.Handlers() {
		a.calls[h.Name] = a.spoilt(h)
	}
	a.svc = svc
	return nil
}

// updated takes note of the plugins' fingerprint.
func (a *agent) updated(controllers, nodes map[string]*api.CSIInfo) {
	a.n.w.mu.Lock()
	a.controllers, a.nodes = controllers, nodes
	a.n.w.mu.Unlock()
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// run is the life of the agent.
func (a *agent) run(first time.Duration) {
	n, w := a.n, a.n.w
	if !w.sleep(a.ctx, first) || !a.sleep(a.ctx, "begin "+n.id, 300*time.Millisecond) {
		return
	}
	if err := a.begin(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if a.ctx.Err() == nil {
			w.fail("%s cannot start: %v", n.id, err)
		}
		return
	}
	go func() { _ = a.svc.Run(a.ctx) }()
	w.mu.Lock()
	for _, p := range n.plugins {
		a.serve(p)
	}
	for _, id := range sorted(n.disk.known) {
		a.has[id] = n.disk.known[id].alloc.AllocModifyIndex
		a.take(n.disk.known[id])
	}
	w.mu.Unlock()
	for begun := time.Now(); ; {
		if !a.sleep(a.ctx, "plugins first "+n.id, 200*time.Millisecond) {
			return
		}
		if a.settled() || time.Since(begun) > 5*time.Second {
			break
		}
	}
	go a.assignments()
	a.beats()
}

// serve registers a plugin with the service; the lock is held.
func (a *agent) serve(p *process) {
	ctx, cancel := context.WithCancel(a.ctx)
	a.serving[p.alloc] = cancel
	instance := csiplugins.Instance{PluginID: p.id, Type: p.kind, AllocID: p.alloc, Task: "plugin", Socket: p.socket()}
	go func() {
		if a.sleep(ctx, "serve "+p.alloc, 5*time.Millisecond) {
			_ = a.svc.Plugins().Serve(ctx, instance)
		}
	}()
}

// settled reports whether all plugins that run are healthy.
func (a *agent) settled() bool {
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	for _, p := range a.n.plugins {
		info := a.nodes[p.id]
		if a.n.host {
			info = a.controllers[p.id]
		}
		if p.up && (info == nil || !info.Healthy) {
			return false
		}
	}
	return true
}

// sleep waits for a random time of at most most.
func (a *agent) sleep(ctx context.Context, place string, most time.Duration) bool {
	if a.ctx.Err() != nil || ctx.Err() != nil {
		return false
	}
	return a.n.w.sleep(ctx, a.n.w.some(a.n.w.dice.roll(a.life+" "+place), most))
}

// Invoke is the agent's way to the servers: to the next one when one cannot be reached.
func (a *agent) Invoke(ctx context.Context, method string, req, resp any) error {
	w := a.n.w
	err := fault.New(fault.Unavailable, "no server")
	all := w.list()
	for try := range len(all) {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		w.mu.Lock()
		s := all[(a.at+try)%len(all)]
		w.mu.Unlock()
		err = caller{w, a.n.id, s, a.life}.Invoke(ctx, method, req, resp)
		if err == nil || ctx.Err() != nil || fault.Of(err) != fault.Unavailable {
			return err
		}
	}
	w.mu.Lock()
	a.at++
	w.mu.Unlock()
	return err
}

// claims holds claims on volumes back until the servers know this boot: what they say of claims may be about an
// earlier one, and they would take this one for the proof that nothing is mounted.
type claims struct{ a *agent }

// Invoke implements [wire.Caller].
func (c claims) Invoke(ctx context.Context, method string, req, resp any) error {
	if method == wire.VolumeClaim.Name {
		select {
		case <-c.a.told:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.a.Invoke(ctx, method, req, resp)
}

// bootID is what the node says of its boot.
func (a *agent) bootID() string {
	if a.n.w.bug == BugBootOfAgent {
		return fmt.Sprintf("%d %p", a.n.boot, a)
	}
	return fmt.Sprint(a.n.boot)
}

func (a *agent) fingerprint() *api.Node {
	n := a.n
	row := &api.Node{
		ID: n.id, SecretID: "secret-" + n.id, Name: n.id, Datacenter: "dc1", NodePool: api.NodePoolDefault,
		Status: api.NodeStatusReady, BootID: a.bootID(), StaleMounts: a.svc.Mounts(),
	}
	if n.w.bug == BugBootOfAgent { // nothing of another boot is mounted
		row.StaleMounts = nil
	}
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.bug == BugPurged && n.w.newest().store.Read().Node(n.id) == nil {
		row.StaleMounts = nil
	}
	row.CSIControllerPlugins, row.CSINodePlugins = a.controllers, a.nodes
	return row
}

// beats registers the node and keeps it alive.
func (a *agent) beats() {
	n := a.n
	registered, mark := false, api.RollbackUnseen
	for a.ctx.Err() == nil {
		bound := 5 * time.Second
		term := a.svc.ShortestLease()
		if term.Term > 0 {
			bound = min(bound, n.after(term.Beat()))
		}
		ctx, cancel := context.WithTimeout(a.ctx, bound)
		sent := n.clock()
		var resp *api.NodeUpdateResponse
		var err error
		switch {
		case !registered:
			select {
			case <-a.news: // it is part of what is said now
			default:
			}
			row := a.fingerprint()
			if n.w.bug == BugEarlyClaim { // what it claims and mounts meanwhile is missing in what it tells
				a.known()
				a.sleep(ctx, "register "+n.id, 4*time.Second)
			}
			resp, err = wire.NodeRegister.Call(ctx, a, &api.NodeRegisterRequest{Node: row, Rollback: mark})
		default:
			resp, err = wire.NodeHeartbeat.Call(ctx, a, &api.NodeHeartbeatRequest{NodeID: n.id, NodeSecret: "secret-" + n.id, Status: api.NodeStatusReady})
		}
		cancel()
		if err != nil {
			if fault.Of(err) == fault.NotFound {
				registered = false
			}
			a.withoutLeader()
			if !a.sleep(a.ctx, "beat again "+n.id, time.Second) {
				return
			}
			continue
		}
		if resp.Rollback != 0 { // it was not heard
			mark = resp.Rollback
			continue
		}
		wait := resp.HeartbeatTTL
		if !registered || resp.Held {
			wait = 200 * time.Millisecond
		}
		registered = true
		if resp.Voters != nil {
			n.w.mu.Lock()
			n.disk.voters = resp.Voters
			n.w.mu.Unlock()
		}
		a.gossip()
		a.known()
		a.renew(sent)
		if term.Term > 0 {
			wait = min(wait, term.Beat())
		}
		timer := time.NewTimer(n.after(wait))
		select {
		case <-timer.C:
		case <-a.news:
			registered = false // the fingerprint is another one
		case <-a.ctx.Done():
		}
		timer.Stop()
	}
}

// known lets the agent claim volumes.
func (a *agent) known() {
	select {
	case <-a.told:
	default:
		close(a.told)
	}
}

// renew takes note that a heartbeat which was sent then was answered.
func (a *agent) renew(sent time.Duration) {
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	a.from = max(a.from, sent)
	for _, t := range a.n.tasks {
		t.from = max(t.from, sent)
	}
}

// gossip takes note of the servers that gossip thinks alive, which may be wrong.
func (a *agent) gossip() {
	w := a.n.w
	r := w.dice.roll("gossip " + a.life)
	a.named = nil
	all := w.list()
	only, flap := all[r.IntN(len(all))], r.IntN(2) == 0
	for _, s := range all {
		if s == only || !flap {
			a.named = append(a.named, s)
		}
	}
}

// withoutLeader renews leases when a majority of the servers says that nobody leads.
func (a *agent) withoutLeader() {
	n, w := a.n, a.n.w
	sent := n.clock()
	ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second)
	defer cancel()
	w.mu.Lock()
	voters := n.disk.voters
	w.mu.Unlock()
	if w.bug == BugToldServers && len(a.named) > 0 {
		voters = votersOf(a.named)
	}
	if voters == nil {
		return
	}
	asked := slices.DeleteFunc(w.list(), func(s *server) bool { return voters.Servers[s.id] == "" })
	answers := make(chan *api.StatusLeaderResponse, len(asked))
	for _, s := range asked {
		go func() {
			r, err := wire.StatusLeader.Call(ctx, caller{w, n.id, s, a.life}, &api.QueryOptions{})
			if err != nil {
				r = nil
			}
			if r == nil && w.bug == BugSilentLeader {
				r = &api.StatusLeaderResponse{Server: s.id, Voters: voters}
			}
			answers <- r
		}()
	}
	var said []*api.StatusLeaderResponse
	for range asked {
		if r := <-answers; r != nil {
			said = append(said, r)
		}
	}
	if voters.Leaderless(said) {
		w.say("%s goes on: the servers have no leader", n.id)
		a.renew(sent)
	}
}

// votersOf takes servers for all that vote.
func votersOf(servers []*server) *api.Voters {
	v := &api.Voters{Index: math.MaxUint64, Servers: map[string]string{}}
	for _, s := range servers {
		v.Servers[s.id] = s.id
	}
	return v
}

// workloads are the tasks of the node, as far as volumes concern them.
type workloads struct{ a *agent }

// Tell implements [mounthealth.Tasks].
func (workloads) Tell(_, _, _, _ string) {}

// Restart implements [mounthealth.Tasks].
func (workloads) Restart(context.Context, string, string, bool, string) error { return nil }

// Signal implements [mounthealth.Tasks].
func (workloads) Signal(context.Context, string, string, string, string) error { return nil }

// Leaving implements [volumes.Tasks].
func (l workloads) Leaving(alloc string) bool {
	l.a.n.w.mu.Lock()
	defer l.a.n.w.mu.Unlock()
	k := l.a.n.disk.known[alloc]
	return k == nil || k.stopped || k.ended
}

// Lost implements [volumes.Tasks].
func (workloads) Lost(string) bool { return false }
