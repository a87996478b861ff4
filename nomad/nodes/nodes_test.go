package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/nodes"
	"github.com/open-nomad/open-nomad/nomad/state"
)

func registry() *fsm.Registry { return fsm.NewRegistry(nodes.Commands) }

type fixture struct {
	*nodes.Service
	state *state.Store
	t     *testing.T
}

func open(t *testing.T, beat nodes.Heartbeat) *fixture {
	t.Helper()
	s := state.New()
	return &fixture{state: s, t: t, Service: nodes.New(nodes.Config{
		Log: hclog.NewNullLogger(), State: s, Raft: fsm.NewLocal(s, registry()), Heartbeat: beat,
		Servers: func() []string { return []string{"127.0.0.1:4647"} },
	})}
}

// lead runs the leader loop until the test ends.
func (r *fixture) lead() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("leader loop: %v", err)
		}
	})
}

// awaitLead waits until the leader loop counts nodes.
func (r *fixture) awaitLead() {
	r.t.Helper()
	r.register(node("sample"))
	limit := time.Now().Add(30 * time.Second)
	for !r.Counts("sample") {
		if time.Now().After(limit) {
			r.t.Fatal("the leader loop does not begin")
		}
		runtime.Gosched()
	}
}

func node(id string) *api.Node {
	return &api.Node{
		ID: id, SecretID: "secret of " + id, Name: id, Datacenter: "dc1", HTTPAddr: "10.0.0.1:4646",
		Attributes: map[string]string{"nomad.version": "2.0.6", "os.name": "debian", "unique.hostname": id},
	}
}

func (r *fixture) register(n *api.Node) *api.NodeUpdateResponse {
	r.t.Helper()
	out, err := r.Register(r.t.Context(), &api.NodeRegisterRequest{Node: n})
	if err != nil {
		r.t.Fatalf("register %s: %v", n.ID, err)
	}
	return out
}

func (r *fixture) beat(id, status string) *api.NodeUpdateResponse {
	r.t.Helper()
	out, err := r.Heartbeat(r.t.Context(), &api.NodeHeartbeatRequest{NodeID: id, Status: status})
	if err != nil {
		r.t.Fatalf("heartbeat of %s: %v", id, err)
	}
	return out
}

// await waits until the node looks as wanted.
func (r *fixture) await(what, id string, holds func(*api.Node) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	err := state.Until(ctx, r.state, []state.Key{state.TableKey(state.TableNodes)}, func(tx *state.Txn) bool {
		n := tx.Node(id)
		return n != nil && holds(n)
	})
	if err != nil {
		r.t.Fatalf("%s: %v (node %+v)", what, err, r.state.Read().Node(id))
	}
}

// place stores a job with one allocation on the node.
func (r *fixture) place(kind, id, nodeID string, change ...func(*api.TaskGroup)) *api.Allocation {
	j := &api.Job{
		ID: id, Namespace: "default", Type: kind, Priority: 50, Datacenters: []string{"dc*"},
		TaskGroups: []*api.TaskGroup{{Name: "g", Count: 1, Tasks: []*api.Task{{Name: "t"}}}},
	}
	for _, c := range change {
		c(j.TaskGroups[0])
	}
	a := &api.Allocation{
		ID: "alloc-" + id, Namespace: "default", JobID: id, Job: j, TaskGroup: "g", NodeID: nodeID,
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusRunning,
	}
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	a.AllocModifyIndex = tx.Index()
	tx.PutJob(j)
	tx.PutAlloc(a)
	tx.Commit()
	return a
}

func (r *fixture) jobsOf(evals []string) []string {
	r.t.Helper()
	var jobs []string
	for _, id := range evals {
		e := r.state.Read().Eval(id)
		if e == nil || e.Status != api.EvalStatusPending {
			r.t.Fatalf("evaluation %s: %+v", id, e)
		}
		jobs = append(jobs, e.JobID+" "+e.TriggeredBy)
	}
	slices.Sort(jobs)
	return jobs
}

func TestLifeOfANode(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.place(api.JobTypeSystem, "sys", "elsewhere")
	first := r.register(node("n1"))
	if first.HeartbeatTTL < 10*time.Second || first.HeartbeatTTL > 20*time.Second || len(first.Servers) != 1 || len(first.EvalIDs) != 0 {
		t.Fatalf("first answer %+v", first)
	}
	n := r.state.Read().Node("n1")
	if n.Status != api.NodeStatusInit || n.SchedulingEligibility != api.NodeSchedulingEligible || n.NodePool != "default" ||
		n.ComputedClass == "" || len(n.Events) != 1 || n.Events[0].Message != "Node registered" {
		t.Fatalf("new node %+v", n)
	}
	if got := r.jobsOf(r.beat("n1", api.NodeStatusReady).EvalIDs); !slices.Equal(got, []string{"sys node-update"}) {
		t.Errorf("evaluations of a ready node: %v", got)
	}
	before := r.state.Read().Index()
	r.beat("n1", api.NodeStatusReady)
	if r.state.Read().Index() != before {
		t.Error("a heartbeat without news wrote to the log")
	}
	again := node("n1")
	again.Attributes["gpu"] = "yes"
	if got := r.jobsOf(r.register(again).EvalIDs); !slices.Equal(got, []string{"sys node-update"}) {
		t.Errorf("evaluations of a changed node: %v", got)
	}
	if n := r.state.Read().Node("n1"); n.Status != api.NodeStatusReady {
		t.Errorf("a changed fingerprint moved the node to %s", n.Status)
	}
	if got := r.register(again); len(got.EvalIDs) != 0 {
		t.Errorf("evaluations of an unchanged node: %v", got.EvalIDs)
	}
	if _, err := r.Purge(t.Context(), &api.NodeWriteRequest{NodeID: "n1"}); err != nil || r.state.Read().Node("n1") != nil {
		t.Errorf("purge: %v", err)
	}
	if _, err := r.Heartbeat(t.Context(), &api.NodeHeartbeatRequest{NodeID: "n1"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("heartbeat of a purged node: %v", err)
	}
}

func TestSecondNodeWithTheSameIDIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("n1"))
	thief := node("n1")
	thief.SecretID = "guess"
	if _, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: thief}); !errors.Is(err, fault.Denied) {
		t.Errorf("register: %v", err)
	}
	if err := r.Verify(t.Context(), "n1", "guess"); !errors.Is(err, fault.Denied) {
		t.Errorf("verify: %v", err)
	}
	if err := r.Verify(t.Context(), "n1", "secret of n1"); err != nil {
		t.Errorf("verify: %v", err)
	}
}

func TestBadRegistrations(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	for what, change := range map[string]func(*api.Node){
		"id":     func(n *api.Node) { n.ID = "" },
		"name":   func(n *api.Node) { n.Name = "" },
		"dc":     func(n *api.Node) { n.Datacenter = "" },
		"secret": func(n *api.Node) { n.SecretID = "" },
		"pool":   func(n *api.Node) { n.NodePool = "all" },
		"status": func(n *api.Node) { n.Status = "happy" },
	} {
		n := node("n1")
		change(n)
		if _, err := r.Register(t.Context(), &api.NodeRegisterRequest{Node: n}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.Register(t.Context(), &api.NodeRegisterRequest{}); !errors.Is(err, fault.Invalid) {
		t.Errorf("no node: %v", err)
	}
	if _, err := r.Eligibility(t.Context(), &api.NodeEligibilityRequest{NodeID: "n1", Eligibility: "maybe"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("eligibility: %v", err)
	}
	large := map[string]string{"why": strings.Repeat("x", 16<<10)}
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", Meta: large}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "16387") {
		t.Errorf("drain with much to say: %v", err)
	}
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "nobody"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("drain: %v", err)
	}
}

func TestSilentNodeIsLostAndComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nodes.Heartbeat{MinTTL: 20 * time.Millisecond, Grace: 20 * time.Millisecond, FailoverTTL: 20 * time.Millisecond})
		r.lead()
		r.place(api.JobTypeService, "web", "n1")
		r.register(node("n1"))
		r.await("silent node", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDown })
		n := r.state.Read().Node("n1")
		if n.LastMissedHeartbeatIndex == 0 || n.Events[len(n.Events)-1].Message != "Node heartbeat missed" {
			t.Errorf("lost node %+v", n)
		}
		var evals []string
		for e := range r.state.Read().EvalsByJob("default", "web") {
			evals = append(evals, e.TriggeredBy+" "+e.NodeID)
		}
		if !slices.Equal(evals, []string{"node-update n1"}) {
			t.Errorf("evaluations %v", evals)
		}
		r.beat("n1", "")
		r.await("node that is back", "n1", func(n *api.Node) bool { return n.LastMissedHeartbeatIndex < n.ModifyIndex })
	})
}

func TestNewLeaderWaitsForNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nodes.Heartbeat{MinTTL: time.Hour, FailoverTTL: 30 * time.Millisecond})
		r.register(node("n1"))
		r.lead()
		r.await("node unheard of", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDown })
	})
}

func TestDisconnectedWhereAGroupAllowsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nodes.Heartbeat{MinTTL: 10 * time.Millisecond, Grace: 10 * time.Millisecond, FailoverTTL: 20 * time.Millisecond})
		r.place(api.JobTypeService, "web", "n1", func(g *api.TaskGroup) {
			g.Disconnect = &api.DisconnectStrategy{LostAfter: time.Hour}
		})
		r.lead()
		r.register(node("n1"))
		r.await("silent node", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDisconnected })
	})
}

func TestAssignmentsWaitForNews(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("n1"))
	a := r.place(api.JobTypeService, "one", "n1")
	r.place(api.JobTypeService, "other", "n2")
	out, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{NodeID: "n1"})
	if err != nil || !slices.Equal(out.Assigned, []string{a.ID}) || len(out.Changed) != 1 || out.Changed[0].Job == nil {
		t.Fatalf("first: %+v %v", out, err)
	}
	known := map[string]uint64{a.ID: out.Changed[0].AllocModifyIndex}
	type answer struct {
		out *api.NodeAssignmentsResponse
		err error
	}
	got := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		out, err := r.Assignments(ctx, &api.NodeAssignmentsRequest{NodeID: "n1", Known: known, QueryOptions: api.QueryOptions{MinIndex: out.Index}})
		got <- answer{out, err}
	}()
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	report := *r.state.Read().Alloc(a.ID)
	report.ClientStatus = api.AllocClientStatusComplete
	tx.PutAlloc(&report)
	tx.Commit()
	b := r.place(api.JobTypeService, "two", "n1")
	second := <-got
	if second.err != nil || len(second.out.Assigned) != 2 || len(second.out.Changed) != 1 || second.out.Changed[0].ID != b.ID {
		t.Fatalf("second: %+v %v", second.out, second.err)
	}
	brief, err := r.Assignments(t.Context(), &api.NodeAssignmentsRequest{
		NodeID: "n1", Known: map[string]uint64{a.ID: known[a.ID], b.ID: b.AllocModifyIndex},
		QueryOptions: api.QueryOptions{MinIndex: second.out.Index, MaxWait: 20 * time.Millisecond},
	})
	if err != nil || len(brief.Changed) != 0 || len(brief.Assigned) != 2 {
		t.Fatalf("no news: %+v %v", brief, err)
	}
	tx = r.state.Write(r.state.Read().Index()+1, time.Now())
	tx.DeleteAlloc(a.ID)
	tx.Commit()
	less, err := r.Assignments(ctx, &api.NodeAssignmentsRequest{
		NodeID: "n1", Known: map[string]uint64{a.ID: known[a.ID], b.ID: b.AllocModifyIndex},
		QueryOptions: api.QueryOptions{MinIndex: brief.Index, MaxWait: time.Minute},
	})
	if err != nil || len(less.Changed) != 0 || !slices.Equal(less.Assigned, []string{b.ID}) {
		t.Fatalf("one was forgotten: %+v %v", less, err)
	}
}

func TestEligibilityAndDrain(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.lead()
	r.register(node("n1"))
	r.beat("n1", api.NodeStatusReady)
	a := r.place(api.JobTypeService, "web", "n1")
	if _, err := r.Eligibility(t.Context(), &api.NodeEligibilityRequest{NodeID: "n1", Eligibility: api.NodeSchedulingIneligible}); err != nil {
		t.Fatal(err)
	}
	out, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", DrainSpec: &api.DrainSpec{Deadline: time.Hour}, MarkEligible: true, Meta: map[string]string{"why": "test"}})
	if err != nil || out.NodeModifyIndex == 0 {
		t.Fatalf("drain: %+v %v", out, err)
	}
	if _, err := r.Eligibility(t.Context(), &api.NodeEligibilityRequest{NodeID: "n1", Eligibility: api.NodeSchedulingEligible}); !errors.Is(err, fault.Invalid) {
		t.Errorf("eligible while draining: %v", err)
	}
	err = state.Until(t.Context(), r.state, []state.Key{state.AllocKey(a.ID)}, func(tx *state.Txn) bool { return tx.Alloc(a.ID).DesiredTransition.Migrate })
	if err != nil {
		t.Fatal(err)
	}
	if n := r.state.Read().Node("n1"); !n.Drain || n.LastDrain.Status != api.DrainStatusDraining || n.LastDrain.Meta["why"] != "test" {
		t.Fatalf("draining node %+v", n)
	}
	tx := r.state.Write(r.state.Read().Index()+1, time.Now())
	gone := *r.state.Read().Alloc(a.ID)
	gone.ClientStatus, gone.DesiredStatus = api.AllocClientStatusComplete, api.AllocDesiredStatusStop
	tx.PutAlloc(&gone)
	tx.Commit()
	r.await("drain's end", "n1", func(n *api.Node) bool { return n.DrainStrategy == nil })
	n := r.state.Read().Node("n1")
	if n.SchedulingEligibility != api.NodeSchedulingIneligible || n.LastDrain.Status != api.DrainStatusComplete || n.Drain {
		t.Errorf("drained node %+v", n)
	}
	if _, err := r.Drain(t.Context(), &api.NodeDrainRequest{NodeID: "n1", MarkEligible: true}); err != nil {
		t.Fatal(err)
	}
	if n := r.state.Read().Node("n1"); n.SchedulingEligibility != api.NodeSchedulingEligible {
		t.Errorf("node after the end of its drain %+v", n)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	r.register(node("abc"))
	r.register(node("abd"))
	list, err := r.List(t.Context(), &api.NodeListRequest{OS: true, QueryOptions: api.QueryOptions{Prefix: "abd"}})
	if err != nil || len(list.Nodes) != 1 || list.Index == 0 {
		t.Fatalf("list: %+v %v", list, err)
	}
	if s := list.Nodes[0]; s.Address != "10.0.0.1" || s.Version != "2.0.6" || s.Attributes["os.name"] != "debian" || s.NodeResources != nil {
		t.Errorf("stub %+v", s)
	}
	one, err := r.Get(t.Context(), &api.NodeRequest{NodeID: "abc"})
	if err != nil || one.Node == nil || one.Node.SecretID != "" {
		t.Errorf("get: %+v %v", one, err)
	}
	none, err := r.Get(t.Context(), &api.NodeRequest{NodeID: "x"})
	if err != nil || none.Node != nil {
		t.Errorf("get nothing: %+v %v", none, err)
	}
}

// What a row leaves out can be asked for, but no secret.
func TestFilterSeesWholeNodes(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{})
	plain, racked := node("abc"), node("abd")
	plain.Attributes, racked.Attributes = map[string]string{"kernel.name": "plan9"}, map[string]string{"kernel.name": "linux"}
	racked.Meta = map[string]string{"rack": "r1"}
	r.register(plain)
	r.register(racked)
	for expression, want := range map[string]int{
		`Attributes["kernel.name"] == "linux"`: 1, `Attributes contains "kernel.name"`: 2, `Meta.rack == "r1"`: 1, `Meta.rack != "r1"`: 1,
		`HTTPAddr is not empty`: 2, `DrainStrategy is nil`: 2, `SecretID is not empty`: 0, `Nope is nil`: -1, `==`: -1,
	} {
		list, err := r.List(t.Context(), &api.NodeListRequest{QueryOptions: api.QueryOptions{Filter: expression}})
		switch {
		case want < 0 && fault.Of(err) != fault.Invalid, want >= 0 && (err != nil || len(list.Nodes) != want):
			t.Errorf("%s: %+v %v", expression, list, err)
		}
	}
}

func TestDisconnectedNodeIsDownWhenNothingMayLiveOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, nodes.Heartbeat{MinTTL: 10 * time.Millisecond, Grace: 10 * time.Millisecond, FailoverTTL: 20 * time.Millisecond})
		r.place(api.JobTypeService, "web", "n1", func(g *api.TaskGroup) {
			g.Disconnect = &api.DisconnectStrategy{LostAfter: 300 * time.Millisecond}
		})
		r.lead()
		r.register(node("n1"))
		r.await("silent node", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDisconnected })
		r.edit(func(tx *state.Txn) { // as the scheduler does
			a := *tx.Alloc("alloc-web")
			a.ClientStatus = api.AllocClientStatusUnknown
			a.AllocStates = []*api.AllocState{{Field: "client_status", Value: a.ClientStatus, Time: time.Now()}}
			tx.PutAlloc(&a)
		})
		r.await("node that did not come back", "n1", func(n *api.Node) bool { return n.Status == api.NodeStatusDown })
		r.beat("n1", api.NodeStatusReady)
		if n := r.state.Read().Node("n1"); n.Status != api.NodeStatusReady {
			t.Errorf("after the return: %+v", n)
		}
	})
}

func TestHeartbeatsSpreadAndGrowRarerWithTheNumberOfNodes(t *testing.T) {
	t.Parallel()
	r := open(t, nodes.Heartbeat{MinTTL: time.Second, MaxPerSecond: 10, Grace: time.Hour, FailoverTTL: time.Hour})
	r.lead()
	r.awaitLead()
	const count = 100 // 10 per second: at least 10 s each
	for i := range count {
		r.register(node(fmt.Sprint("n", i)))
	}
	least, most := time.Hour, time.Duration(0)
	for i := range count {
		ttl := r.beat(fmt.Sprint("n", i), api.NodeStatusReady).HeartbeatTTL
		least, most = min(least, ttl), max(most, ttl)
	}
	t.Logf("%d nodes: heartbeats every %v to %v", count, least, most)
	if least < 10*time.Second || most > 21*time.Second || most-least < 5*time.Second {
		t.Errorf("heartbeats every %v to %v", least, most)
	}
}
