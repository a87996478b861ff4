package plan_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// shared gives the namespaces a and b a quota of 1000 MHz together, and each a job whose allocations use 400.
func shared(t *testing.T) (w *world, a, b *api.Job) {
	w = newWorld(t)
	w.put(func(tx *state.Txn) {
		tx.PutQuota(&api.QuotaSpec{Name: "q", Limits: []*api.QuotaLimit{{Region: "global", RegionLimit: &api.QuotaResources{CPU: new(1000)}}}})
		for _, ns := range []string{"a", "b"} {
			tx.PutNamespace(&api.Namespace{Name: ns, Quota: "q"})
			tx.PutJob(&api.Job{ID: "j", Namespace: ns, Type: api.JobTypeService, Priority: 50, TaskGroups: []*api.TaskGroup{{
				Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t", Resources: &api.Resources{CPU: 400}}},
			}}})
		}
	})
	return w, w.store.Read().Job("a", "j"), w.store.Read().Job("b", "j")
}

func of(j *api.Job, id, node string) *api.Allocation {
	a := alloc(j, id, node, 400)
	a.Namespace = j.Namespace
	return a
}

func (w *world) uses() (cpu int) {
	for a := range w.store.Read().Allocs("*") {
		if !a.ClientTerminal() {
			cpu += 400
		}
	}
	return cpu
}

// Two plans of two namespaces were made when each found enough of the quota.
func TestParallelPlansDoNotExceedAQuota(t *testing.T) {
	for range 20 {
		w, a, b := shared(t)
		var racing sync.WaitGroup
		plans := []*api.Plan{
			planOf(a, nil, of(a, "a1", "n1"), of(a, "a2", "n2")), planOf(b, nil, of(b, "b1", "n2"), of(b, "b2", "n1")),
		}
		whole := make([]bool, len(plans))
		for i, p := range plans {
			racing.Go(func() {
				out := w.submit(p)
				whole[i] = out.Whole
				for _, why := range out.Reasons {
					if !strings.HasPrefix(why, "quota limit hit: q: cpu exhausted (1200 needed > 1000 limit)") {
						t.Errorf("refused because of %q", why)
					}
				}
			})
		}
		racing.Wait()
		if got := w.uses(); got != 800 || whole[0] == whole[1] {
			t.Fatalf("%d MHz of 1000 are used, whole %v", got, whole)
		}
	}
}

// What a plan stops is its own until the node reports the end; what is lost has ended.
func TestOnlyThePlanItselfUsesWhatItStops(t *testing.T) {
	w, a, b := shared(t)
	w.submit(planOf(a, nil, of(a, "a1", "n1"), of(a, "a2", "n1")))
	stored := func(id string) *api.Allocation { return w.store.Read().Alloc(id) }
	next := of(a, "a3", "n2")
	next.PreviousAllocation = "a1"
	if out := w.submit(planOf(a, []*api.Allocation{stored("a1")}, next)); !out.Whole {
		t.Fatalf("successor was refused: %v", out.Reasons)
	}
	if out := w.submit(planOf(b, nil, of(b, "b1", "n1"))); out.Whole || stored("b1") != nil {
		t.Fatal("another namespace used what still runs")
	}
	lost := *stored("a3")
	lost.ClientStatus = api.AllocClientStatusLost
	w.submit(planOf(a, []*api.Allocation{&lost, stored("a2")}))
	w.put(func(tx *state.Txn) {
		ended := *tx.Alloc("a1")
		ended.ClientStatus = api.AllocClientStatusComplete
		tx.PutAlloc(&ended)
	})
	if out := w.submit(planOf(b, nil, of(b, "b2", "n1"))); !out.Whole {
		t.Errorf("what ended still counts: %v", out.Reasons)
	}
}

// The successor finds no place, so its predecessor stays, and what it keeps is no longer there for the other placement.
func TestPlanWhosePredecessorStaysIsWithinItsQuota(t *testing.T) {
	w, a, _ := shared(t)
	w.submit(planOf(a, nil, of(a, "a1", "n1"), of(a, "a2", "n1")))
	old := w.store.Read().Alloc("a1")
	next := of(a, "a3", "missing")
	next.PreviousAllocation = "a1"
	out := w.submit(planOf(a, []*api.Allocation{old}, of(a, "a4", "n2"), next))
	if out.Whole || w.uses() != 800 || w.store.Read().Alloc("a1").ServerTerminal() {
		t.Errorf("%d MHz are used; %+v", w.uses(), out.PlanResult)
	}
	if why := out.Reasons[""]; !strings.Contains(why, "quota limit hit: q") {
		t.Errorf("reasons %v", out.Reasons)
	}
}
