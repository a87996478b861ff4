package plan_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// slow is a log that commits when it is told to, and fails when it is told to.
type slow struct {
	fsm.Proposer
	entries chan int
	verdict chan error
}

func (s *slow) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	a, ok := cmd.(*plan.Apply)
	if !ok {
		return fsm.Result{}, errors.New("not a plan")
	}
	select {
	case s.entries <- len(a.Plans):
	case <-ctx.Done():
		return fsm.Result{}, ctx.Err()
	}
	if err := <-s.verdict; err != nil {
		return fsm.Result{}, err
	}
	return s.Proposer.Propose(ctx, cmd)
}

// sluggish is a world whose log is slow.
func sluggish(t *testing.T, c plan.Config) (*world, *slow) {
	w := newWorld(t)
	log := &slow{w.raft, make(chan int), make(chan error)}
	fleets := plan.NewFleetCache(w.store)
	c.State, c.Raft, c.FleetCache, c.Log = w.store, log, fleets, hclog.NewNullLogger()
	w.applier = plan.NewApplier(c)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = fleets.Run(ctx) })
	running.Go(func() { _ = w.applier.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w, log
}

func (w *world) later(p *plan.Submission) <-chan *plan.Outcome {
	done := make(chan *plan.Outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		out, err := w.applier.Submit(ctx, *p)
		if err != nil {
			out = nil
		}
		done <- out
	}()
	return done
}

// What is on its way counts for the next plan; what failed on its way does not.
func TestNextEntryIsVerifiedOnTopOfTheOneUnderWay(t *testing.T) {
	for name, verdict := range map[string]error{"committed": nil, "failed": fault.New(fault.Unavailable, "disk")} {
		t.Run(name, func(t *testing.T) {
			w, log := sluggish(t, plan.Config{})
			j := w.job("j", false)
			first := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "a", "n1", 700))})
			<-log.entries
			second := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "b", "n1", 700))})
			log.verdict <- verdict
			<-log.entries
			log.verdict <- nil
			a, b := <-first, <-second
			if committed := verdict == nil; (a != nil) != committed || b == nil || b.Whole == committed {
				t.Fatalf("outcomes %+v and %+v", a, b)
			}
		})
	}
}

func TestPlansThatWaitTogetherShareAnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := sluggish(t, plan.Config{})
		j := w.job("j", false)
		outs := []<-chan *plan.Outcome{w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "a0", "n1", 10))})}
		<-log.entries
		for i := range 8 {
			outs = append(outs, w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, fmt.Sprint("b", i), "n2", 10))}))
		}
		synctest.Wait() // now all of them wait
		entries := 1
		for done := 0; done < len(outs); entries++ {
			log.verdict <- nil
			for done < len(outs) {
				select {
				case out := <-outs[done]:
					if out == nil || !out.Whole {
						t.Fatalf("outcome %+v", out)
					}
					done++
					continue
				case <-log.entries:
				}
				break
			}
		}
		if entries > 8 {
			t.Errorf("%d entries for 9 plans", entries)
		}
	})
}

func TestJobsThatLoseAllocationsAreEvaluated(t *testing.T) {
	w := newWorld(t)
	low, high := w.job("low", false), w.job("high", false)
	w.submit(planOf(low, nil, alloc(low, "victim", "n1", 900), alloc(low, "spared", "n2", 900)))
	p := planOf(high, nil, alloc(high, "winner", "n1", 900), alloc(high, "loser", "n2", 2000))
	p.NodePreemptions = map[string][]*api.Allocation{}
	for node, id := range map[string]string{"n1": "victim", "n2": "spared"} {
		v := *w.store.Read().Alloc(id)
		v.Job, v.PreemptedByAllocation = nil, "winner"
		p.NodePreemptions[node] = []*api.Allocation{&v}
	}
	if out := w.submit(p); out.Whole || len(out.RejectedNodes) != 1 {
		t.Fatalf("outcome %+v", out.PlanResult)
	}
	tx := w.store.Read()
	if v := tx.Alloc("victim"); v.DesiredStatus != api.AllocDesiredStatusEvict || v.PreemptedByAllocation != "winner" {
		t.Errorf("victim %+v", v)
	}
	if s := tx.Alloc("spared"); s.DesiredStatus != api.AllocDesiredStatusRun {
		t.Errorf("evicted for a placement that was refused: %+v", s)
	}
	found := 0
	for e := range tx.EvalsByJob("default", "low") {
		if e.TriggeredBy == api.TriggerPreemption && e.Status == api.EvalStatusPending && e.Type == low.Type {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d evaluations of the job that lost", found)
	}
}

func TestNodeWithTooManyRejectionsIsTakenOut(t *testing.T) {
	out := make(chan string, 10)
	w, log := sluggish(t, plan.Config{
		Rejections: plan.Rejections{Enabled: true, Threshold: 3, Window: time.Minute},
		Ineligible: func(_ context.Context, node string) error { out <- node; return nil },
	})
	j := w.job("j", false)
	for i := range 7 {
		done := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, fmt.Sprint("a", i), "n1", 5000))})
		<-log.entries
		log.verdict <- nil
		if o := <-done; o == nil || o.Whole {
			t.Fatalf("outcome %+v", o)
		}
		if want := (i + 1) / 3; len(out) != want {
			t.Fatalf("taken out %d times after %d rejections", len(out), i+1)
		}
	}
	if n := <-out; n != "n1" {
		t.Errorf("%s was taken out", n)
	}
}

func TestPlanThatIsGivenUpIsNotCommittedLater(t *testing.T) {
	w, log := sluggish(t, plan.Config{})
	j := w.job("j", false)
	first := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "a", "n1", 10))})
	<-log.entries
	second := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "b", "n1", 10))})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	late := make(chan error, 1)
	go func() {
		_, err := w.applier.Submit(ctx, plan.Submission{Plan: planOf(j, nil, alloc(j, "late", "n1", 10))})
		late <- err
	}()
	log.verdict <- nil
	<-log.entries
	log.verdict <- nil
	<-first
	<-second
	var err error
	for open := true; open; {
		select {
		case err = <-late:
			open = false
		case <-log.entries:
			log.verdict <- nil
		}
	}
	if placed := w.store.Read().Alloc("late") != nil; placed != (err == nil) {
		t.Errorf("placed %v, but the answer was %v", placed, err)
	}
}

func TestTheFleetDoesNotWaitForARowThatCameAndWent(t *testing.T) {
	s := state.New()
	r := plan.NewFleetCache(s)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() { _ = r.Run(ctx) }()
	write := func(index uint64, fn func(*state.Txn)) {
		tx := s.Write(index, time.Unix(0, 0))
		fn(tx)
		tx.Commit()
	}
	write(2, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "n"}) })
	if _, err := r.Fleet(ctx); err != nil {
		t.Fatal(err)
	}
	write(3, func(tx *state.Txn) { tx.PutNode(&api.Node{ID: "short"}); tx.DeleteNode("short") })
	if _, err := r.Fleet(ctx); err != nil {
		t.Errorf("the fleet does not come: %v", err)
	}
}

func TestTheFleetKnowsANewPriority(t *testing.T) {
	s := state.New()
	r := plan.NewFleetCache(s)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() { _ = r.Run(ctx) }()
	for i, priority := range []int{50, 10} {
		tx := s.Write(uint64(i+2), time.Unix(0, 0))
		tx.PutNode(&api.Node{ID: "n", NodeResources: &api.NodeResources{}})
		j := &api.Job{ID: "j", Namespace: "default", Priority: priority, TaskGroups: []*api.TaskGroup{{Name: "g"}}}
		a := alloc(j, "a", "n", 100)
		a.Job = j
		if old := tx.Alloc("a"); old != nil {
			a.AllocatedResources = old.AllocatedResources
		}
		tx.PutAlloc(a)
		tx.Commit()
		f, err := r.Fleet(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range f.Row(f.Find("n")).Loads() {
			if l.Priority != priority {
				t.Errorf("priority %d, want %d", l.Priority, priority)
			}
		}
	}
}

// A plan that is dropped as a whole evicts nobody: those that it wanted to evict count for the next plan of the entry.
func TestDroppedPlanFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := sluggish(t, plan.Config{})
		low, high, third := w.job("low", false), w.job("high", false), w.job("third", false)
		submit := func(p *api.Plan) <-chan *plan.Outcome { return w.later(&plan.Submission{Plan: p}) }
		first := submit(planOf(low, nil, alloc(low, "victim", "n1", 900)))
		<-log.entries
		log.verdict <- nil
		<-first
		w.put(func(tx *state.Txn) {
			a := *tx.Alloc("victim")
			a.ClientStatus = api.AllocClientStatusRunning
			tx.PutAlloc(&a)
		})
		blocker := submit(planOf(low, nil, alloc(low, "x", "n2", 10))) // the others gather behind it
		<-log.entries
		p := planOf(high, nil, alloc(high, "winner", "n1", 900), alloc(high, "loser", "n2", 2000))
		p.AllAtOnce, p.Priority = true, 90
		v := *w.store.Read().Alloc("victim")
		v.Job, v.PreemptedByAllocation = nil, "winner"
		p.NodePreemptions = map[string][]*api.Allocation{"n1": {&v}}
		a := submit(p)
		synctest.Wait() // it is verified before the next
		b := submit(planOf(third, nil, alloc(third, "late", "n1", 900)))
		synctest.Wait()
		log.verdict <- nil
		<-blocker
		for done := 0; done < 2; {
			select {
			case <-log.entries:
				log.verdict <- nil
			case <-a:
				done++
			case <-b:
				done++
			case <-time.After(time.Minute):
				t.Fatal("stuck")
			}
		}
		sum := int64(0)
		for a := range w.store.Read().AllocsByNode("n1") {
			if !a.Terminal() {
				sum += a.AllocatedResources.Tasks["t"].Cpu.CpuShares
			}
		}
		if sum > 1000 {
			t.Errorf("n1 has 1000 MHz, and %d MHz are placed there", sum)
		}
	})
}

// Who is told that a drain is over may switch the machine off: nothing comes there after that.
func TestNothingIsPlacedOnANodeThatWasDrainedMeanwhile(t *testing.T) {
	w, log := sluggish(t, plan.Config{})
	j := w.job("j", false)
	first := w.later(&plan.Submission{Plan: planOf(j, nil, alloc(j, "a", "n1", 700))})
	<-log.entries // it is verified
	w.put(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.SchedulingEligibility = api.NodeSchedulingIneligible
		n.LastDrain = &api.DrainMetadata{Status: api.DrainStatusComplete}
		tx.PutNode(&n)
	})
	log.verdict <- nil
	if out := <-first; out == nil || out.Whole {
		t.Error("an allocation is placed on a node whose drain is complete")
	}
}
