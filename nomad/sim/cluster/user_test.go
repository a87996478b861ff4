package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// job is what a user wants to run.
type job struct {
	id     string
	count  int
	wanted bool
	rival  bool // for the volume of another job
	uses   []use
}

type use struct {
	volume string
	mode   api.AccessMode
	reads  bool
	// as tells several uses of one volume apart.
	as string
}

const (
	writer = api.AccessSingleNodeWriter
	shared = api.AccessMultiNodeSingleWriter
	many   = api.AccessMultiNodeMultiWriter
)

// Two uses of one volume.
const (
	written = "data"
	read    = "conf"
)

// made are the volumes that users create and delete.
var made = []string{"made-0", "made-1"}

func jobs() []*job {
	return []*job{
		{id: "one", count: 1, uses: []use{{volume: "a1", mode: writer}}},
		{id: "rival", count: 1, rival: true, uses: []use{{volume: "a1", mode: writer}}},
		{id: "two", count: 1, uses: []use{{volume: "a2", mode: writer}, {volume: "s2", mode: many}}},
		{id: "lease", count: 1, uses: []use{{volume: "s1", mode: shared}}},
		{id: "lease-rival", count: 1, rival: true, uses: []use{{volume: "s1", mode: shared}}},
		{id: "reader", count: 2, uses: []use{{volume: "s1", mode: shared, reads: true}}},
		{id: "many", count: 2, uses: []use{{volume: "a3", mode: many}}},
		{id: "twice", count: 1, uses: []use{{volume: "a3", mode: many, as: written}, {volume: "a3", mode: many, reads: true, as: read}}},
		{id: "made-0", count: 1, uses: []use{{volume: "made-0", mode: writer}}},
		{id: "made-1", count: 1, uses: []use{{volume: "made-1", mode: writer}, {volume: "a3", mode: many}}},
		{id: "twin-0", count: 1, rival: true, uses: []use{{volume: "twin-0", mode: writer}}},
		{id: "twin-1", count: 1, rival: true, uses: []use{{volume: "twin-1", mode: writer}, {volume: "s2", mode: many}}},
	}
}

func (j *job) row() *api.Job {
	g := &api.TaskGroup{Name: "g", Count: j.count, Volumes: map[string]*api.VolumeRequest{}}
	for _, u := range j.uses {
		alias := cmp.Or(u.as, u.volume)
		g.Volumes[alias] = &api.VolumeRequest{
			Name: alias, Type: api.VolumeTypeCSI, Source: u.volume, ReadOnly: u.reads,
			AccessMode: string(u.mode), AttachmentMode: string(api.AttachmentFileSystem),
		}
	}
	return &api.Job{ID: j.id, Name: j.id, Namespace: home(j.id), Type: api.JobTypeService, Priority: 50, TaskGroups: []*api.TaskGroup{g}}
}

func spec(id, plugin string, mode api.AccessMode) *api.VolumeSpec {
	return &api.VolumeSpec{
		ID: id, Name: id, Namespace: home(id), PluginID: plugin,
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: mode, AttachmentMode: api.AttachmentFileSystem}},
	}
}

// found begins the cluster: servers, nodes, the jobs' rows and the volumes that exist already.
func (w *World) found() {
	for i := range 3 {
		w.servers = append(w.servers, w.newServer(fmt.Sprintf("s%d", i+1)))
	}
	w.changed(votersOf(w.servers).Servers)
	w.elect(w.rnd)
	time.Sleep(time.Second)
	w.mu.Lock()
	for i := range 2 {
		w.hosts = append(w.hosts, w.newNode(fmt.Sprintf("host%d", i+1), true))
	}
	for i := range 4 {
		w.nodes = append(w.nodes, w.newNode(fmt.Sprintf("n%d", i+1), false))
	}
	w.mu.Unlock()
	time.Sleep(8 * time.Second)
	w.jobs = jobs()
	for _, j := range w.jobs {
		w.proposed(&op{j.row()})
	}
	for _, v := range w.existing() {
		w.storage.Add(v.ExternalID)
		w.rotate(v.ExternalID)
		v.Secrets = w.credentials(v.ExternalID)
		v.Lease = w.lease
		w.user(&api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}}, wire.VolumeRegister.Name, &api.VolumeWriteResponse{})
	}
	for _, id := range made {
		w.create(id)
	}
	last := w.truth().Read().Volume("default", "s2")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.founded = last != nil
}

// truth is the state of the server that has applied most.
func (w *World) truth() *state.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest().store
}

// newest may be dead: what is committed is so whoever has it; the lock is held.
func (w *World) newest() *server {
	var best *server
	for _, s := range w.servers {
		if !s.gone && (best == nil || s.applied > best.applied) {
			best = s
		}
	}
	return best
}

// proposed writes a command through the leader, if there is one.
func (w *World) proposed(cmd fsm.Command) error {
	w.mu.Lock()
	s := w.log.leader
	w.mu.Unlock()
	if s == nil {
		return fault.New(fault.NotLeader, "no leader")
	}
	ctx, cancel := context.WithTimeout(w.root, 20*time.Second)
	defer cancel()
	_, err := s.Propose(ctx, cmd)
	return err
}

// user makes a call as a user, on whatever server answers.
func (w *World) user(req any, method string, resp any) error {
	ctx, cancel := context.WithTimeout(w.root, 40*time.Second)
	defer cancel()
	r := w.dice.roll("user " + method + told(req))
	all := w.list()
	at := r.IntN(len(all))
	err := fault.New(fault.Unavailable, "no server")
	for range all {
		err = caller{w, "user", all[at], "user"}.Invoke(ctx, method, req, resp)
		if err == nil || fault.Of(err) != fault.Unavailable {
			break
		}
		at = (at + 1) % len(all)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell("user: %s%s%s", method, told(req), orError(err))
	return err
}

func (w *World) create(id string) {
	v := spec(id, "attach", writer)
	v.RequestedCapacityMin = 1 << 30
	_ = w.user(&api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{v}}, wire.VolumeCreate.Name, &api.VolumeWriteResponse{})
}

func (w *World) expand(id string, capacity int64) {
	old := w.truth().Read().Volume(home(id), id)
	if old == nil {
		return
	}
	v := spec(id, "attach", writer)
	v.ExternalID, v.RequestedCapacityMin = old.ExternalID, capacity
	_ = w.user(&api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{v}}, wire.VolumeRegister.Name, &api.VolumeWriteResponse{})
}

func (w *World) remove1(id string) {
	if v := w.truth().Read().Volume(home(id), id); v != nil {
		w.mu.Lock()
		delete(w.archives.spared, v.RemoteID())
		w.mu.Unlock()
	}
	_ = w.user(&api.VolumeDeleteRequest{VolumeID: id, WriteRequest: api.WriteRequest{Namespace: home(id)}}, wire.VolumeDelete.Name, &api.WriteMeta{})
}

// schedule brings a job to what its user wants, by one plan.
func (w *World) schedule(j *job, move bool) {
	tx := w.truth().Read()
	row := tx.Job(home(j.id), j.id)
	if row == nil {
		return
	}
	e := &plan.Entry{Namespace: home(j.id), JobID: j.id, Version: row.Version, CreateIndex: row.CreateIndex, EvalID: "eval-" + j.id}
	var live []*api.Allocation
	for a := range tx.AllocsByJob(home(j.id), j.id) {
		n := tx.Node(a.NodeID)
		switch {
		case a.ServerTerminal():
		case !a.ClientTerminal() && (n == nil || n.Status == api.NodeStatusDown):
			e.Stops = append(e.Stops, &plan.Stop{ID: a.ID, Why: "lost", ClientStatus: api.AllocClientStatusLost})
		case a.ClientTerminal():
		case reconcile.VolumeLost(a, n) != "":
			e.Stops = append(e.Stops, &plan.Stop{ID: a.ID, Why: "deprived"})
		default:
			live = append(live, a)
		}
	}
	slices.SortFunc(live, func(a, b *api.Allocation) int { return int(a.CreateIndex) - int(b.CreateIndex) })
	want := j.count
	if !j.wanted {
		want = 0
	}
	for _, a := range live[min(want, len(live)):] {
		e.Stops = append(e.Stops, &plan.Stop{ID: a.ID, Why: "not needed"})
	}
	live = live[:min(want, len(live))]
	if move && len(live) > 0 {
		e.Stops = append(e.Stops, &plan.Stop{ID: live[0].ID, Why: "moved"})
		live = live[1:]
	}
	w.place(tx, j, row, e, want-len(live))
	if len(e.Stops)+len(e.Places) > 0 {
		go func() { _ = w.proposed(&plan.Apply{Plans: []*plan.Entry{e}}) }()
	}
}

// place adds allocations to a plan, as many as have a node where their volumes fit.
func (w *World) place(tx *state.Txn, j *job, row *api.Job, e *plan.Entry, count int) {
	stopping := map[string]bool{}
	for _, s := range e.Stops {
		stopping[s.ID] = true
	}
	for ; count > 0; count-- {
		var able []*api.Allocation
		w.placed++
		for n := range tx.Nodes() {
			a := &api.Allocation{
				ID: fmt.Sprintf("%s.%d", j.id, w.placed), Namespace: home(j.id), Name: j.id + ".g[0]", NodeID: n.ID, JobID: j.id, TaskGroup: "g", EvalID: e.EvalID,
				Job: row, DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
			}
			if !strings.HasPrefix(n.ID, "host") && n.Status == api.NodeStatusReady && ledger.Check(tx, a, stopping) == nil {
				able = append(able, a)
			}
		}
		if len(able) == 0 {
			return
		}
		a := able[w.rnd.IntN(len(able))]
		a.Job = nil
		e.Places = append(e.Places, a)
	}
}

// collect forgets what is over.
func (w *World) collect() {
	reap := &gc.Reap{}
	tx := w.truth().Read()
	for a := range tx.Allocs(api.AllNamespaces) {
		if a.Terminal() {
			reap.Allocs = append(reap.Allocs, a.ID)
		}
	}
	for n := range tx.Nodes() {
		if n.Status == api.NodeStatusDown {
			reap.Nodes = append(reap.Nodes, n.ID)
		}
	}
	w.mu.Lock()
	leader := w.log.leader
	w.mu.Unlock()
	go func() {
		_ = w.proposed(reap)
		if leader != nil {
			_ = leader.reconciler.Settle(w.root)
		}
	}()
}

// step is one action.
func (w *World) step() {
	w.mu.Lock()
	w.tally.Events++
	w.tally.Actions++
	w.mu.Unlock()
	r := w.rnd
	j := w.jobs[r.IntN(len(w.jobs))]
	id := made[r.IntN(len(made))]
	switch n := r.IntN(109); {
	case n < 20:
		j.wanted = !j.wanted || r.IntN(3) > 0
		w.schedule(j, false)
	case n < 30:
		w.schedule(j, true)
	case n < 50:
		for _, j := range w.jobs {
			w.schedule(j, false)
		}
	case n < 54:
		go w.create(id)
	case n < 58:
		go w.remove1(w.either(id))
	case n < 61:
		go w.expand(w.either(id), 1<<30*int64(1+w.rnd.IntN(20)))
	case n < 64:
		w.collect()
	case n < 68:
		w.give()
	case n < 69:
		w.renew(w.existing()[r.IntN(len(w.existing()))], r.IntN(4) > 0)
	case n < 72:
		w.depose(r, "by chance")
	case n < 73:
		w.archive(r)
	case n < 77:
		w.server(w.list()[r.IntN(3)])
	case n < 81:
		w.share()
	case n < 83:
		w.purge(w.nodes[r.IntN(len(w.nodes))])
	case n < 85:
		w.writeOff()
	default:
		n := w.nodes[r.IntN(len(w.nodes))]
		if r.IntN(10) == 0 {
			n = w.hosts[r.IntN(len(w.hosts))]
		}
		w.harm(n)
	}
	w.mu.Lock()
	idle := w.log.leader == nil && !w.electing
	if idle {
		w.electing = true
		wait := 300*time.Millisecond + w.some(r, 3*time.Second)
		seed := w.dice.roll("election")
		time.AfterFunc(wait, func() {
			w.mu.Lock()
			w.electing = false
			w.mu.Unlock()
			w.elect(seed)
		})
	}
	w.mu.Unlock()
}

// give lets an operator answer for a machine that is off.
func (w *World) give() {
	w.mu.Lock()
	var off *node
	for _, n := range w.nodes {
		if n.os.Err() != nil {
			off = n
		}
	}
	w.mu.Unlock()
	if off == nil {
		return
	}
	for c := range w.truth().Read().ClaimsByNode(off.id) {
		if c.State == api.ClaimReleasing {
			go func() {
				_ = w.user(&api.VolumeDetachRequest{VolumeID: c.VolumeID, NodeID: off.id, Force: true, WriteRequest: api.WriteRequest{Namespace: c.Namespace}}, wire.VolumeDetach.Name, &api.VolumeDetachResponse{})
			}()
			return
		}
	}
}

// purge has an operator say that a node is gone, mostly of one that is down. While servers that went back to an older
// state wait for what nodes tell, that must be so: they believe it.
func (w *World) purge(n *node) {
	tx, likely := w.truth().Read(), w.rnd.IntN(4) == 0
	w.mu.Lock()
	off := n.os.Err() != nil
	w.mu.Unlock()
	if row := tx.Node(n.id); row == nil || row.Status != api.NodeStatusDown && !likely || tx.Rollback() != nil && !off {
		return
	}
	go func() {
		_ = w.user(&api.NodeWriteRequest{NodeID: n.id}, wire.NodePurge.Name, &api.NodeWriteResponse{})
	}()
}

// forgo has an operator purge the dead machine that volumes wait for since a restore.
func (w *World) forgo() {
	if w.dead != nil && ledger.Unreported(w.truth().Read(), w.dead.id) {
		_ = w.user(&api.NodeWriteRequest{NodeID: w.dead.id}, wire.NodePurge.Name, &api.NodeWriteResponse{})
	}
}

// harm does something to a node, or makes it good.
func (w *World) harm(n *node) {
	r := w.rnd
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.Faults++
	cut := w.isCut(n)
	switch {
	case n.os.Err() == nil && r.IntN(4) == 0:
		w.spoil(n, r)
	case n.os.Err() != nil:
		if r.IntN(2) == 0 {
			w.tell("%s boots", n.id)
			n.power()
		}
	case n.agent == nil:
		w.tell("the agent of %s starts", n.id)
		n.start()
	case cut && n.with != nil && n.with.alone && r.IntN(4) > 0: // it stays with that server
	case cut && r.IntN(3) > 0:
		w.heal(n)
	case r.IntN(10) < 5:
		w.tell("%s is cut off", n.id)
		most := r.IntN(4) // whether the leader alone, or all
		for i, s := range w.servers {
			if most > 0 || s == w.log.leader || i == r.IntN(3) {
				w.apart(n.id, s.id, true)
			}
		}
	case r.IntN(10) < 5:
		w.tell("the agent of %s is killed", n.id)
		n.kill()
	case r.IntN(10) < 5:
		w.tell("%s reboots", n.id)
		n.cutPower()
		n.power()
	default:
		w.tell("%s vanishes", n.id)
		n.cutPower()
	}
}

func (w *World) isCut(n *node) bool {
	for _, s := range w.servers {
		if w.cut[[2]string{n.id, s.id}] {
			return true
		}
	}
	return false
}

func (w *World) heal(n *node) {
	n.with = nil
	w.tell("%s is reachable again", n.id)
	for _, s := range w.servers {
		w.apart(n.id, s.id, false)
	}
}
