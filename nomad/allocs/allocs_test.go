package allocs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(allocs.Commands) }

// counted counts the proposals and can hold them.
type counted struct {
	fsm.Proposer
	n    atomic.Int32
	hold chan struct{}
}

func (c *counted) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	c.n.Add(1)
	if c.hold != nil {
		<-c.hold
	}
	return c.Proposer.Propose(ctx, cmd)
}

func open(t *testing.T) (*allocs.Service, *state.Store, *counted) {
	t.Helper()
	s := state.New()
	c := &counted{Proposer: fsm.NewLocal(s, registry())}
	return allocs.New(allocs.Config{Log: hclog.NewNullLogger(), State: s, Raft: c}), s, c
}

func place(s *state.Store, id, node string) {
	j := &api.Job{
		ID: "web", Namespace: "default", Type: api.JobTypeService, Priority: 50, Version: 3,
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t"}}}},
	}
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutJob(j)
	tx.PutAlloc(&api.Allocation{
		ID: id, Namespace: "default", JobID: "web", Job: j, TaskGroup: "g", NodeID: node, Name: "web.g[0]",
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending, AllocModifyIndex: tx.Index(),
	})
	tx.Commit()
}

func report(id, status string) *api.Allocation {
	return &api.Allocation{
		ID: id, ClientStatus: status, DesiredStatus: "nonsense", JobID: "other",
		TaskStates: map[string]*api.TaskState{"t": {State: api.TaskStateRunning}},
	}
}

func TestNodeReportsItsHalfOnly(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	before := s.Read().Alloc("a1")
	out, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report("a1", "running"), report("gone", "running")}})
	if err != nil || out.Index == 0 {
		t.Fatalf("update: %+v %v", out, err)
	}
	a := s.Read().Alloc("a1")
	if a.ClientStatus != "running" || a.TaskStates["t"].State != "running" || a.DesiredStatus != "run" || a.JobID != "web" || a.Job == nil ||
		a.AllocModifyIndex != before.AllocModifyIndex || a.ModifyIndex != out.Index {
		t.Errorf("alloc %+v", a)
	}
	if sum := s.Read().JobSummary("default", "web").Summary["g"]; sum.Running != 1 || sum.Starting != 0 {
		t.Errorf("summary %+v", sum)
	}
	if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n2", Allocs: []*api.Allocation{report("a1", "failed")}}); err != nil {
		t.Fatal(err)
	}
	if a := s.Read().Alloc("a1"); a.ClientStatus != "running" {
		t.Errorf("another node moved the allocation to %s", a.ClientStatus)
	}
}

func TestFailureIsEvaluatedOnce(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	place(s, "a2", "n1")
	update := &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report("a1", "failed"), report("a2", "failed")}}
	for range 2 {
		if _, err := r.Update(t.Context(), update); err != nil {
			t.Fatal(err)
		}
	}
	var triggers []string
	for e := range s.Read().EvalsByJob("default", "web") {
		triggers = append(triggers, e.TriggeredBy+" "+e.Status)
	}
	if len(triggers) != 1 || triggers[0] != "alloc-failure pending" {
		t.Errorf("evaluations %v", triggers)
	}
	if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report("a1", "running")}}); err != nil {
		t.Fatal(err)
	}
	if a := s.Read().Alloc("a1"); a.ClientStatus != "failed" {
		t.Errorf("a failed allocation came back as %s", a.ClientStatus)
	}
}

// Who stops an allocation once more, because it is in its shutdown delay, reaches its node, which hears of the desired half.
func TestStopWithoutDelayReachesTheNodeOfWhatIsBeingStopped(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	tx := s.Write(s.Read().Index()+1, time.Now())
	a := *tx.Alloc("a1")
	a.DesiredStatus = api.AllocDesiredStatusStop
	tx.PutAlloc(&a)
	tx.Commit()
	before := s.Read().Alloc("a1").AllocModifyIndex
	if _, err := r.Stop(t.Context(), &api.AllocStopRequest{AllocID: "a1"}); err != nil || s.Read().Alloc("a1").AllocModifyIndex != before {
		t.Errorf("nothing is new for the node: %v", err)
	}
	if _, err := r.Stop(t.Context(), &api.AllocStopRequest{AllocID: "a1", NoShutdownDelay: true}); err != nil || s.Read().Alloc("a1").AllocModifyIndex == before {
		t.Errorf("the node does not hear of it: %v", err)
	}
}

func TestStopMarksAndEvaluates(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	out, err := r.Stop(t.Context(), &api.AllocStopRequest{AllocID: "a1", NoShutdownDelay: true})
	if err != nil {
		t.Fatal(err)
	}
	a, e := s.Read().Alloc("a1"), s.Read().Eval(out.EvalID)
	if !a.DesiredTransition.Migrate || !a.DesiredTransition.NoShutdownDelay || e == nil || e.TriggeredBy != "alloc-stop" || e.JobID != "web" {
		t.Errorf("alloc %+v eval %+v", a.DesiredTransition, e)
	}
	if _, err := r.Stop(t.Context(), &api.AllocStopRequest{AllocID: "x"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := r.Stop(t.Context(), &api.AllocStopRequest{}); !errors.Is(err, fault.Invalid) {
		t.Errorf("no id: %v", err)
	}
}

func TestBadReports(t *testing.T) {
	t.Parallel()
	r, _, _ := open(t)
	for _, bad := range [][]*api.Allocation{nil, {nil}, {{}}, {report("a1", "happy")}} {
		if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: bad}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestReportsThatArriveTogetherShareAnEntry(t *testing.T) {
	t.Parallel()
	r, s, c := open(t)
	const n = 50
	for i := range n {
		place(s, fmt.Sprintf("a%02d", i), "n1")
	}
	c.hold = make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report(fmt.Sprintf("a%02d", i), "running")}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	c.hold <- struct{}{} // the first entry is under way until here
	close(c.hold)
	wg.Wait()
	running := 0
	for a := range s.Read().Allocs("default") {
		if a.ClientStatus == "running" {
			running++
		}
	}
	if running != n || c.n.Load() > n {
		t.Errorf("%d of %d run after %d entries", running, n, c.n.Load())
	}
	t.Logf("%d reports in %d entries", n, c.n.Load())
}

func TestReads(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	place(s, "b1", "n1")
	list, err := r.List(t.Context(), &api.AllocListRequest{QueryOptions: api.QueryOptions{Prefix: "a"}})
	if err != nil || len(list.Allocs) != 1 || list.Allocs[0].ID != "a1" || list.Allocs[0].Job.Version != 3 {
		t.Errorf("list %+v %v", list, err)
	}
	one, err := r.Get(t.Context(), &api.AllocRequest{AllocID: "a1"})
	if err != nil || one.Alloc == nil || one.Alloc.Job == nil {
		t.Errorf("get %+v %v", one, err)
	}
}

// What a row leaves out can be asked for; what no allocation has is a mistake.
func TestFilterSeesWholeAllocations(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	place(s, "b1", "n2")
	for expression, want := range map[string]int{
		`NodeID == "n2"`: 1, `Job.Version == 3`: 2, `Metrics is nil`: 2, `DesiredTransition.Migrate is nil`: -1, `Nope is nil`: -1,
	} {
		list, err := r.List(t.Context(), &api.AllocListRequest{QueryOptions: api.QueryOptions{Filter: expression}})
		switch {
		case want < 0 && fault.Of(err) != fault.Invalid, want >= 0 && (err != nil || len(list.Allocs) != want):
			t.Errorf("%s: %+v %v", expression, list, err)
		}
	}
}

// A node that heard no server for a while ended batch work by itself, and was never found down: it is done elsewhere.
func TestWorkThatANodeEndedByItselfIsEvaluated(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSysbatch} {
		if n := evaluationsOfAnEnd(t, kind, api.EventStarted, api.EventKilling, api.EventKilled); n == 0 {
			t.Errorf("%s: nobody looks after what the node ended", kind)
		}
	}
}

// A task that is killed because the main task has ended did its work.
func TestWorkThatEndedWithItsSidecarIsOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{api.JobTypeBatch, api.JobTypeSysbatch} {
		if n := evaluationsOfAnEnd(t, kind, api.EventStarted, api.EventMainDead, api.EventKilling, api.EventKilled); n != 0 {
			t.Errorf("%s: %d evaluations", kind, n)
		}
	}
}

// evaluationsOfAnEnd is how many evaluations there are when an allocation that stops without servers ends well after such events.
func evaluationsOfAnEnd(t *testing.T, kind string, events ...string) int {
	t.Helper()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	edit := s.Write(s.Read().Index()+1, time.Now())
	j := *edit.Job("default", "web")
	j.Type = kind
	j.TaskGroups = []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t"}}, Disconnect: &api.DisconnectStrategy{StopOnClientAfter: time.Second, Replace: true}}}
	a := *edit.Alloc("a1")
	a.Job, a.ClientStatus = &j, api.AllocClientStatusRunning
	edit.PutJob(&j)
	edit.PutAlloc(&a)
	edit.Commit()
	end := report("a1", api.AllocClientStatusComplete)
	end.TaskStates = map[string]*api.TaskState{"t": {State: api.TaskStateDead, FinishedAt: time.Now()}}
	for _, kind := range events {
		end.TaskStates["t"].Events = append(end.TaskStates["t"].Events, &api.TaskEvent{Type: kind})
	}
	if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{end}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range s.Read().EvalsByJob("default", "web") {
		n++
	}
	return n
}
