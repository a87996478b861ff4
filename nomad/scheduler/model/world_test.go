package model_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/deployments"
	"github.com/open-nomad/open-nomad/nomad/evals"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/jobs"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// world is a leader's services over a log in memory, with nodes and clients that the test plays.
type world struct {
	t           *testing.T
	store       *state.Store
	raft        *fsm.Local
	jobs        *jobs.Service
	nodes       *nodes.Service
	allocs      *allocs.Service
	deployments *deployments.Service
	evals       *evals.Service
	log         *log
	stop        func()
	*book
}

// chaos gives ids that are the same in every run of a sequence.
type chaos struct {
	mu sync.Mutex
	*rand.ChaCha8
}

func (c *chaos) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ChaCha8.Read(p)
}

// log is the way of plans to the log. Something may happen just before one is written, and it may be slow.
type log struct {
	fsm.Proposer
	mu     sync.Mutex
	before func(*plan.Apply) bool // true when it has happened
	slow   time.Duration
}

// Propose implements [fsm.Proposer].
func (l *log) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if p, is := c.(*plan.Apply); is {
		time.Sleep(l.slow)
		l.mu.Lock()
		if l.before != nil && l.before(p) {
			l.before = nil
		}
		l.mu.Unlock()
	}
	return l.Proposer.Propose(ctx, c)
}

func (l *log) meanwhile(do func(*plan.Apply) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = do
}

func newWorld(t *testing.T, workers int, slow time.Duration) *world {
	uuid.SetRand(&chaos{ChaCha8: rand.NewChaCha8([32]byte{})})
	s := state.New()
	raft := fsm.NewLocal(s, nomad.Commands())
	long := 10_000 * time.Hour
	w := &world{
		t: t, store: s, raft: raft, book: newBook(), log: &log{Proposer: raft, slow: slow},
		jobs:        jobs.New(jobs.Config{State: s, Raft: raft, Versions: 6}),
		allocs:      allocs.New(allocs.Config{State: s, Raft: raft}),
		deployments: deployments.New(deployments.Config{State: s, Raft: raft}),
		nodes: nodes.New(nodes.Config{
			State: s, Raft: raft, Log: hclog.NewNullLogger(), Heartbeat: nodes.Heartbeat{MinTTL: long, Grace: long, FailoverTTL: long},
		}),
	}
	w.evals = evals.New(evals.Config{State: s, Raft: w.log, Workers: workers, SweepEvery: 20 * time.Second})
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.Commit()
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{w.evals.Run, w.evals.Work, w.nodes.Run, w.deployments.Run} {
		g.Go(func() error { return run(ctx) })
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the services ended with %v", err)
		}
	})
	return w
}

func (w *world) ctx() context.Context { return context.Background() }

// restMax bounds how many rounds a step may take until nothing happens any more.
const restMax = 400

// rest lets clients follow and time pass until nothing happens any more; every round must be legal.
func (w *world) rest() error {
	for range restMax {
		synctest.Wait()
		if err := w.legal(w.store.Read()); err != nil {
			return err
		}
		if w.follow() {
			continue
		}
		if at := w.due(); !at.IsZero() {
			time.Sleep(time.Until(at) + time.Second)
			continue
		}
		before := w.store.Read().Index()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if w.store.Read().Index() == before && w.due().IsZero() {
			return nil
		}
	}
	return errors.New("it never comes to rest")
}

// due is when the first evaluation that was put off is to run, or one that came too late too often is tried again.
func (w *world) due() time.Time {
	var first time.Time
	for e := range w.store.Read().Evals(api.AllNamespaces) {
		at := e.WaitUntil
		if e.Status == api.EvalStatusBlocked && e.TriggeredBy == api.TriggerMaxPlans {
			at = time.Now().Add(time.Minute)
		} else if e.Status != api.EvalStatusPending {
			continue
		}
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// follow has the clients of living nodes do what the servers want, one thing per allocation. It reports whether
// there was anything.
func (w *world) follow() bool {
	tx := w.store.Read()
	reports := map[string][]*api.Allocation{}
	for a := range tx.Allocs(api.AllNamespaces) {
		n := tx.Node(a.NodeID)
		if n == nil || n.Status != api.NodeStatusReady || a.ClientTerminal() {
			continue
		}
		next := &api.Allocation{ID: a.ID, ClientStatus: a.ClientStatus, DeploymentID: a.DeploymentID, TaskStates: a.TaskStates}
		switch s := a.DeploymentStatus; {
		case a.DesiredStatus != api.AllocDesiredStatusRun:
			next.ClientStatus, next.TaskStates = api.AllocClientStatusComplete, ended(false)
		case a.ClientStatus != api.AllocClientStatusRunning:
			next.ClientStatus, next.TaskStates = api.AllocClientStatusRunning, running()
		case a.Job.Type == api.JobTypeService && (s == nil || s.Healthy == nil):
			healthy := !sick(a.Job)
			next.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
		default:
			continue
		}
		reports[a.NodeID] = append(reports[a.NodeID], next)
	}
	for node, list := range reports {
		w.report(node, list...)
	}
	return len(reports) > 0
}

func (w *world) report(node string, list ...*api.Allocation) {
	if _, err := w.allocs.Update(w.ctx(), &api.AllocUpdateRequest{NodeID: node, Allocs: list}); err != nil {
		w.t.Errorf("report of %s: %v", node, err)
	}
}

func running() map[string]*api.TaskState {
	return map[string]*api.TaskState{"t": {State: api.TaskStateRunning, StartedAt: time.Now()}}
}

func ended(failed bool) map[string]*api.TaskState {
	return map[string]*api.TaskState{"t": {State: api.TaskStateDead, Failed: failed, FinishedAt: time.Now()}}
}

// node registers a node; one that was away comes back.
func (w *world) node(id, rack string, mhz int64) {
	_, err := w.nodes.Register(w.ctx(), &api.NodeRegisterRequest{Node: &api.Node{
		ID: id, Name: id, SecretID: id, Datacenter: "dc1", Status: api.NodeStatusReady, Meta: map[string]string{"rack": rack},
		Attributes: map[string]string{"kernel.name": "linux"},
		Drivers:    map[string]*api.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &api.NodeResources{
			Cpu: api.NodeCpuResources{CpuShares: mhz}, Memory: api.NodeMemoryResources{MemoryMB: 1 << 20}, Disk: api.NodeDiskResources{DiskMB: 1 << 20},
		},
	}})
	if err == nil {
		err = w.propose(&nodes.SetStatus{NodeID: id, Status: api.NodeStatusReady, Seed: uuid.NewString()})
	}
	if err != nil {
		w.t.Errorf("node %s: %v", id, err)
	}
}

func (w *world) propose(c fsm.Command) error {
	if _, err := w.raft.Propose(w.ctx(), c); err != nil {
		return fmt.Errorf("propose: %w", err)
	}
	return nil
}

// live are the allocations of a job that run or are about to, in a fixed order.
func live(tx *state.Txn, job string) []*api.Allocation {
	var out []*api.Allocation
	for a := range tx.AllocsByJob("default", job) {
		if lives(a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *api.Allocation) int {
		return slices.Compare([]string{a.Name, a.ID}, []string{b.Name, b.ID})
	})
	return out
}

func lives(a *api.Allocation) bool {
	return a != nil && a.DesiredStatus == api.AllocDesiredStatusRun &&
		(a.ClientStatus == api.AllocClientStatusPending || a.ClientStatus == api.AllocClientStatusRunning)
}
