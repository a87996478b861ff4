package model_test

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// livingOn are the allocations that live on a node, of one kind of job or of all.
func livingOn(tx *state.Txn, node, kind string) (out []*api.Allocation) {
	for a := range tx.AllocsByNode(node) {
		if lives(a) && (kind == "" || a.Job.Type == kind) {
			out = append(out, a)
		}
	}
	return out
}

// cutOff keeps a node from the servers for a while that they do not notice: it ends what is not to run on alone.
func cutOff(node string) step {
	return step{"cut off " + node, func(w *world) error {
		if !onLivingNode(w.store.Read(), &api.Allocation{NodeID: node}) {
			return nil
		}
		for _, a := range livingOn(w.store.Read(), node, "") {
			if d := a.Job.Group(a.TaskGroup).Disconnect; d == nil || d.StopOnClientAfter == 0 {
				continue
			}
			w.ended[a.ID] = true
			states := ended(false)
			states["t"].Events = []*api.TaskEvent{{Type: api.EventStarted}, {Type: api.EventKilling}, {Type: api.EventKilled}}
			w.report(node, &api.Allocation{ID: a.ID, ClientStatus: api.AllocClientStatusComplete, TaskStates: states, DeploymentID: a.DeploymentID})
		}
		return nil
	}}
}

// pause stops or resumes the handing out of evaluations.
func (w *world) pause(off bool) {
	tx := w.store.Write(w.store.Read().Index()+1, time.Now())
	c := *tx.SchedulerConfig()
	c.PauseEvalBroker = off
	tx.PutSchedulerConfig(&c)
	tx.Commit()
}

// together does steps of which the evaluations are handed out when all are done.
func together(steps ...step) step {
	name := "together"
	for _, s := range steps {
		name += ", " + s.name
	}
	return step{name, func(w *world) error {
		w.pause(true)
		defer w.pause(false)
		var errs []error
		for _, s := range steps {
			errs = append(errs, s.do(w))
		}
		return errors.Join(errs...)
	}}
}

// bothDown lets two nodes go down within some seconds, which one evaluation sees together.
func bothDown(first, second string) step {
	rest := step{"some seconds", func(*world) error {
		time.Sleep(3 * time.Second)
		return nil
	}}
	then := step{"node down " + second, func(w *world) error {
		if w.store.Read().Node(second) == nil {
			return nil
		}
		return nodeDown(second).do(w)
	}}
	return together(nodeDown(first), rest, then)
}

// movedTooLate drains a node, and batch work there is finished just before the plan that moves it is written.
func movedTooLate(node string) step {
	return step{"moved too late " + node, func(w *world) error {
		if !onLivingNode(w.store.Read(), &api.Allocation{NodeID: node}) {
			return nil
		}
		w.log.meanwhile(func(p *plan.Apply) bool {
			hit := false
			for _, a := range livingOn(w.store.Read(), node, api.JobTypeBatch) {
				for _, e := range p.Plans {
					if e.JobID == a.JobID {
						hit = true
						w.ended[a.ID] = true
						w.report(node, &api.Allocation{ID: a.ID, ClientStatus: api.AllocClientStatusComplete, TaskStates: ended(false)})
					}
				}
			}
			return hit
		})
		return drain(node).do(w)
	}}
}

// closedMeanwhile makes a node ineligible just before a plan of the step is written.
func closedMeanwhile(node string, s step) step {
	return step{fmt.Sprintf("%s is closed while: %s", node, s.name), func(w *world) error {
		w.log.meanwhile(func(*plan.Apply) bool {
			w.closed[node] = true
			if err := eligible(node, false).do(w); err != nil {
				w.t.Error(err)
			}
			return true
		})
		return s.do(w)
	}}
}

// outOfSight disconnects a node for some seconds. What may return is replaced; when the node is back it has finished.
func outOfSight(node string, up step) step {
	return step{"out of sight " + node, func(w *world) error {
		tx := w.store.Read()
		if !onLivingNode(tx, &api.Allocation{NodeID: node}) {
			return nil
		}
		for _, a := range livingOn(tx, node, "") {
			w.ended[a.ID] = true
		}
		if err := w.propose(&nodes.SetStatus{NodeID: node, Status: api.NodeStatusDisconnected, Missed: true, Seed: uuid.NewString()}); err != nil {
			return err
		}
		for range 5 {
			synctest.Wait()
			if err := w.legal(w.store.Read()); err != nil {
				return err
			}
			w.follow()
			time.Sleep(time.Second)
		}
		tx = w.store.Read()
		if err := w.propose(&nodes.SetStatus{NodeID: node, Status: api.NodeStatusReady, Seed: uuid.NewString()}); err != nil {
			return err // its heartbeat: only then are its reports taken
		}
		for a := range tx.AllocsByNode(node) {
			switch d := a.Job.Group(a.TaskGroup).Disconnect; {
			case a.ClientStatus != api.AllocClientStatusUnknown || a.DesiredStatus != api.AllocDesiredStatusRun:
			case d != nil && d.LostAfter > 0:
				w.report(node, &api.Allocation{ID: a.ID, ClientStatus: api.AllocClientStatusComplete, TaskStates: ended(false)})
			default: // it runs on
				delete(w.ended, a.ID)
			}
		}
		return up.do(w)
	}}
}
