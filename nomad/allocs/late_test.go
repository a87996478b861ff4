package allocs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/allocs"
)

// A node that is dead cannot have said that its allocations run, whenever it said so: they would be taken for those of a
// node that is back, and their successors stopped.
func TestReportOfALostNodeWaitsForItsReturn(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	put := func(status string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		tx.PutNode(&api.Node{ID: "n1", Status: status})
		tx.Commit()
	}
	for status, taken := range map[string]bool{
		api.NodeStatusDown: false, api.NodeStatusDisconnected: false, api.NodeStatusInit: true, api.NodeStatusReady: true,
	} {
		put(status)
		_, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report("a1", "running")}})
		if taken && err != nil || !taken && !errors.Is(err, fault.Conflict) {
			t.Errorf("node is %s: %v", status, err)
		}
	}
}

// Who leads anew has not heard the reports of before.
func TestLateReportIsNotTakenByANewLeader(t *testing.T) {
	t.Parallel()
	first, s, raft := open(t)
	place(s, "a1", "n1")
	place(s, "a2", "n1")
	tx := s.Write(s.Read().Index()+1, time.Now())
	tx.PutNode(&api.Node{ID: "n1", Process: "p"})
	tx.Commit()
	say := func(leader *allocs.Service, number uint64, id, status, state string) {
		t.Helper()
		told := report(id, status)
		told.TaskStates = map[string]*api.TaskState{"t": {State: state}}
		if _, err := leader.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Process: "p", Number: number, Allocs: []*api.Allocation{told}}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(id, status, state string) {
		t.Helper()
		if a := s.Read().Alloc(id); a.ClientStatus != status || a.TaskStates["t"].State != state {
			t.Errorf("%s is %s, its task %s, want %s and %s", id, a.ClientStatus, a.TaskStates["t"].State, status, state)
		}
	}
	say(first, 5, "a1", "running", "running")
	second := allocs.New(allocs.Config{Log: hclog.NewNullLogger(), State: s, Raft: raft})
	before := s.Read().Alloc("a1").ModifyIndex
	say(second, 4, "a1", "pending", "pending")
	is("a1", "running", "running")
	if s.Read().Alloc("a1").ModifyIndex != before {
		t.Error("the late report is written")
	}
	say(second, 4, "a2", "running", "running") // the newest that was said of this one
	is("a2", "running", "running")
	say(second, 6, "a1", "failed", "dead")
	say(second, 5, "a1", "running", "running")
	is("a1", "failed", "dead")
}

// A report that was held up on its way, at a server that was frozen or cut off, must not bring back what was before.
func TestLateReportIsNotTaken(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	register := func(process string) {
		tx := s.Write(s.Read().Index()+1, time.Now())
		tx.PutNode(&api.Node{ID: "n1", Process: process})
		tx.Commit()
	}
	say := func(process string, number uint64, status string) error {
		_, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Process: process, Number: number, Allocs: []*api.Allocation{report("a1", status)}})
		return err
	}
	register("first")
	for i, said := range []struct {
		process   string
		number    uint64
		said, now string
		refused   bool
	}{
		{"first", 2, "pending", "pending", false},
		{"first", 5, "running", "running", false},
		{"first", 4, "pending", "running", false},
		{"first", 5, "running", "running", false}, // twice
		{"second", 1, "pending", "running", true}, // it has not registered
		{"", 0, "running", "running", false},      // an older agent
	} {
		err := say(said.process, said.number, said.said)
		if refused := errors.Is(err, fault.Conflict); refused != said.refused || err != nil && !refused {
			t.Errorf("%d: %v, want a conflict: %v", i, err, said.refused)
		}
		if a := s.Read().Alloc("a1"); a.ClientStatus != said.now {
			t.Errorf("%d: the allocation is %s, want %s", i, a.ClientStatus, said.now)
		}
	}
	register("second")
	if err := say("first", 6, "pending"); !errors.Is(err, fault.Conflict) {
		t.Errorf("a former process is heard: %v", err)
	}
	if err := say("second", 1, "running"); err != nil {
		t.Error(err)
	}
}
