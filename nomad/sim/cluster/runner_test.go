package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/volumes"
)

// runner leads one allocation on its node.
type runner struct {
	kept *kept
	stop chan struct{}
}

func (r *runner) end() {
	if !r.kept.stopped {
		r.kept.stopped = true
		close(r.stop)
	}
}

// assignments waits again and again for what the node shall run.
func (a *agent) assignments() {
	w := a.n.w
	select {
	case <-a.told:
	case <-a.ctx.Done():
	}
	for a.ctx.Err() == nil {
		dice := w.dice.roll("assignments " + a.life)
		ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second+w.some(dice, 4*time.Second))
		resp, err := wire.NodeAssignments.Call(ctx, a, a.asked())
		silent := ctx.Err() != nil
		cancel()
		pause := w.some(dice, 50*time.Millisecond)
		switch {
		case err == nil:
			a.follow(resp)
		case !silent:
			pause = 300*time.Millisecond + w.some(dice, 900*time.Millisecond)
		}
		if !w.sleep(a.ctx, pause) {
			return
		}
	}
}

// asked is the question of what differs from what the node knows. The line of an earlier answer makes a summary do.
func (a *agent) asked() *api.NodeAssignmentsRequest {
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	r := &api.NodeAssignmentsRequest{NodeID: a.n.id, NodeSecret: "secret-" + a.n.id, QueryOptions: api.QueryOptions{MinIndex: a.index, MaxWait: time.Minute}}
	if a.index == 0 || a.line == 0 {
		r.Known = maps.Clone(a.has)
		return r
	}
	r.Line, r.Count = a.line, len(a.has)
	for _, modified := range a.has {
		r.Newest = max(r.Newest, modified)
	}
	return r
}

func (a *agent) follow(resp *api.NodeAssignmentsResponse) {
	n, w := a.n, a.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case a.ctx.Err() != nil:
		return
	case resp.Index < a.index: // of a server that is behind
		a.index = 0
		return
	}
	a.index, a.line = resp.Index, resp.Line
	if !resp.Kept {
		for id := range a.has {
			if !slices.Contains(resp.Assigned, id) {
				delete(a.has, id)
			}
		}
	}
	for _, alloc := range resp.Changed {
		a.has[alloc.ID] = alloc.AllocModifyIndex
		r, k := a.live[alloc.ID], n.disk.known[alloc.ID]
		if k == nil && !alloc.ClientTerminal() {
			k = &kept{alloc: alloc}
			n.disk.known[alloc.ID] = k
			r = a.take(k)
		}
		if k != nil && k.ended && !alloc.ClientTerminal() { // the servers lost sight of its end
			go a.report(alloc.ID, k.status)
		}
		if r != nil && alloc.Terminal() {
			r.end()
		}
	}
	for _, id := range sorted(n.disk.known) {
		switch r := a.live[id]; {
		case a.has[id] > 0:
		case r != nil:
			r.end()
		default:
			delete(n.disk.known, id)
		}
	}
}

// take begins to lead an allocation; the lock is held.
func (a *agent) take(k *kept) *runner {
	r := &runner{kept: k, stop: make(chan struct{})}
	if k.stopped {
		close(r.stop)
	}
	a.live[k.alloc.ID] = r
	go a.lead(r)
	return r
}

// lead mounts, runs and unmounts.
func (a *agent) lead(r *runner) {
	w, id := a.n.w, r.kept.alloc.ID
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	status, mounted := a.bring(ctx, r)
	if a.ctx.Err() != nil {
		return
	}
	go a.report(id, a.end(r, status))
	a.sleep(a.ctx, "down "+id, 20*time.Millisecond) // not at the moment of others
	for !a.down(r, mounted) {
		if !a.sleep(a.ctx, "down again "+id, 2*time.Second) {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() == nil {
		delete(a.live, id)
		delete(a.n.tasks, id)
	}
}

// bring mounts the volumes, starts the task and stays until it has ended or must.
func (a *agent) bring(ctx context.Context, r *runner) (status string, mounted bool) {
	w, id := a.n.w, r.kept.alloc.ID
	w.mu.Lock()
	over := r.kept.ended || r.kept.stopped
	w.mu.Unlock()
	if over {
		return api.AllocClientStatusComplete, false
	}
	if !a.sleep(ctx, "take up "+id, 200*time.Millisecond) {
		return api.AllocClientStatusComplete, false
	}
	got, err := a.svc.Up(ctx, r.kept.alloc)
	if err != nil {
		parts := strings.Split(err.Error(), "\n") // of several volumes, in any order
		if ctx.Err() != nil || a.ctx.Err() != nil {
			parts = []string{"it must end"}
		}
		slices.Sort(parts)
		w.say("%s cannot mount for %s: %s", a.n.id, id, strings.Join(parts, "; "))
		return api.AllocClientStatusFailed, false
	}
	var sources []string
	for _, alias := range slices.Sorted(maps.Keys(got)) {
		sources = append(sources, got[alias].Source)
	}
	t := a.launchOrFind(ctx, r, sources)
	if t == nil {
		return api.AllocClientStatusComplete, true
	}
	a.report(id, api.AllocClientStatusRunning)
	life := time.NewTimer(10*time.Second + w.some(w.dice.roll("life "+id), 20*time.Minute))
	defer life.Stop()
	ends := life.C
	if w.isCalm() {
		ends = nil
	}
	select {
	case <-r.stop:
	case <-ends:
	case <-t.dead:
	case <-a.ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.ended && !r.kept.stopped {
		return api.AllocClientStatusFailed, true
	}
	return api.AllocClientStatusComplete, true
}

func (a *agent) launchOrFind(ctx context.Context, r *runner, sources []string) *task {
	l := a.svc.Lease(r.kept.alloc.ID)
	if l == nil {
		l = &volumes.Lease{}
	}
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	if t := a.n.tasks[r.kept.alloc.ID]; t != nil {
		return t
	}
	if ctx.Err() != nil {
		return nil
	}
	return a.n.launch(r.kept.alloc.ID, sources, l)
}

// end ends the tasks and returns how they ended.
func (a *agent) end(r *runner, status string) string {
	n, w, id := a.n, a.n.w, r.kept.alloc.ID
	w.mu.Lock()
	t := n.tasks[id]
	running := t != nil && !t.ended
	w.mu.Unlock()
	if running {
		a.sleep(a.ctx, "kill "+id, 2*time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() != nil {
		return status
	}
	if t != nil {
		t.end()
		w.tell("%s ends %s", n.id, id)
	}
	if !r.kept.ended {
		r.kept.ended, r.kept.status = true, status
	}
	return r.kept.status
}

// down gives all volumes of the allocation back, those too that it never mounted.
func (a *agent) down(r *runner, mounted bool) bool {
	if err := a.svc.Down(a.ctx, r.kept.alloc.ID); err != nil {
		return false
	}
	if mounted {
		return true
	}
	for _, u := range r.kept.alloc.VolumeUses() {
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		_, err := wire.VolumeUnpublish.Call(ctx, a, &api.VolumeUnpublishRequest{
			VolumeID: u.VolumeID, Use: u.Name, AllocID: r.kept.alloc.ID, NodeID: a.n.id, NodeSecret: "secret-" + a.n.id, WriteRequest: api.WriteRequest{Namespace: r.kept.alloc.Namespace},
		})
		cancel()
		if err != nil && fault.Of(err) != fault.NotFound {
			return false
		}
	}
	return true
}

// report brings a client status to the servers.
func (a *agent) report(alloc, status string) {
	for try := 0; a.ctx.Err() == nil; try++ {
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		_, err := wire.NodeUpdateAllocs.Call(ctx, a, &api.AllocUpdateRequest{
			NodeID: a.n.id, NodeSecret: "secret-" + a.n.id, Allocs: []*api.Allocation{{ID: alloc, ClientStatus: status}},
		})
		cancel()
		if err == nil || status == api.AllocClientStatusRunning && try == 2 {
			return
		}
		if !a.sleep(a.ctx, "report again "+alloc+status, 2*time.Second) {
			return
		}
	}
}
