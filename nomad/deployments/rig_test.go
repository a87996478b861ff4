package deployments_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/deployments"
	"github.com/open-nomad/open-nomad/nomad/deployments/tally"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// rig is the service over a state in memory, with a job of two versions: 0 is stable, 1 is being deployed.
type rig struct {
	*deployments.Service
	t     *testing.T
	state *state.Store
	raft  *flaky
}

// flaky is a log that can fail.
type flaky struct {
	fsm.Proposer
	fail  int
	steps int
}

func (f *flaky) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if _, ok := c.(*deployments.Step); ok {
		f.steps++
		if f.fail > 0 {
			f.fail--
			return fsm.Result{}, fault.New(fault.Unavailable, "no leader")
		}
	}
	return f.Proposer.Propose(ctx, c)
}

func open(t *testing.T) *rig {
	t.Helper()
	s := state.New()
	r := fsm.NewRegistry(deployments.Commands)
	raft := &flaky{Proposer: fsm.NewLocal(s, r)}
	out := &rig{deployments.New(deployments.Config{State: s, Raft: raft}), t, s, raft}
	out.put(func(tx *state.Txn) {
		old := job(0, "one")
		old.Stable = true
		tx.PutJobVersion(old)
		now := job(1, "two")
		tx.PutJob(now)
		version := *now
		tx.PutJobVersion(&version)
	})
	return out
}

func job(version uint64, command string) *api.Job {
	return &api.Job{
		ID: "web", Namespace: "default", Type: api.JobTypeService, Priority: 60, Version: version, NodePool: "default",
		CreateIndex: 2, JobModifyIndex: 2 + version, ModifyIndex: 2 + version,
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 2, Tasks: []*api.Task{{Name: "t", Driver: "raw_exec", Config: map[string]any{"command": command}}},
			ReschedulePolicy: &api.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: time.Second, DelayFunction: "constant"},
		}},
	}
}

func (r *rig) put(fn func(*state.Txn)) {
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	fn(tx)
	tx.Commit()
}

// deploy begins a deployment with one group, which edit may change.
func (r *rig) deploy(edit func(*api.Deployment, *api.DeploymentState)) {
	g := &api.DeploymentState{DesiredTotal: 2, ProgressDeadline: time.Minute}
	d := &api.Deployment{
		ID: "d", Namespace: "default", JobID: "web", JobVersion: 1, JobCreateIndex: r.state.Read().Job("default", "web").CreateIndex,
		Status: api.DeploymentStatusRunning, StatusDescription: "Deployment is running",
		TaskGroups: map[string]*api.DeploymentState{"g": g}, EvalPriority: 70,
	}
	if edit != nil {
		edit(d, g)
	}
	r.put(func(tx *state.Txn) { tx.PutDeployment(d) })
}

func canaries(n int, auto bool) func(*api.Deployment, *api.DeploymentState) {
	return func(_ *api.Deployment, g *api.DeploymentState) { g.DesiredCanaries, g.AutoPromote = n, auto }
}

// place adds an allocation to the deployment; edit may change it.
func (r *rig) place(id string, edit func(*api.Allocation)) {
	r.put(func(tx *state.Txn) {
		a := &api.Allocation{
			ID: id, Namespace: "default", JobID: "web", Job: tx.Job("default", "web"), TaskGroup: "g", DeploymentID: "d", NodeID: "n",
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning, ModifyTime: tx.Now().UnixNano(),
		}
		if edit != nil {
			edit(a)
		}
		tx.PutAlloc(a)
		tally.AllocChanged(tx, nil, a)
	})
}

func canary(a *api.Allocation) { a.DeploymentStatus = &api.AllocDeploymentStatus{Canary: true} }

// found is the health that the node found.
func (r *rig) found(id string, healthy bool) {
	r.put(func(tx *state.Txn) {
		old := tx.Alloc(id)
		next := *old
		next.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: &healthy, Canary: old.DeploymentStatus != nil && old.DeploymentStatus.Canary}
		tx.PutAlloc(&next)
		tally.AllocChanged(tx, old, &next)
	})
}

func (r *rig) deployment() *api.Deployment { return r.state.Read().Deployment("d") }

func (r *rig) status(want, description string) {
	r.t.Helper()
	if d := r.deployment(); d.Status != want || d.StatusDescription != description {
		r.t.Errorf("deployment is %s (%s), want %s (%s)", d.Status, d.StatusDescription, want, description)
	}
}

// evals counts the evaluations that the service made.
func (r *rig) evals(want int) {
	r.t.Helper()
	n := 0
	for e := range r.state.Read().EvalsByJob("default", "web") {
		n++
		if e.TriggeredBy != api.TriggerDeploymentWatcher || e.DeploymentID != "d" || e.Status != api.EvalStatusPending {
			r.t.Errorf("evaluation %+v", e)
		}
	}
	if n != want {
		r.t.Errorf("%d evaluations, want %d", n, want)
	}
}

func refused(t *testing.T, err error, class fault.Class, text string) {
	t.Helper()
	if !errors.Is(err, class) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("want %v with %q, got %v", class, text, err)
	}
}

// lead runs the leader's loop until the returned function is called.
func (r *rig) lead() (end func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	synctest.Wait()
	return func() {
		r.t.Helper()
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
