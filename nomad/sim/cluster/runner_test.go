package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// runner leads one allocation on its node.
type runner struct {
	alloc *api.Allocation
	stop  chan struct{}
	asked bool // to stop
	down  bool // volumes are being taken down
}

func (r *runner) end() {
	if !r.asked {
		r.asked = true
		close(r.stop)
	}
}

// assignments reads again and again what the node shall run.
func (a *agent) assignments() {
	n, w := a.n, a.n.w
	select {
	case <-a.told:
	case <-a.ctx.Done():
	}
	for a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
		resp, err := wire.NodeAssignments.Call(ctx, a, &api.NodeAssignmentsRequest{NodeID: n.id, NodeSecret: "secret-" + n.id})
		cancel()
		if err == nil {
			a.follow(resp)
		}
		w.sleep(a.ctx, 300*time.Millisecond+w.some(w.dice.roll("assignments "+n.id), 900*time.Millisecond))
	}
}

func (a *agent) follow(resp *api.NodeAssignmentsResponse) {
	n, w := a.n, a.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() != nil || resp.Index < a.index {
		return
	}
	a.index = resp.Index
	for _, alloc := range resp.Changed {
		r := a.live[alloc.ID]
		switch {
		case !alloc.Terminal() && r == nil:
			r = &runner{alloc: alloc, stop: make(chan struct{})}
			a.live[alloc.ID] = r
			go a.lead(r)
		case alloc.Terminal() && r != nil:
			r.end()
		case alloc.ServerTerminal() && !alloc.ClientTerminal() && r == nil && !n.holds(alloc.ID):
			go a.report(alloc.ID, api.AllocClientStatusComplete)
		}
	}
	for _, id := range sorted(a.live) {
		if !slices.Contains(resp.Assigned, id) {
			a.live[id].end()
		}
	}
	for _, k := range sorted(n.journal) {
		if r := n.journal[k]; a.live[r.alloc] == nil && r.state != rowReleased {
			n.drop(r)
		}
	}
	for _, id := range sorted(n.tasks) {
		if a.live[id] == nil {
			n.tasks[id].end() // of an earlier agent, and nobody wants it
			delete(n.tasks, id)
		}
	}
}

// drop marks a row, so that it is taken down; the lock is held.
func (n *node) drop(r *row) {
	if r.touched() {
		r.state = rowLeaving
	} else {
		r.state = rowReleased
	}
}

// holds reports whether the journal has something of the allocation; the lock is held.
func (n *node) holds(alloc string) bool {
	for _, r := range n.journal {
		if r.alloc == alloc {
			return true
		}
	}
	return false
}

// lead mounts, runs and unmounts.
func (a *agent) lead(r *runner) {
	w, id := a.n.w, r.alloc.ID
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	status := api.AllocClientStatusComplete
	if err := a.up(ctx, r); err != nil {
		if a.ctx.Err() != nil {
			return
		}
		w.say("%s cannot mount for %s: %v", a.n.id, id, err)
		status = api.AllocClientStatusFailed
	} else if t := a.launchOrFind(ctx, r); t != nil {
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
			status = api.AllocClientStatusFailed
		case <-a.ctx.Done():
			return
		}
	}
	a.down(r)
	a.report(id, status)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() == nil {
		delete(a.live, id)
		delete(a.n.tasks, id)
	}
}

func (a *agent) launchOrFind(ctx context.Context, r *runner) *task {
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	if t := a.n.tasks[r.alloc.ID]; t != nil {
		return t
	}
	if ctx.Err() != nil {
		return nil
	}
	return a.n.launch(r.alloc.ID)
}

// up mounts all volumes of the allocation.
func (a *agent) up(ctx context.Context, r *runner) error {
	var ids []string
	for _, v := range r.alloc.Group().Volumes {
		ids = append(ids, v.Source)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := a.mount(ctx, r, id); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// mount brings one volume up.
func (a *agent) mount(ctx context.Context, r *runner, volume string) error {
	n, w, k := a.n, a.n.w, key(r.alloc.ID, volume)
	w.mu.Lock()
	old := n.journal[k]
	switch {
	case a.ctx.Err() != nil:
		w.mu.Unlock()
		return a.ctx.Err()
	case old == nil:
		n.journal[k] = &row{state: rowClaiming, mount: mount{alloc: r.alloc.ID, volume: volume}}
	case old.state == rowMounted && (n.mounts[k] != nil || w.bug == BugBootIgnored):
		w.mu.Unlock()
		return nil // adopted
	case old.state == rowLeaving || old.state == rowReleased:
		w.mu.Unlock()
		return fault.New(fault.Conflict, "it is being unmounted")
	}
	w.mu.Unlock()
	granted, err := a.claim(ctx, r.alloc.ID, volume)
	if err != nil {
		return err
	}
	for {
		if err = a.publish(ctx, k, granted); err == nil || ctx.Err() != nil || fault.Of(err) != fault.Unavailable {
			return err
		}
		a.sleep(ctx, "publish again "+k, 2*time.Second)
	}
}

// claim waits until the servers let the node mount.
func (a *agent) claim(ctx context.Context, alloc, volume string) (*api.VolumeClaimResponse, error) {
	for {
		bound, cancel := context.WithTimeout(ctx, 20*time.Second)
		got, err := wire.VolumeClaim.Call(bound, a, &api.VolumeClaimRequest{
			VolumeID: volume, AllocID: alloc, NodeID: a.n.id, NodeSecret: "secret-" + a.n.id, WriteRequest: api.WriteRequest{Namespace: "default"},
		})
		cancel()
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch fault.Of(err) {
		case fault.NotFound, fault.Denied, fault.Conflict, fault.Invalid:
			return nil, err
		}
		a.sleep(ctx, "claim again "+key(alloc, volume), time.Second)
	}
}

// publish makes the one call that mounts, with its row written before.
func (a *agent) publish(ctx context.Context, k string, g *api.VolumeClaimResponse) error {
	n, w, c := a.n, a.n.w, g.Claim
	leave, err := n.turn(ctx, c.ExternalID)
	if err != nil {
		return err
	}
	defer leave()
	w.mu.Lock()
	r := n.journal[k]
	if r == nil || r.state != rowClaiming && r.state != rowMounting || ctx.Err() != nil {
		w.mu.Unlock()
		return errors.Join(ctx.Err(), fault.New(fault.Conflict, "it is being unmounted"))
	}
	for _, o := range sorted(n.journal) {
		if other := n.journal[o]; o != k && other.external == c.ExternalID && other.touched() && single(c.AccessMode) {
			w.mu.Unlock() // of a claim that was given up while this node was away
			return fault.New(fault.Unavailable, "allocation %s has it still", other.alloc)
		}
	}
	r.state, r.boot, r.lease = rowMounting, n.boot, c.Lease
	r.mount = mount{alloc: c.AllocID, volume: c.VolumeID, plugin: c.PluginID, external: c.ExternalID, mode: c.AccessMode, writes: c.Mode == api.ClaimWrite}
	w.mu.Unlock()
	dice := w.dice.roll("publish " + k)
	took, before, after := w.some(dice, 800*time.Millisecond), w.faulty(dice, 5), w.faulty(dice, 5)
	if !w.sleep(a.ctx, took) {
		return a.ctx.Err()
	}
	if before {
		return fault.New(fault.Unavailable, "the node plugin failed")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if c.Attach && !w.has(c.ExternalID, n.id) {
		if !w.outcast[k] {
			w.fail("%s shall mount %s, which is not attached", n.id, k)
		}
		return fault.New(fault.Unavailable, "the device is not there")
	}
	m := r.mount
	n.mounts[k] = &m
	w.tally.Events++
	w.tally.Mounts++
	w.tell("%s mounts %s", n.id, k)
	w.checkOutside()
	if after {
		return fault.New(fault.Unavailable, "the node plugin's answer was lost")
	}
	if r.state == rowMounting {
		r.state = rowMounted
	}
	return nil
}

// turn lets one node call per volume through.
func (n *node) turn(ctx context.Context, external string) (func(), error) {
	n.w.mu.Lock()
	t := n.turns
	n.w.mu.Unlock()
	return t.take(ctx, external)
}

// down ends the tasks and gives all volumes of the allocation back; what fails is tried again by retries.
func (a *agent) down(r *runner) {
	n, w := a.n, a.n.w
	a.sleep(a.ctx, "kill "+r.alloc.ID, 2*time.Second)
	w.mu.Lock()
	if a.ctx.Err() != nil {
		w.mu.Unlock()
		return
	}
	r.down = true
	if t := n.tasks[r.alloc.ID]; t != nil {
		t.end()
		w.tell("%s ends %s", n.id, r.alloc.ID)
	}
	var mine []string
	for _, k := range sorted(n.journal) {
		if row := n.journal[k]; row.alloc == r.alloc.ID {
			if row.state != rowReleased {
				n.drop(row)
			}
			mine = append(mine, k)
		}
	}
	w.mu.Unlock()
	for _, k := range mine {
		_ = a.release(a.ctx, k)
	}
}

// retries takes down what could not be before.
func (a *agent) retries() {
	n, w := a.n, a.n.w
	for a.sleep(a.ctx, "retries "+n.id, 3*time.Second) {
		w.mu.Lock()
		var left []string
		for _, k := range sorted(n.journal) {
			r := n.journal[k]
			if l := a.live[r.alloc]; (r.state == rowLeaving || r.state == rowReleased) && (l == nil || l.down) {
				left = append(left, k)
			}
		}
		w.mu.Unlock()
		for _, k := range left {
			_ = a.release(a.ctx, k)
		}
	}
}

// release takes one row to its end: unmounted, the servers told, forgotten.
func (a *agent) release(ctx context.Context, k string) error {
	n, w := a.n, a.n.w
	if w.bug == BugEarlyReport {
		if err := a.tell(ctx, k); err != nil {
			return err
		}
	}
	if err := a.unmount(ctx, k); err != nil {
		return err
	}
	if err := a.tell(ctx, k); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() == nil {
		delete(n.journal, k)
	}
	return nil
}

// tell reports that nothing is mounted any more.
func (a *agent) tell(ctx context.Context, k string) error {
	n := a.n
	n.w.mu.Lock()
	r := n.journal[k]
	if r == nil || a.ctx.Err() != nil {
		n.w.mu.Unlock()
		return nil
	}
	req := &api.VolumeUnpublishRequest{VolumeID: r.volume, AllocID: r.alloc, NodeID: n.id, NodeSecret: "secret-" + n.id, WriteRequest: api.WriteRequest{Namespace: "default"}}
	n.w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := wire.VolumeUnpublish.Call(ctx, a, req)
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	return err
}

// unmount makes the one call that unmounts.
func (a *agent) unmount(ctx context.Context, k string) error {
	n, w := a.n, a.n.w
	w.mu.Lock()
	r := n.journal[k]
	if r == nil || r.state == rowReleased {
		w.mu.Unlock()
		return nil
	}
	n.drop(r)
	external := r.external
	w.mu.Unlock()
	leave, err := n.turn(ctx, external)
	if err != nil {
		return err
	}
	defer leave()
	dice := w.dice.roll("unpublish " + k)
	took, before, after := w.some(dice, 800*time.Millisecond), w.faulty(dice, 8), w.faulty(dice, 5)
	if !w.sleep(ctx, took) || before {
		return fault.New(fault.Unavailable, "the node plugin failed")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if n.mounts[k] != nil {
		delete(n.mounts, k)
		w.tally.Events++
		w.tell("%s unmounts %s", n.id, k)
	}
	if after {
		return fault.New(fault.Unavailable, "the node plugin's answer was lost")
	}
	r.state = rowReleased
	return nil
}

// detach unmounts what the servers want back and the agent forgot to report.
func (a *agent) detach(ctx context.Context, r *api.NodeVolumeDetachRequest) (*api.Empty, error) {
	n, w, k := a.n, a.n.w, key(r.AllocID, r.VolumeID)
	w.mu.Lock()
	live := a.live[r.AllocID]
	known := n.journal[k] != nil
	orphan := n.mounts[k] != nil && !known
	w.mu.Unlock()
	switch {
	case live != nil && !live.down:
		return nil, fault.New(fault.Conflict, "allocation %s still runs on this node", r.AllocID)
	case orphan:
		return nil, fault.New(fault.Internal, "%s is mounted and not in the journal", k)
	case !known || w.bug == BugEarlyReport:
		return &api.Empty{}, nil
	}
	if err := a.unmount(ctx, k); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(n.journal, k)
	return &api.Empty{}, nil
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
		a.sleep(a.ctx, "report again "+alloc+status, 2*time.Second)
	}
}

// exclusive reports whether a second user elsewhere could do harm; it is written apart from [claim.Exclusive].
func exclusive(m *mount) bool {
	return single(m.mode) || m.mode == api.AccessMultiNodeSingleWriter && m.writes
}
