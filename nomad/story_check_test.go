package nomad_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

func (w *story) allocs() []*api.Allocation {
	return call(w, wire.AllocList, &api.AllocListRequest{}).Allocs
}

// jobs are copies: who registers one changes it, and the server's own are the state's.
func (w *story) jobs() (all []*api.Job) {
	for _, stub := range call(w, wire.JobList, &api.JobListRequest{}).Jobs {
		j := call(w, wire.JobGet, &api.JobRequest{JobID: stub.ID}).Job
		if j == nil {
			continue
		}
		b, err := j.MarshalMsg(nil)
		own := &api.Job{}
		if err == nil {
			_, err = own.UnmarshalMsg(b)
		}
		if err != nil {
			w.t.Error(err)
			continue
		}
		all = append(all, own)
	}
	return all
}

// live is what the nodes do until ctx ends.
func (w *story) live(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		all := w.allocs()
		for i := range storyNodes {
			w.mu.Lock()
			down, calm := w.down[i], w.calm
			w.mu.Unlock()
			if down {
				continue
			}
			w.beat(i, api.NodeStatusReady)
			var reports []*api.Allocation
			for _, a := range all {
				if a.NodeID == idOf(i) && !a.ClientTerminal() && rnd.IntN(3) > 0 {
					if r := reportOf(rnd, a, calm); r != nil {
						reports = append(reports, r)
					}
				}
			}
			if len(reports) > 0 {
				call(w, wire.NodeUpdateAllocs, &api.AllocUpdateRequest{NodeID: idOf(i), NodeSecret: secretOf(i), Allocs: reports})
			}
		}
		w.count()
		time.Sleep(3 * time.Millisecond)
	}
}

// reportOf is what a node says next of an allocation that has not ended; nil when nothing is new.
func reportOf(rnd *rand.Rand, a *api.Allocation, calm bool) *api.Allocation {
	r := &api.Allocation{
		ID: a.ID, NodeID: a.NodeID, JobID: a.JobID, Namespace: a.Namespace, ClientStatus: a.ClientStatus, TaskStates: a.TaskStates,
		DeploymentID: a.DeploymentID, DeploymentStatus: a.DeploymentStatus,
	}
	now := func(status, task string, failed bool, events ...string) {
		s := &api.TaskState{State: task, Failed: failed, StartedAt: time.Now()}
		if task == api.TaskStateDead {
			s.FinishedAt = time.Now()
		}
		for _, e := range events {
			s.Events = append(s.Events, &api.TaskEvent{Type: e})
		}
		r.ClientStatus, r.TaskStates = status, map[string]*api.TaskState{"t": s}
	}
	s := a.DeploymentStatus
	switch {
	case a.DesiredStatus != api.AllocDesiredStatusRun:
		now(api.AllocClientStatusComplete, api.TaskStateDead, false, api.EventKilling, api.EventKilled)
	case a.ClientStatus != api.AllocClientStatusRunning:
		now(api.AllocClientStatusRunning, api.TaskStateRunning, false, api.EventStarted)
	case runsOnce(a.Job) && rnd.IntN(30) == 0:
		now(api.AllocClientStatusComplete, api.TaskStateDead, false, api.EventStarted, api.EventTerminated)
	case !calm && rnd.IntN(150) == 0:
		now(api.AllocClientStatusFailed, api.TaskStateDead, true, api.EventStarted, api.EventTerminated)
	case a.DeploymentID != "" && (s == nil || s.Healthy == nil):
		r.DeploymentStatus = &api.AllocDeploymentStatus{Healthy: new(true), Timestamp: time.Now(), Canary: s != nil && s.Canary}
	default:
		return nil
	}
	return r
}

// count notes what has been done since it was last called.
func (w *story) count() {
	for _, a := range w.allocs() {
		if w.seen[a.ID] || !runsOnce(a.Job) || a.ClientStatus != api.AllocClientStatusComplete || a.DesiredStatus != api.AllocDesiredStatusRun {
			continue
		}
		where := a.Name
		if everywhere(a.Job) {
			where = a.NodeID
		}
		w.mu.Lock()
		w.seen[a.ID] = true
		w.work[fmt.Sprintf("%s of %d, version %d, %s", a.JobID, a.Job.CreateIndex, a.Job.Version, where)]++
		w.mu.Unlock()
	}
}

// settle waits until all is as it must be, and says what is not. With all, everything is of the newest version.
func (w *story) settle(all bool) (bad []string) {
	for end := time.Now().Add(settleMax); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if bad = w.wrong(all); len(bad) == 0 {
			return nil
		}
	}
	return bad
}

// wrong says what is not as it must be.
func (w *story) wrong(all bool) (bad []string) {
	say := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	w.mu.Lock()
	for what, times := range w.work {
		if times > 1 {
			say("%s was done %d times", what, times)
		}
	}
	w.mu.Unlock()
	waits := map[string]bool{}
	for _, e := range call(w, wire.EvalList, &api.EvalListRequest{}).Evaluations {
		if e.Status == api.EvalStatusPending && e.WaitUntil.IsZero() {
			say("evaluation %s of %s is pending", e.ID[:8], e.JobID)
		}
		if e.Status == api.EvalStatusBlocked && e.TriggeredBy == api.TriggerMaxPlans {
			say("evaluation %s of %s is to be tried again", e.ID[:8], e.JobID)
		}
		waits[e.JobID] = waits[e.JobID] || e.Status == api.EvalStatusBlocked
	}
	jobs, of := map[string]*api.Job{}, map[string][]*api.Allocation{}
	for _, j := range w.jobs() {
		jobs[j.ID] = j
	}
	for _, a := range w.allocs() {
		j := jobs[a.JobID]
		wanted := j != nil && !j.Stop && a.Job.CreateIndex == j.CreateIndex && a.DesiredStatus == api.AllocDesiredStatusRun
		switch {
		case wanted && runsOnce(j) && !a.ClientTerminal():
			say("allocation %s of %s is at work", a.ID[:8], a.JobID) // its room will be free
		case wanted:
			of[a.JobID] = append(of[a.JobID], a)
		case !a.ClientTerminal():
			say("allocation %s of %s runs, and nobody wants it", a.ID[:8], a.JobID)
		}
	}
	for id, j := range jobs {
		if !j.Stop && !waits[id] {
			if why := w.wrongWith(j, of[id], all); why != "" {
				say("%s: %s", id, why)
			}
		}
	}
	return bad
}

// wrongWith says what is wrong with the wanted allocations of a job that waits for no room.
func (w *story) wrongWith(j *api.Job, allocs []*api.Allocation, all bool) string {
	halted := false
	if d := call(w, wire.JobDeployment, &api.JobRequest{JobID: j.ID}).Deployment; d != nil && d.JobCreateIndex == j.CreateIndex {
		halted = d.Status != api.DeploymentStatusSuccessful
		if all && halted && d.JobVersion == j.Version {
			return fmt.Sprintf("its deployment is %s: %s", d.Status, d.StatusDescription)
		}
	}
	runs, done, worked := map[string]int{}, 0, map[string]bool{}
	has := 0
	for _, a := range allocs {
		switch a.ClientStatus {
		case api.AllocClientStatusRunning:
			if runs[a.NodeID]++; everywhere(j) && runs[a.NodeID] > 1 {
				return "it runs twice on a node"
			}
			if !all || a.Job.Version == j.Version {
				has++
			}
		case api.AllocClientStatusComplete:
			worked[a.NodeID] = true // an older version may have asked for the same
			if a.Job.Version == j.Version {
				done++
			}
		}
	}
	want := j.TaskGroups[0].Count
	if everywhere(j) {
		want = storyNodes
		for _, c := range j.Constraints {
			if c.LTarget == "${meta.half}" {
				want /= 2
			}
		}
	}
	switch {
	case j.Type == api.JobTypeBatch && done != want:
		return fmt.Sprintf("%d of %d done", done, want)
	case j.Type == api.JobTypeSysbatch && len(worked) < want:
		return fmt.Sprintf("done on %d of %d nodes", len(worked), want)
	case !runsOnce(j) && has != want && !halted:
		return fmt.Sprintf("%d of %d run", has, want)
	}
	return ""
}

// asleep evaluates all jobs of a server where all is quiet, and says what was placed or stopped only then. What is to be
// looked at later, or is being rolled out, is left out: its time may come now.
func (w *story) asleep() (bad []string) {
	was := map[string]*api.Allocation{}
	for _, a := range w.allocs() {
		was[a.ID] = a
	}
	later := map[string]bool{}
	for _, e := range call(w, wire.EvalList, &api.EvalListRequest{}).Evaluations {
		later[e.JobID] = later[e.JobID] || e.Status == api.EvalStatusPending && !e.WaitUntil.IsZero()
	}
	byHand := map[string]bool{}
	for _, j := range w.jobs() {
		d := call(w, wire.JobDeployment, &api.JobRequest{JobID: j.ID}).Deployment
		later[j.ID] = later[j.ID] || d != nil && d.Status == api.DeploymentStatusRunning
		byHand[call(w, wire.JobEvaluate, &api.JobEvaluateRequest{JobID: j.ID}).EvalID] = true
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		pending := func(e *api.Evaluation) bool { return e.Status == api.EvalStatusPending && e.WaitUntil.IsZero() }
		if !slices.ContainsFunc(call(w, wire.EvalList, &api.EvalListRequest{}).Evaluations, pending) {
			break
		}
	}
	for _, a := range w.allocs() {
		switch old := was[a.ID]; {
		case later[a.JobID]:
		case old == nil && byHand[a.EvalID]:
			bad = append(bad, fmt.Sprintf("allocation %s of %s was placed on %s only when the job was evaluated by hand", a.ID[:8], a.JobID, a.NodeName))
		case old != nil && old.DesiredStatus != a.DesiredStatus:
			bad = append(bad, fmt.Sprintf("allocation %s of %s is to %s only since the job was evaluated by hand", a.ID[:8], a.JobID, a.DesiredStatus))
		}
	}
	return bad
}

// history tells what there is of a job.
func (w *story) history(id string) {
	r := api.JobRequest{JobID: id}
	for _, d := range call(w, wire.JobDeployments, &r).Deployments {
		w.tell("deployment %s of version %d: %s, %s, %+v", d.ID[:8], d.JobVersion, d.Status, d.StatusDescription, d.TaskGroups["g"])
	}
	for _, a := range w.allocs() {
		if a.JobID == id {
			w.tell("allocation %s of version %d on %s: to %s, %s, %d to %d, deployment %.8s %+v", a.ID[:8], a.Job.Version, a.NodeName, a.DesiredStatus, a.ClientStatus, a.CreateIndex, a.ModifyIndex, a.DeploymentID, a.DeploymentStatus)
		}
	}
	for _, e := range call(w, wire.EvalList, &api.EvalListRequest{JobID: id}).Evaluations {
		w.tell("evaluation %s by %s of %.8s: %s, %s, snapshot %d, %d to %d, failed %v", e.ID[:8], e.TriggeredBy, e.NodeID, e.Status, e.StatusDescription, e.SnapshotIndex, e.CreateIndex, e.ModifyIndex, e.FailedTGAllocs != nil)
	}
}
