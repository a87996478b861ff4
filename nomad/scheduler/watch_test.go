package scheduler_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// done plans for the evaluation and stores what comes of it.
func (c *cluster) done(j *api.Job, e *api.Evaluation) (again *api.Evaluation, news []*api.Evaluation) {
	o := c.run(j, func(planned *api.Evaluation) { *planned = *e })
	all := scheduler.Done(e, o, c.index, c.now, c.id)
	c.write(func(tx *state.Txn) {
		for _, e := range all {
			next := *e
			tx.PutEval(&next)
		}
	})
	return all[len(all)-1], all[:len(all)-1]
}

func (c *cluster) registered(j *api.Job) *api.Evaluation {
	c.register(j)
	return &api.Evaluation{
		ID: c.id(), Namespace: "default", JobID: j.ID, Type: j.Type, Priority: 50, TriggeredBy: api.TriggerJobRegister,
		Status: api.EvalStatusPending,
	}
}

func full(j *api.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 9000 }

func TestOneEvaluationWaitsForEachFullNode(t *testing.T) {
	c := newCluster(t)
	const nodes = 40
	c.nodes(nodes)
	j := job("s", api.JobTypeSystem, 1, full)
	first, waiting := c.done(j, c.registered(j))
	if len(waiting) != nodes || first.BlockedEval == "" || waiting[0].FailedTGAllocs["g"] == nil {
		t.Fatalf("%d wait for %d nodes: %+v", len(waiting), nodes, first)
	}
	woken := *waiting[3]
	again, news := c.done(j, &woken)
	if len(news) != 0 || again.ID != woken.ID || again.Status != api.EvalStatusBlocked || again.NodeID != woken.NodeID {
		t.Errorf("woken for one node: %d new, %+v", len(news), again)
	}
	c.node("late")
	later := c.registered(j)
	later.TriggeredBy, later.NodeID = api.TriggerNodeUpdate, "late"
	if again, news = c.done(j, later); len(news) != 1 || news[0].NodeID != "late" || again.BlockedEval != news[0].ID {
		t.Errorf("another node is full: %d new", len(news))
	}
	if again, news = c.done(j, c.registered(j)); len(news) != 0 || again.BlockedEval == "" || again.Status != api.EvalStatusComplete {
		t.Errorf("nothing changed: %d new, %+v", len(news), again)
	}
}

func TestAWokenEvaluationSeesToNodesThatNobodyWatches(t *testing.T) {
	c := newCluster(t)
	c.nodes(3)
	j := job("s", api.JobTypeSystem, 1, full)
	_, waiting := c.done(j, c.registered(j))
	c.write(func(tx *state.Txn) { tx.DeleteEval(waiting[1].ID); tx.DeleteEval(waiting[2].ID) })
	woken := *waiting[0]
	again, news := c.done(j, &woken)
	if again.Status != api.EvalStatusBlocked || len(news) != 1 || news[0].NodeID != "" {
		t.Errorf("%+v, %d new", again, len(news))
	}
}

func TestAWatcherThatIsAboutToBeCancelledWatchesNothing(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	j := job("s", api.JobTypeSystem, 1, full)
	c.done(j, c.registered(j))
	small := job("s", api.JobTypeSystem, 1)
	if e, _ := c.done(small, c.registered(small)); !e.PlacedAll() {
		t.Fatalf("%+v", e)
	}
	if _, news := c.done(j, c.registered(j)); len(news) != 2 {
		t.Errorf("%d wait for two nodes", len(news))
	}
}

func TestManyFullNodesShareOneEvaluation(t *testing.T) {
	c := newCluster(t)
	c.nodes(65)
	j := job("s", api.JobTypeSystem, 1, full)
	_, waiting := c.done(j, c.registered(j))
	if len(waiting) != 1 || waiting[0].NodeID != "" || !waiting[0].EscapedComputedClass {
		t.Fatalf("%d wait", len(waiting))
	}
	again, news := c.done(j, waiting[0])
	if len(news) != 0 || again.ID != waiting[0].ID || again.Status != api.EvalStatusBlocked {
		t.Errorf("%d new, %s", len(news), fmt.Sprint(again))
	}
}

// Who waits for a node and was never told of a group that has no capacity there now does not wait for that group.
func TestAWatcherOfOtherGroupsIsReplaced(t *testing.T) {
	c := newCluster(t)
	c.nodes(2)
	c.done(job("s", api.JobTypeSystem, 1, full), c.registered(job("s", api.JobTypeSystem, 1, full)))
	two := job("s", api.JobTypeSystem, 1, func(j *api.Job) {
		h := *j.TaskGroups[0]
		h.Name, h.Tasks = "h", []*api.Task{{Name: "t", Driver: "mock", Resources: &api.Resources{CPU: 9000, MemoryMB: 10}}}
		j.TaskGroups = append(j.TaskGroups, &h)
	})
	_, news := c.done(two, c.registered(two))
	if len(news) != 2 || news[0].NodeID == "" || news[0].FailedTGAllocs["h"] == nil {
		t.Fatalf("%d wait for two nodes on which another group is refused", len(news))
	}
	if _, news = c.done(two, c.registered(two)); len(news) != 0 {
		t.Errorf("%d more", len(news))
	}
}
