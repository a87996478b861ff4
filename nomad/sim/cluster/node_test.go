package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// node is one machine: its kernel's mounts, the supervising processes of its tasks, what is on its disk,
// and the agent while one runs. It is guarded by World.mu.
type node struct {
	w    *World
	id   string
	rate float64 // of its boot clock
	host bool    // of the controllers

	boot   int
	booted bool
	os     context.Context // ends with the power
	off    context.CancelFunc
	agent  *agent
	mounts map[string]*mount
	tasks  map[string]*task
	// On disk.
	journal map[string]*row
	turns   *turns
}

// mount is a live mount of the kernel.
type mount struct {
	alloc, volume, plugin, external string
	mode                            api.AccessMode
	writes                          bool
}

// task is a workload and the process that supervises it, which keeps the lease even without an agent.
type task struct {
	alloc string
	from  time.Duration // by the boot clock: when the last answered heartbeat was sent
	term  time.Duration // 0 without a lease
	dead  chan struct{}
	ended bool
	begun time.Time
}

// bootTime is how long a boot takes at least.
const bootTime = 4 * time.Second

type rowState string

// States of rows, as in client/volumes.
const (
	rowClaiming rowState = "claiming"
	rowMounting rowState = "mounting"
	rowMounted  rowState = "mounted"
	rowLeaving  rowState = "leaving"
	rowReleased rowState = "released"
)

// row is the journal of one volume of an allocation: written before what it announces is done.
type row struct {
	state rowState
	boot  int
	lease time.Duration
	mount
}

func key(alloc, volume string) string { return alloc + " " + volume }

func (r *row) touched() bool { return r.state != rowClaiming && r.state != rowReleased }

// agent is the client process of a node.
type agent struct {
	n     *node
	ctx   context.Context
	die   context.CancelFunc
	from  time.Duration // of the last answered heartbeat
	live  map[string]*runner
	index uint64
	told  chan struct{} // closed when the servers know this boot
	calls map[string]wire.Handler
	at    int // the server that is asked first
}

func (w *World) newNode(id string, host bool) *node {
	n := &node{
		w: w, id: id, host: host, rate: []float64{0.99, 1, 1.01}[w.dice.roll("clock "+id).IntN(3)],
		mounts: map[string]*mount{}, tasks: map[string]*task{}, journal: map[string]*row{}, turns: &turns{held: map[string]chan struct{}{}},
	}
	n.power()
	return n
}

func (n *node) name() string { return n.id }

// serves answers for the agent.
func (n *node) serves(method string) (*wire.Handler, context.Context) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.agent == nil {
		return nil, n.os
	}
	if h, ok := n.agent.calls[method]; ok {
		return &h, n.agent.ctx
	}
	return nil, n.agent.ctx
}

// clock is the node's boot clock; after is how long it really takes until it has gone on by d.
func (n *node) clock() time.Duration {
	return time.Duration(float64(time.Since(n.w.began)) * n.rate)
}

func (n *node) after(d time.Duration) time.Duration {
	return time.Duration(float64(d)/n.rate) + time.Nanosecond
}

// power boots the machine; the lock is held, or nobody knows the node yet.
func (n *node) power() {
	n.boot++
	n.os, n.off = context.WithCancel(n.w.root)
	n.mounts, n.tasks, n.booted = map[string]*mount{}, map[string]*task{}, n.boot == 1
	n.start()
}

// cutPower ends everything that runs on the machine; the lock is held.
func (n *node) cutPower() {
	n.kill()
	n.off()
	n.mounts = map[string]*mount{}
	for _, t := range n.tasks {
		t.end()
	}
	n.tasks = map[string]*task{}
	n.turns = &turns{held: map[string]chan struct{}{}}
}

// start starts an agent; the lock is held.
func (n *node) start() {
	if n.agent != nil || n.os.Err() != nil {
		return
	}
	a := &agent{n: n, live: map[string]*runner{}, told: make(chan struct{}), at: n.w.dice.roll("at " + n.id).IntN(3)}
	a.ctx, a.die = context.WithCancel(n.os)
	a.calls = map[string]wire.Handler{}
	handlers := []wire.Handler{wire.NodeVolumeDetach.Handle(a.detach), wire.NodeVolumeExpand.Handle(
		func(context.Context, *api.NodeVolumeExpandRequest) (*api.Empty, error) { return &api.Empty{}, nil })}
	if n.host {
		handlers = append(handlers, n.w.controller()...)
	}
	for _, h := range handlers {
		a.calls[h.Name] = h
	}
	n.agent = a
	first := time.Duration(0)
	if !n.booted {
		n.booted = true
		first = bootTime + n.w.some(n.w.dice.roll("boot "+n.id), bootTime)
	}
	go a.run(first)
}

// kill ends the agent and nothing else; the lock is held.
func (n *node) kill() {
	if n.agent != nil {
		n.agent.die()
		n.agent = nil
	}
	n.turns = &turns{held: map[string]chan struct{}{}}
}

func (t *task) end() {
	if !t.ended {
		t.ended = true
		close(t.dead)
	}
}

// launch starts a task on what is mounted; the lock is held.
func (n *node) launch(alloc string) *task {
	t := &task{alloc: alloc, from: n.agent.from, dead: make(chan struct{}), begun: time.Now()}
	for _, k := range sorted(n.journal) {
		if r := n.journal[k]; r.alloc == alloc && r.lease > 0 && (t.term == 0 || r.lease < t.term) {
			t.term = r.lease
		}
	}
	n.tasks[alloc] = t
	n.w.tell("%s starts %s", n.id, alloc)
	n.w.checkTask(n, t)
	n.w.checkOutside()
	if t.term > 0 && n.w.bug != BugNoLease {
		go n.supervise(n.os, t)
	}
	return t
}

// supervise ends a task whose lease is over, and takes its mounts away after that.
func (n *node) supervise(ctx context.Context, t *task) {
	w := n.w
	for {
		w.mu.Lock()
		left := t.from + t.term - n.clock()
		over := left <= 0 && !t.ended && ctx.Err() == nil
		if over {
			w.tell("%s: the lease of %s is over", n.id, t.alloc)
			w.tally.Events++
			w.tally.Leases++
			t.end()
		}
		w.mu.Unlock()
		if over {
			break
		}
		timer := time.NewTimer(n.after(max(left, time.Millisecond)))
		select {
		case <-timer.C:
		case <-t.dead:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	if !w.sleep(ctx, w.some(w.dice.roll("sync "+t.alloc), 500*time.Millisecond)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range sorted(n.mounts) {
		if n.mounts[k].alloc == t.alloc {
			w.tell("%s unmounts %s", n.id, k)
			delete(n.mounts, k)
		}
	}
}

// runs reports whether the task writes now.
func (n *node) runs(alloc string) bool { t := n.tasks[alloc]; return t != nil && !t.ended }

// Invoke is the agent's way to the servers: to the next one when one cannot be reached.
func (a *agent) Invoke(ctx context.Context, method string, req, resp any) error {
	w := a.n.w
	err := fault.New(fault.Unavailable, "no server")
	for try := range len(w.servers) {
		w.mu.Lock()
		s := w.servers[(a.at+try)%len(w.servers)]
		w.mu.Unlock()
		err = caller{w, a.n.id, s}.Invoke(ctx, method, req, resp)
		if err == nil || ctx.Err() != nil || fault.Of(err) != fault.Unavailable {
			return err
		}
	}
	w.mu.Lock()
	a.at++
	w.mu.Unlock()
	return err
}

// run is the life of the agent.
func (a *agent) run(first time.Duration) {
	n, w := a.n, a.n.w
	if !w.sleep(a.ctx, first) || !a.sleep(a.ctx, "begin "+n.id, 300*time.Millisecond) {
		return
	}
	w.mu.Lock()
	for _, k := range sorted(n.journal) {
		r := n.journal[k]
		if r.boot != n.boot && r.touched() && w.bug != BugBootIgnored {
			w.tell("%s: %s was of another boot", n.id, k)
			if r.state != rowLeaving {
				r.state = rowClaiming // nothing is mounted
			}
		}
	}
	w.mu.Unlock()
	go a.assignments()
	if w.bug == BugEarlyClaim {
		a.known()
		a.sleep(a.ctx, "plugins "+n.id, 2*bootTime) // are waited for
	}
	go a.beats()
	a.retries()
}

// sleep waits for a whim of at most most.
func (a *agent) sleep(ctx context.Context, place string, most time.Duration) bool {
	return a.n.w.sleep(ctx, a.n.w.some(a.n.w.dice.roll(place), most))
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
		Status: api.NodeStatusReady, BootID: a.bootID(),
	}
	n.w.mu.Lock()
	for _, k := range sorted(n.journal) {
		if r := n.journal[k]; r.touched() && r.boot == n.boot {
			row.StaleMounts = append(row.StaleMounts, &api.StaleMount{
				Namespace: "default", VolumeID: r.volume, AllocID: r.alloc, PluginID: r.plugin, ExternalID: r.external,
			})
		}
	}
	n.w.mu.Unlock()
	if n.host {
		row.CSIControllerPlugins = map[string]*api.CSIInfo{"attach": {
			PluginID: "attach", Healthy: true, RequiresControllerPlugin: true,
			ControllerInfo: &api.CSIControllerInfo{SupportsAttachDetach: true, SupportsCreateDelete: true, SupportsExpand: true},
		}}
		return row
	}
	row.CSINodePlugins = map[string]*api.CSIInfo{
		"attach": {PluginID: "attach", Healthy: true, RequiresControllerPlugin: true, NodeInfo: &api.CSINodeInfo{ID: "provider-" + n.id, MaxVolumes: 100}},
		"share":  {PluginID: "share", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: "provider-" + n.id, MaxVolumes: 100}},
	}
	return row
}

// beats registers the node and keeps it alive.
func (a *agent) beats() {
	n, w := a.n, a.n.w
	registered := false
	for a.ctx.Err() == nil {
		w.mu.Lock()
		term := n.shortest()
		w.mu.Unlock()
		bound := 5 * time.Second
		if term > 0 {
			bound = min(bound, n.after(term/3))
		}
		ctx, cancel := context.WithTimeout(a.ctx, bound)
		sent := n.clock()
		var resp *api.NodeUpdateResponse
		var err error
		switch {
		case !registered:
			resp, err = wire.NodeRegister.Call(ctx, a, &api.NodeRegisterRequest{Node: a.fingerprint()})
		default:
			resp, err = wire.NodeHeartbeat.Call(ctx, a, &api.NodeHeartbeatRequest{NodeID: n.id, NodeSecret: "secret-" + n.id, Status: api.NodeStatusReady})
		}
		cancel()
		if err != nil {
			if fault.Of(err) == fault.NotFound {
				registered = false
			}
			a.withoutLeader()
			a.sleep(a.ctx, "beat again "+n.id, time.Second)
			continue
		}
		wait := resp.HeartbeatTTL
		if !registered || resp.Held {
			wait = 200 * time.Millisecond
		}
		registered = true
		a.known()
		a.renew(sent)
		if term > 0 {
			wait = min(wait, term/3)
		}
		w.sleep(a.ctx, n.after(wait))
	}
}

// known lets the agent claim volumes: before the servers know of its boot, what they say of claims may be
// about an earlier one, and they would take this one for the proof that nothing is mounted.
func (a *agent) known() {
	select {
	case <-a.told:
	default:
		close(a.told)
	}
}

// shortest is the shortest lease on the node; the lock is held.
func (n *node) shortest() (term time.Duration) {
	for _, r := range n.journal {
		if r.lease > 0 && r.touched() && (term == 0 || r.lease < term) {
			term = r.lease
		}
	}
	return term
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

// withoutLeader renews leases when a majority of the servers says that nobody leads.
func (a *agent) withoutLeader() {
	n, w := a.n, a.n.w
	sent := n.clock()
	ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second)
	defer cancel()
	answers := make(chan bool, len(w.servers))
	for _, s := range w.servers {
		go func() {
			r, err := wire.StatusLeader.Call(ctx, caller{w, n.id, s}, &api.QueryOptions{})
			answers <- err == nil && r.Leader == ""
		}()
	}
	none := 0
	for range w.servers {
		if <-answers {
			none++
		}
	}
	if none > len(w.servers)/2 {
		w.say("%s goes on: the servers have no leader", n.id)
		a.renew(sent)
	}
}
