package broker_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/broker"
)

func blocked(id, job string, snapshot uint64, change ...func(*api.Evaluation)) *api.Evaluation {
	e := eval(id, job, change...)
	e.Status, e.SnapshotIndex = api.EvalStatusBlocked, snapshot
	return e
}

func ids(evals []*api.Evaluation) map[string]bool {
	m := map[string]bool{}
	for _, e := range evals {
		m[e.ID] = e.Status == api.EvalStatusPending
	}
	return m
}

func TestOnlyClassesThatHelpWake(t *testing.T) {
	b := broker.NewBlocked(nil)
	b.Block(blocked("refused", "a", 5, func(e *api.Evaluation) { e.ClassEligibility = map[string]bool{"c": false} }))
	b.Block(blocked("eligible", "b", 5, func(e *api.Evaluation) { e.ClassEligibility = map[string]bool{"c": true} }))
	b.Block(blocked("escaped", "c", 5, func(e *api.Evaluation) { e.EscapedComputedClass = true }))
	b.Block(blocked("onenode", "d", 5, func(e *api.Evaluation) { e.NodeID = "n2" }))
	got := ids(b.NodeFreed("n1", "c", 6))
	if len(got) != 2 || !got["eligible"] || !got["escaped"] {
		t.Fatalf("woke %v", got)
	}
	if got = ids(b.NodeFreed("n2", "unseen", 7)); len(got) != 2 || !got["refused"] || !got["onenode"] {
		t.Fatalf("woke %v", got)
	}
	if n, _, _ := b.Count(); n != 0 {
		t.Fatal("woken evaluations stay filed")
	}
}

func TestExactVolumeWakes(t *testing.T) {
	b := broker.NewBlocked(nil)
	needs := func(r string) func(*api.Evaluation) {
		return func(e *api.Evaluation) { e.MissingNonNodeResources = []string{r} }
	}
	b.Block(blocked("v", "a", 5, needs("csi-volume:default:v")))
	b.Block(blocked("w", "b", 5, needs("csi-volume:default:w")))
	if got := ids(b.NeedMet("csi-volume:default:v", 6)); len(got) != 1 || !got["v"] {
		t.Fatalf("woke %v", got)
	}
}

func TestEventAfterTheSnapshotIsNotLost(t *testing.T) {
	b := broker.NewBlocked(nil)
	b.NodeFreed("n1", "c", 10)
	b.NeedMet("csi-volume:default:v", 20)
	for _, c := range []struct {
		e      *api.Evaluation
		missed bool
	}{
		{blocked("1", "a", 9), true},
		{blocked("2", "b", 10), false},
		{blocked("3", "c", 9, func(e *api.Evaluation) { e.ClassEligibility = map[string]bool{"c": false} }), false},
		{blocked("4", "d", 19, func(e *api.Evaluation) { e.MissingNonNodeResources = []string{"csi-volume:default:v"} }), true},
		{blocked("5", "e", 9, func(e *api.Evaluation) { e.NodeID = "n1" }), true},
		{blocked("6", "f", 9, func(e *api.Evaluation) { e.NodeID = "n2" }), false},
	} {
		if missed, _ := b.Block(c.e); missed != c.missed {
			t.Errorf("evaluation %s: missed %v", c.e.ID, missed)
		}
	}
}

func TestOneBlockedEvaluationPerJob(t *testing.T) {
	b := broker.NewBlocked(nil)
	b.Block(blocked("old", "a", 5, index(1)))
	if _, duplicate := b.Block(blocked("new", "a", 5, index(2))); duplicate == nil || duplicate.ID != "old" {
		t.Fatalf("duplicate %v", duplicate)
	}
	if _, duplicate := b.Block(blocked("older", "a", 5, index(1))); duplicate == nil || duplicate.ID != "older" {
		t.Fatalf("duplicate %v", duplicate)
	}
	if got := b.Superseded("default", "a", 5); len(got) != 0 {
		t.Fatalf("superseded %v", got)
	}
	got := b.Superseded("default", "a", 6)
	if n, _, _ := b.Count(); len(got) != 1 || n != 0 {
		t.Fatalf("superseded %v", got)
	}
}

func TestOnlyNodesWithRoomWake(t *testing.T) {
	capacity := map[string]bool{"n1": true}
	b := broker.NewBlocked(func(_ *api.Evaluation, node string) bool { return capacity[node] })
	b.Block(blocked("any", "a", 5))
	b.Block(blocked("one", "b", 5, func(e *api.Evaluation) { e.NodeID = "n2" }))
	if got := ids(b.NodeFreed("n2", "c", 6)); len(got) != 0 {
		t.Fatalf("woke %v", got)
	}
	if missed, _ := b.Block(blocked("late", "c", 5)); missed {
		t.Fatal("a node without capacity was missed")
	}
	if got := ids(b.NodeFreed("n1", "c", 7)); len(got) != 2 || !got["any"] || !got["late"] {
		t.Fatalf("woke %v", got)
	}
	if missed, _ := b.Block(blocked("later", "d", 6)); !missed {
		t.Fatal("the node with capacity was not missed")
	}
}

func TestWhoWaitsForANodeThatGoesIsWoken(t *testing.T) {
	b := broker.NewBlocked(nil)
	b.Block(blocked("n1", "a", 5, func(e *api.Evaluation) { e.NodeID = "n1" }))
	b.Block(blocked("n2", "a", 5, func(e *api.Evaluation) { e.NodeID = "n2" }))
	if got := ids(b.NodeGone("n1")); len(got) != 1 || !got["n1"] {
		t.Fatalf("woke %v", got)
	}
}

func TestAJobIsWokenByItsOwnAllocations(t *testing.T) {
	b := broker.NewBlocked(func(*api.Evaluation, string) bool { return false })
	b.Block(blocked("ours", "a", 5))
	b.Block(blocked("theirs", "b", 5))
	if got := ids(b.JobFreed("default", "a", 6)); len(got) != 1 || !got["ours"] {
		t.Fatalf("woke %v", got)
	}
	if missed, _ := b.Block(blocked("late", "a", 5)); !missed {
		t.Fatal("what came after the snapshot is lost")
	}
	b.Reset()
	missed, _ := b.Block(blocked("late", "a", 5))
	if n, _, _ := b.Count(); missed || n != 1 {
		t.Fatal("an event of another time counts")
	}
}

func TestQuotaWakesAndNodesDoNot(t *testing.T) {
	b := broker.NewBlocked(nil)
	limited := func(full int) func(*api.Evaluation) {
		return func(e *api.Evaluation) {
			e.QuotaLimitReached = "q"
			e.FailedTGAllocs = map[string]*api.AllocationMetric{"g": {QuotaExhausted: []string{"q: cpu"}, NodesExhausted: full}}
		}
	}
	b.Block(blocked("quota", "a", 5, limited(0)))
	b.Block(blocked("both", "b", 5, limited(1)))
	refused := limited(0)
	b.Block(blocked("refused", "r", 5, func(e *api.Evaluation) { refused(e); e.TriggeredBy = api.TriggerMaxPlans }))
	if got := ids(b.NodeFreed("n1", "c", 6)); len(got) != 2 || !got["both"] || !got["refused"] {
		t.Fatalf("a node woke %v", got)
	}
	if got := ids(b.NeedMet(broker.QuotaResource("other"), 7)); len(got) != 0 {
		t.Fatalf("another quota woke %v", got)
	}
	if got := ids(b.NeedMet(broker.QuotaResource("q"), 8)); len(got) != 1 || !got["quota"] {
		t.Fatalf("the quota woke %v", got)
	}
	if missed, _ := b.Block(blocked("late", "c", 7, limited(0))); !missed {
		t.Error("what the quota freed after the snapshot was missed")
	}
	b.Block(blocked("waits", "d", 8, limited(0)))
	if _, _, n := b.Count(); n != 1 {
		t.Errorf("%d wait for a quota", n)
	}
}
