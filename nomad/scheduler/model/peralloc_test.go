package model_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// one volume for each allocation of a job, on nodes whose clients are played: who mounts what, and who writes, is known.
type each struct {
	*world
	volumes *volumes.Service
	mu      sync.Mutex
	// mounted are the volumes that allocations have mounted, by node and allocation.
	mounted map[string]map[string]string
	// away is since when nodes are not heard.
	away map[string]time.Time
}

const (
	volumesMax = 5
	eachJob    = "db"
)

// links reach the clients of nodes that are heard.
type links struct{ *each }

func (l links) Node(id string) (wire.Caller, error) {
	if n := l.store.Read().Node(id); n == nil || n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected {
		return nil, fault.New(fault.Unavailable, "no link to %s", id)
	}
	return link{l.each, id}, nil
}

type link struct {
	*each
	node string
}

// Invoke has the client unmount what nobody uses there.
func (l link) Invoke(_ context.Context, method string, req, _ any) error {
	r, is := req.(*api.NodeVolumeDetachRequest)
	if !is {
		return fault.New(fault.Unimplemented, "no method %s", method)
	}
	if a := l.store.Read().Alloc(r.AllocID); lives(a) && a.NodeID == l.node {
		return fault.New(fault.Conflict, "allocation %s runs on this node", r.AllocID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mounted[l.node], r.AllocID)
	return nil
}

func newEach(t *testing.T) *each {
	e := &each{world: newWorld(t, 1, 0), mounted: map[string]map[string]string{}, away: map[string]time.Time{}}
	r := reconciler.New(reconciler.Config{State: e.store, Raft: e.raft, Nodes: links{e}})
	e.volumes = volumes.New(volumes.Config{State: e.store, Raft: e.raft, Drivers: r, Outcomes: r})
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{r.Run, e.volumes.Run} {
		g.Go(func() error { return run(ctx) })
	}
	stop := e.stop
	e.stop = func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the services ended with %v", err)
		}
		stop()
	}
	for i := range volumesMax {
		id := fmt.Sprintf("v[%d]", i)
		tx := e.store.Write(e.store.Read().Index()+1, time.Now())
		tx.PutVolume(&api.Volume{VolumeSpec: api.VolumeSpec{
			ID: id, Name: id, Namespace: "default", PluginID: "p",
			RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
		}, Provision: api.VolumeProvision{State: api.VolumeAvailable, ExternalID: "ext-" + id}})
		tx.Commit()
	}
	return e
}

// up registers a node with the plugin, or has it come back.
func (e *each) up(id string) error {
	n := &api.Node{
		ID: id, Name: id, SecretID: id, Datacenter: "dc1", Status: api.NodeStatusReady, Attributes: map[string]string{"kernel.name": "linux"},
		Drivers: map[string]*api.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: 2000}, Memory: api.NodeMemoryResources{MemoryMB: 1 << 20}, Disk: api.NodeDiskResources{DiskMB: 1 << 20},
		},
		CSINodePlugins: map[string]*api.CSIInfo{"p": {PluginID: "p", Healthy: true, NodeInfo: &api.CSINodeInfo{ID: id}}},
	}
	if _, err := e.nodes.Register(e.ctx(), &api.NodeRegisterRequest{Node: n}); err != nil {
		return err
	}
	if since, was := e.away[id]; was && time.Since(since) >= 5*time.Minute { // its supervising processes have ended all
		e.mu.Lock()
		clear(e.mounted[id])
		e.mu.Unlock()
	}
	delete(e.away, id)
	return e.propose(&nodes.SetStatus{NodeID: id, Status: api.NodeStatusReady, Seed: uuid.NewString()})
}

// gone is what the servers make of a node that they do not hear.
func (e *each) gone(id string) error {
	n := e.store.Read().Node(id)
	if n == nil || n.Status != api.NodeStatusReady {
		return nil
	}
	status := api.NodeStatusDown
	for a := range e.store.Read().AllocsByNode(id) {
		if d := a.Job.Group(a.TaskGroup).Disconnect; !a.Terminal() && d != nil && d.LostAfter > 0 {
			status = api.NodeStatusDisconnected
		}
	}
	e.away[id] = time.Now()
	return e.propose(&nodes.SetStatus{NodeID: id, Status: status, Missed: true, Seed: uuid.NewString()})
}

// turn has the clients of nodes that are heard do one thing for each of their allocations. It reports whether they did anything.
func (e *each) turn() (busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx := e.store.Read()
	for n := range tx.Nodes() {
		if n.Status == api.NodeStatusDown || n.Status == api.NodeStatusDisconnected {
			continue
		}
		if e.mounted[n.ID] == nil {
			e.mounted[n.ID] = map[string]string{}
		}
		known := map[string]bool{}
		for a := range tx.AllocsByNode(n.ID) {
			known[a.ID] = true
			busy = e.lead(n.ID, a) || busy
		}
		for id, volume := range e.mounted[n.ID] {
			if !known[id] {
				busy = e.unmount(n.ID, volume, id) || busy
			}
		}
	}
	return busy
}

func (e *each) lead(node string, a *api.Allocation) bool {
	tx := e.store.Read()
	volume := a.Job.Group(a.TaskGroup).Volumes["data"].SourceFor(a.Name)
	c := tx.Claim("default", volume, a.ID, "")
	mounted := e.mounted[node][a.ID] != ""
	next := &api.Allocation{ID: a.ID, DeploymentID: a.DeploymentID}
	switch {
	case a.ClientTerminal() && mounted, a.ClientTerminal() && c != nil && c.State != api.ClaimUnmounted:
		return e.unmount(node, volume, a.ID)
	case a.ClientTerminal():
		return false
	case a.DesiredStatus != api.AllocDesiredStatusRun:
		next.ClientStatus, next.TaskStates = api.AllocClientStatusComplete, ended(false)
	case a.ClientStatus == api.AllocClientStatusPending && (c == nil || c.State != api.ClaimReady):
		return false
	case a.ClientStatus == api.AllocClientStatusPending:
		e.mounted[node][a.ID] = volume
		next.ClientStatus, next.TaskStates = api.AllocClientStatusRunning, running()
	case !mounted: // its lease ended it
		next.ClientStatus, next.TaskStates = api.AllocClientStatusFailed, ended(true)
	case a.ClientStatus == api.AllocClientStatusUnknown:
		next.ClientStatus, next.TaskStates = api.AllocClientStatusRunning, a.TaskStates
	case a.DeploymentStatus == nil || a.DeploymentStatus.Healthy == nil:
		healthy := true
		next.ClientStatus, next.TaskStates = a.ClientStatus, a.TaskStates
		next.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
	default:
		return false
	}
	e.report(node, next)
	return true
}

func (e *each) unmount(node, volume, alloc string) bool {
	delete(e.mounted[node], alloc)
	r := &api.VolumeUnpublishRequest{VolumeID: volume, AllocID: alloc, NodeID: node, NodeSecret: node}
	r.Namespace = "default"
	_, err := e.volumes.Unpublish(e.ctx(), r)
	if err != nil && fault.Of(err) != fault.NotFound {
		e.t.Errorf("unmount %s of %s on %s: %v", volume, alloc, node, err)
	}
	return err == nil
}

// single returns an error when a volume has two writers. The lease of one that is not heard ends it.
func (e *each) single() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	writers := map[string][]string{}
	for node, all := range e.mounted {
		if since, away := e.away[node]; away && time.Since(since) >= 5*time.Minute {
			continue
		}
		for alloc, volume := range all {
			writers[volume] = append(writers[volume], alloc+" on "+node)
		}
	}
	for volume, all := range writers {
		if len(all) > 1 {
			return fmt.Errorf("%s is written to by %v", volume, all)
		}
	}
	return nil
}

// pass lets so much time pass.
func (e *each) pass(d time.Duration) error {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		if err := e.single(); err != nil {
			return err
		}
		if e.turn() {
			continue
		}
		if !time.Now().Before(end) {
			return nil
		}
		time.Sleep(time.Second)
		for n := range e.store.Read().Nodes() { // it has unmounted, maybe, what was taken from it meanwhile
			if n.Status == api.NodeStatusInit {
				if err := e.propose(&nodes.SetStatus{NodeID: n.ID, Status: api.NodeStatusReady, Seed: uuid.NewString()}); err != nil {
					return err
				}
			}
		}
	}
}

// whole returns an error unless so many indexes have one allocation that runs and has its volume, and nobody else has any.
func (e *each) whole(count int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	tx, have := e.store.Read(), map[string]string{}
	for a := range tx.AllocsByJob("default", eachJob) {
		if a.Terminal() {
			continue
		}
		if a.ClientStatus != api.AllocClientStatusRunning || have[a.Name] != "" {
			return fmt.Errorf("%s %s is %s beside %q", a.Name, a.ID, a.ClientStatus, have[a.Name])
		}
		have[a.Name] = a.ID
		volume := a.Job.Group(a.TaskGroup).Volumes["data"].SourceFor(a.Name)
		if c := tx.Claim("default", volume, a.ID, ""); c == nil || c.State != api.ClaimReady || e.mounted[a.NodeID][a.ID] != volume {
			return fmt.Errorf("%s %s runs without %s: %+v, it has %q", a.Name, a.ID, volume, c, e.mounted[a.NodeID][a.ID])
		}
	}
	if len(have) != count {
		return fmt.Errorf("there are %v of %d", have, count)
	}
	for i := range volumesMax {
		id := fmt.Sprintf("v[%d]", i)
		for c := range tx.ClaimsByVolume("default", id) {
			if have[fmt.Sprintf("%s.g[%d]", eachJob, i)] != c.AllocID {
				return fmt.Errorf("%s is held by %s, which is %s", id, c.AllocID, c.State)
			}
		}
	}
	return nil
}

// eachWant is the job with a volume for each allocation.
func eachWant(r *rapid.T, count int) *api.Job {
	j := want{id: eachJob, kind: api.JobTypeService, priority: 50, work: drawn(r, "a", "b"), groups: []groupWant{{count: count, cpu: 400}}}.job()
	g := j.TaskGroups[0]
	g.Volumes = map[string]*api.VolumeRequest{"data": {
		Name: "data", Type: api.VolumeTypeCSI, Source: "v", PerAlloc: true,
		AccessMode: string(api.AccessSingleNodeWriter), AttachmentMode: string(api.AttachmentFileSystem),
	}}
	switch how := drawn(r, "none", "stops", "", "keep_original", "keep_replacement", "best_score", "longest_running"); how {
	case "none":
	case "stops":
		g.Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Minute, Replace: rapid.Bool().Draw(r, "replace")}
	default:
		g.Disconnect = &api.DisconnectStrategy{LostAfter: drawnTime(r, 30*time.Second, 10*time.Minute), Replace: rapid.Bool().Draw(r, "replace")}
		if how != "" {
			option := api.ReconcileOption(how)
			g.Disconnect.Reconcile = &option
		}
	}
	return j
}

func drawnTime(r *rapid.T, of ...time.Duration) time.Duration {
	return rapid.SampledFrom(of).Draw(r, "time")
}

// event is something that happens, and for how long the world goes on after it.
type event struct {
	name string
	do   func(*each) error
	then time.Duration
}

const eachNodes = 3

// drawEvents draws what happens, and how many allocations are wanted at the end.
func drawEvents(r *rapid.T) (events []event, count int) {
	add := func(name string, then time.Duration, do func(*each) error) {
		events = append(events, event{name, do, then})
	}
	set := func(then time.Duration) {
		j := eachWant(r, rapid.IntRange(0, volumesMax).Draw(r, "count"))
		g := j.TaskGroups[0]
		count = g.Count
		add(fmt.Sprintf("register with %d, disconnect %+v", count, g.Disconnect), then, func(e *each) error {
			_, err := e.jobs.Register(e.ctx(), &api.JobRegisterRequest{Job: j})
			return err
		})
	}
	for i := range eachNodes {
		node := fmt.Sprint("n", i)
		add("up "+node, 0, func(e *each) error { return e.up(node) })
	}
	set(10 * time.Second)
	for range rapid.IntRange(1, 10).Draw(r, "steps") {
		node, n := fmt.Sprint("n", rapid.IntRange(0, eachNodes-1).Draw(r, "node")), rapid.IntRange(0, 9).Draw(r, "pick")
		then := drawnTime(r, 0, 2*time.Second, 20*time.Second, 2*time.Minute, 7*time.Minute)
		switch what := drawn(r, "fails", "fails", "gone", "gone", "up", "up", "register", "drain", "user", "eligible"); what {
		case "fails", "user":
			add(fmt.Sprint(what, " ", n), then, func(e *each) error {
				if a := e.anyLive(eachJob, n); a != nil {
					return e.end(a, what)
				}
				return nil
			})
		case "gone":
			add("gone "+node, then, func(e *each) error { return e.gone(node) })
		case "up":
			add("up "+node, then, func(e *each) error { return e.up(node) })
		case "register":
			set(then)
		case "drain":
			add("drain "+node, then, func(e *each) error {
				if !onLivingNode(e.store.Read(), &api.Allocation{NodeID: node}) {
					return nil
				}
				return drain(node).do(e.world)
			})
		case "eligible":
			add("eligible "+node, then, func(e *each) error { return eligible(node, true).do(e.world) })
		}
	}
	return events, count
}

// Whatever allocations fail and nodes go and come, each index comes back with its own volume, which nobody writes to twice.
func TestEachAllocationComesBackWithItsVolume(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		events, count := drawEvents(r)
		var failure error
		var told string
		synctest.Test(t, func(t *testing.T) {
			e := newEach(t)
			defer e.stop()
			failure = e.playEvents(events, count)
			told = e.told()
		})
		if failure != nil {
			for i, d := range events {
				r.Log(i, d.name, "then", d.then)
			}
			r.Fatalf("%v\n%s", failure, told)
		}
	})
}

func (e *each) playEvents(events []event, count int) error {
	for i, d := range events {
		err := d.do(e)
		if err == nil {
			err = e.pass(d.then)
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i, d.name, err)
		}
	}
	var errs []error
	for i := range eachNodes {
		id := fmt.Sprint("n", i)
		if _, away := e.away[id]; away {
			errs = append(errs, e.up(id))
		}
		errs = append(errs, eligible(id, true).do(e.world))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := e.pass(30 * time.Minute); err != nil {
		return err
	}
	return e.whole(count)
}
