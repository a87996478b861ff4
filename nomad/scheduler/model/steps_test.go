package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// step is one thing that somebody does.
type step struct {
	name string
	do   func(w *world) error
}

// play does the steps one after the other, lets the world come to rest after each, and checks it.
func (w *world) play(steps []step) error {
	for i, s := range steps {
		w.begin()
		err := s.do(w)
		w.mayPreempt()
		if err == nil {
			err = w.rest()
		}
		if err == nil {
			err = w.verify()
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w\n%s", i, s.name, err, w.told())
		}
	}
	return nil
}

// told is what there is, for people.
func (w *world) told() string {
	var b strings.Builder
	tx := w.store.Read()
	for n := range tx.Nodes() {
		fmt.Fprintf(&b, "node %s: %s, %s, %d MHz\n", n.ID, n.Status, n.SchedulingEligibility, n.NodeResources.Cpu.CpuShares)
	}
	for j := range tx.Jobs("default") {
		fmt.Fprintf(&b, "job %s v%d, stopped %v\n", j.ID, j.Version, j.Stop)
		for a := range tx.AllocsByJob("default", j.ID) {
			fmt.Fprintf(&b, "\t%s, made %d, stopped %d, of deployment %.8s, %+v, %s\n", show(a), a.CreateIndex, a.AllocModifyIndex, a.DeploymentID, a.DeploymentStatus, a.DesiredDescription)
		}
		for d := range tx.DeploymentsByJob("default", j.ID) {
			fmt.Fprintf(&b, "\tdeployment %.8s v%d %s: %s %+v\n", d.ID, d.JobVersion, d.Status, d.StatusDescription, d.TaskGroups["g"])
		}
		for e := range tx.EvalsByJob("default", j.ID) {
			fmt.Fprintf(&b, "\tevaluation %.8s by %s: %s, made %d, node %s, refused %v\n", e.ID, e.TriggeredBy, e.Status, e.CreateIndex, e.NodeID, slices.Sorted(maps.Keys(e.FailedTGAllocs)))
		}
	}
	return b.String()
}

func nodeUp(id, rack string, mhz int64) step {
	return step{"node up " + id, func(w *world) error {
		w.node(id, rack, mhz)
		return nil
	}}
}

func nodeDown(id string) step {
	return step{"node down " + id, func(w *world) error {
		return w.propose(&nodes.SetStatus{NodeID: id, Status: api.NodeStatusDown, Missed: true, Seed: uuid.NewString()})
	}}
}

func eligible(id string, yes bool) step {
	return step{fmt.Sprint("eligible ", id, yes), func(w *world) error {
		to := api.NodeSchedulingIneligible
		if yes {
			to = api.NodeSchedulingEligible
		}
		_, err := w.nodes.Eligibility(w.ctx(), &api.NodeEligibilityRequest{NodeID: id, Eligibility: to})
		return err
	}}
}

// drain empties a node at once.
func drain(id string) step {
	return step{"drain " + id, func(w *world) error {
		w.drained[id] = true
		_, err := w.nodes.Drain(w.ctx(), &api.NodeDrainRequest{NodeID: id, DrainSpec: &api.DrainSpec{Deadline: -1}})
		return err
	}}
}

func register(j want) step {
	return step{fmt.Sprintf("register %+v", j), func(w *world) error {
		_, err := w.jobs.Register(w.ctx(), &api.JobRegisterRequest{Job: j.job()})
		return err
	}}
}

func stopJob(id string, purge bool) step {
	return step{fmt.Sprint("stop ", id, purge), func(w *world) error {
		_, err := w.jobs.Deregister(w.ctx(), &api.JobDeregisterRequest{JobID: id, Purge: purge})
		return err
	}}
}

// scale may be refused: nothing is scaled while a deployment is under way.
func scale(id string, count int64) step {
	return step{fmt.Sprint("scale ", id, " ", count), func(w *world) error {
		_, err := w.jobs.Scale(w.ctx(), &api.JobScaleRequest{JobID: id, Target: map[string]string{"Group": "g"}, Count: &count})
		if err != nil && (w.deployment(id) != nil || w.template(id)) {
			return nil
		}
		return err
	}}
}

func (w *world) template(id string) bool {
	j := w.store.Read().Job("default", id)
	return j == nil || j.Stop || j.Periodic != nil || j.ParameterizedJob != nil
}

// deployment is that which is under way.
func (w *world) deployment(job string) *api.Deployment {
	for d := range w.store.Read().DeploymentsByJob("default", job) {
		if d.Active() {
			return d
		}
	}
	return nil
}

// decide promotes, fails, pauses or resumes what is under way, if anything is.
func decide(job, how string) step {
	return step{how + " " + job, func(w *world) error {
		d := w.deployment(job)
		if d == nil {
			return nil
		}
		var err error
		switch how {
		case "promote": // refused until all canaries are healthy, or where there are none
			_, _ = w.deployments.Promote(w.ctx(), &api.DeploymentPromoteRequest{DeploymentID: d.ID, All: true})
		case "fail":
			w.byHand[d.ID] = true
			_, err = w.deployments.Fail(w.ctx(), &api.DeploymentWriteRequest{DeploymentID: d.ID})
		case "pause":
			_, err = w.deployments.Pause(w.ctx(), &api.DeploymentPauseRequest{DeploymentID: d.ID, Pause: true})
		case "resume":
			_, err = w.deployments.Pause(w.ctx(), &api.DeploymentPauseRequest{DeploymentID: d.ID})
		}
		return err
	}}
}

// anyLive is one of those of a job that live; of all jobs when it is empty.
func (w *world) anyLive(job string, n int) *api.Allocation {
	tx := w.store.Read()
	var all []*api.Allocation
	for j := range tx.Jobs("default") {
		if job == "" || j.ID == job {
			all = append(all, live(tx, j.ID)...)
		}
	}
	all = slices.DeleteFunc(all, func(a *api.Allocation) bool { return !onLivingNode(tx, a) })
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)]
}

// end ends one of those that live: "fails", "ends" well, or is stopped by a "user".
func end(job string, n int, how string) step {
	return step{fmt.Sprint(how, " ", job, " ", n), func(w *world) error {
		a := w.anyLive(job, n)
		if a == nil {
			return nil
		}
		return w.end(a, how)
	}}
}

func (w *world) end(a *api.Allocation, how string) error {
	w.ended[a.ID] = true
	if how == "user" {
		_, err := w.allocs.Stop(w.ctx(), &api.AllocStopRequest{AllocID: a.ID})
		return err
	}
	to := api.AllocClientStatusComplete
	if how == "fails" {
		to = api.AllocClientStatusFailed
	}
	w.report(a.NodeID, &api.Allocation{ID: a.ID, ClientStatus: to, TaskStates: ended(how == "fails"), DeploymentID: a.DeploymentID})
	return nil
}

// finish ends all of a job well.
func finish(job string) step {
	return step{"finish " + job, func(w *world) error {
		for {
			a := w.anyLive(job, 0)
			if a == nil || w.ended[a.ID] {
				return nil
			}
			if err := w.end(a, "ends"); err != nil {
				return err
			}
		}
	}}
}

func launch(id string) step {
	return step{"launch " + id, func(w *world) error {
		j := w.store.Read().Job("default", id)
		var err error
		switch {
		case j == nil || j.Stop:
		case j.Periodic != nil:
			_, err = w.jobs.PeriodicForce(w.ctx(), &api.JobRequest{JobID: id})
		case j.ParameterizedJob != nil:
			_, err = w.jobs.Dispatch(w.ctx(), &api.JobDispatchRequest{JobID: id})
		}
		return err
	}}
}

func evaluate(id string) step {
	return step{"evaluate " + id, func(w *world) error {
		if w.template(id) {
			return nil
		}
		_, err := w.jobs.Evaluate(w.ctx(), &api.JobEvaluateRequest{JobID: id})
		return err
	}}
}

// preempt switches on who may evict beside system jobs.
func preempt(service, batch bool) step {
	return step{fmt.Sprint("preempt ", service, batch), func(w *world) error {
		w.mayPreempt()
		index := w.store.Read().Index() + 1
		tx := w.store.Write(index, time.Now())
		c := *tx.SchedulerConfig()
		c.PreemptionConfig.ServiceSchedulerEnabled, c.PreemptionConfig.BatchSchedulerEnabled = service, batch
		tx.PutSchedulerConfig(&c)
		tx.Commit()
		return nil
	}}
}

// wants checks something by itself.
func wants(what string, holds func(tx *state.Txn) bool) step {
	return step{what, func(w *world) error {
		if !holds(w.store.Read()) {
			return fmt.Errorf("it does not hold")
		}
		return nil
	}}
}
