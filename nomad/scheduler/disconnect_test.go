package scheduler_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func TestSystemAllocationOutOfSightIsNotReplaced(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("sys", api.JobTypeSystem, 1, func(j *api.Job) {
		j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour, Replace: true}
	})
	c.register(j)
	if o := c.run(j); len(placed(o)) != 2 {
		t.Fatalf("placed %d", len(placed(o)))
	}
	c.setRunning("sys")
	var node string
	for _, a := range c.live("sys") {
		node = a.NodeID
	}
	status := func(s string) {
		c.write(func(tx *state.Txn) {
			n := *tx.Node(node)
			n.Status = s
			tx.PutNode(&n)
		})
	}
	status(api.NodeStatusDisconnected)
	o := c.run(j)
	if len(stopped(o)) != 0 {
		t.Fatalf("stopped %d", len(stopped(o)))
	}
	unknown := 0
	for _, a := range c.live("sys") {
		if a.ClientStatus == api.AllocClientStatusUnknown && a.NodeID == node && a.FollowupEvalID != "" {
			unknown++
		}
	}
	if unknown != 1 {
		t.Fatalf("%d are unknown", unknown)
	}
	status(api.NodeStatusReady)
	if o := c.run(j); len(stopped(o))+len(placed(o)) != 0 {
		t.Fatalf("after the return: %d stopped, %d placed", len(stopped(o)), len(placed(o)))
	}
}

// What the node ended by itself was to go on: its successor comes as after a failure.
func TestWhatEndsThoughItShouldNotIsFollowedLikeAFailure(t *testing.T) {
	alone := func(j *api.Job) {
		j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}
		j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Second, Replace: true}
	}
	killed := []*api.TaskEvent{{Type: api.EventStarted}, {Type: api.EventKilling}, {Type: api.EventKilled}}
	for _, c := range []struct {
		name, kind string
		change     func(*api.Job)
		events     []*api.TaskEvent
		migrate    bool
		now, later int
	}{
		{"service", api.JobTypeService, alone, killed, false, 0, 1},
		{"service that exits well", api.JobTypeService, alone, nil, false, 0, 1},
		{"service that is drained meanwhile", api.JobTypeService, alone, killed, true, 1, 1},
		{"batch", api.JobTypeBatch, alone, killed, false, 0, 1},
		{"batch that finished", api.JobTypeBatch, alone, nil, false, 0, 0},
		{"batch whose leader ended", api.JobTypeBatch, alone, []*api.TaskEvent{{Type: api.EventLeaderDead}, {Type: api.EventKilling}}, false, 0, 0},
		{"batch that ran for its time", api.JobTypeBatch, func(j *api.Job) { alone(j); j.TaskGroups[0].MaxRunDuration = time.Second }, killed, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCluster(t)
			n.nodes(2)
			j := job("j", c.kind, 1, c.change)
			n.register(j)
			n.run(j)
			n.each("j", func(a *api.Allocation) {
				ended(a)
				a.DesiredTransition.Migrate = c.migrate
				a.TaskStates["t"].Events, a.TaskStates["t"].FinishedAt = c.events, n.now
				a.CreateTime = n.now.Add(-time.Minute).UnixNano()
			})
			o := n.run(j)
			if len(placed(o)) != c.now {
				t.Errorf("placed %d at once", len(placed(o)))
			}
			n.now = n.now.Add(2 * time.Minute)
			if o := n.run(j); len(placed(o))+c.now != c.later {
				t.Errorf("placed %d later", len(placed(o)))
			}
		})
	}
}

// Work that a node ended by itself because it heard no server is not done, for sysbatch as for batch.
func TestSysbatchThatItsNodeEndedIsNotDone(t *testing.T) {
	for _, kind := range []string{api.JobTypeBatch, api.JobTypeSysbatch} {
		c := newCluster(t)
		c.nodes(1)
		j := job("j", kind, 1, func(j *api.Job) {
			j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}
			j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Second, Replace: true}
		})
		c.register(j)
		c.run(j)
		c.each("j", func(a *api.Allocation) {
			ended(a)
			a.TaskStates["t"].Events = []*api.TaskEvent{{Type: api.EventStarted}, {Type: api.EventKilling}, {Type: api.EventKilled}}
			a.TaskStates["t"].FinishedAt, a.CreateTime = c.now, c.now.Add(-time.Minute).UnixNano()
		})
		c.now = c.now.Add(2 * time.Hour)
		if o := c.run(j); len(placed(o)) != 1 {
			t.Errorf("%s: %d placed", kind, len(placed(o)))
		}
	}
}

// Sidecars end with the work that they are for, and the leader's followers with it: that is no end that a node chose.
func TestWorkThatEndedWithItsSidecarsIsDone(t *testing.T) {
	for _, kind := range []string{api.JobTypeBatch, api.JobTypeSysbatch} {
		for _, reason := range []string{api.EventMainDead, api.EventLeaderDead} {
			c := newCluster(t)
			c.nodes(1)
			j := job("j", kind, 1, func(j *api.Job) {
				j.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "constant"}
				j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Second, Replace: true}
			})
			c.register(j)
			c.run(j)
			c.each("j", func(a *api.Allocation) {
				ended(a)
				a.TaskStates["sidecar"] = &api.TaskState{State: api.TaskStateDead, FinishedAt: c.now, Events: []*api.TaskEvent{
					{Type: api.EventStarted}, {Type: reason}, {Type: api.EventKilling}, {Type: api.EventTerminated}, {Type: api.EventKilled},
				}}
			})
			c.now = c.now.Add(2 * time.Hour)
			if o := c.run(j); len(placed(o))+len(o.FollowUps) != 0 {
				t.Errorf("%s, %s: %d placed again, %d evaluations to come", kind, reason, len(placed(o)), len(o.FollowUps))
			}
		}
	}
}

// Two nodes that go down within five seconds of each other: both allocations that end by themselves are replaced.
func TestEveryAllocationThatEndsByItselfIsFollowedInTime(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("j", api.JobTypeService, 2, func(j *api.Job) {
		j.Constraints = []*api.Constraint{{Operand: api.ConstraintDistinctHosts}}
		j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Minute, Replace: true}
	})
	c.register(j)
	c.run(j)
	c.setRunning("j")
	down := func(id string, at time.Time) {
		c.write(func(tx *state.Txn) {
			n := *tx.Node(id)
			n.Status, n.StatusUpdatedAt = api.NodeStatusDown, at.Unix()
			tx.PutNode(&n)
		})
	}
	down("n0", c.now)
	down("n1", c.now.Add(3*time.Second))
	c.node("spare0")
	c.node("spare1")
	c.now = c.now.Add(3 * time.Second)
	todo := c.run(j).FollowUps
	for len(todo) > 0 { // each when it is due
		e := todo[0]
		todo = todo[1:]
		if e.WaitUntil.After(c.now) {
			c.now = e.WaitUntil
		}
		todo = append(todo, c.run(j, func(x *api.Evaluation) { x.ID, x.TriggeredBy = e.ID, e.TriggeredBy }).FollowUps...)
	}
	for _, a := range c.live("j") {
		if a.ClientStatus == api.AllocClientStatusUnknown {
			t.Errorf("%s on %s is unknown for ever: no evaluation is to come", a.Name, a.NodeID)
		}
	}
}

// A plan that is committed in part takes allocations that are out of sight along, but none of its evaluations.
func TestFollowUpThatWasNotWrittenIsMadeAgain(t *testing.T) {
	for name, disconnect := range map[string]*api.DisconnectStrategy{
		"down":         {StopOnClientAfter: time.Minute, Replace: true},
		"disconnected": {LostAfter: time.Minute, Replace: false},
	} {
		c := newCluster(t)
		c.nodes(1)
		j := job("j", api.JobTypeService, 1, func(j *api.Job) { j.TaskGroups[0].Disconnect = disconnect })
		c.register(j)
		c.run(j)
		c.setRunning("j")
		c.write(func(tx *state.Txn) {
			n := *tx.Node("n0")
			n.Status, n.StatusUpdatedAt = name, c.now.Unix()
			tx.PutNode(&n)
		})
		o := c.run(j)
		if len(o.FollowUps) != 1 {
			t.Fatalf("%s: %d follow-ups", name, len(o.FollowUps))
		}
		c.write(func(tx *state.Txn) { tx.DeleteEval(o.FollowUps[0].ID) }) // as if it had not been written
		if o := c.run(j); len(o.FollowUps) != 1 {
			t.Errorf("%s: nobody comes back to the allocation that is out of sight", name)
		}
	}
}
