package allocs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// A report that was held up on its way, at a server that was frozen or cut off, must not bring back what was before.
func TestLateReportIsRefused(t *testing.T) {
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
		process string
		number  uint64
		status  string
		late    bool
	}{
		{"first", 2, "pending", false},
		{"first", 5, "running", false},
		{"first", 4, "pending", true},
		{"first", 5, "running", false}, // twice
		{"second", 1, "pending", true}, // it has not registered
		{"", 0, "running", false},      // an older agent
	} {
		err := say(said.process, said.number, said.status)
		if late := errors.Is(err, fault.Conflict); late != said.late || err != nil && !late {
			t.Errorf("%d: %v, want a conflict: %v", i, err, said.late)
		}
	}
	if a := s.Read().Alloc("a1"); a.ClientStatus != "running" {
		t.Errorf("the allocation is %s", a.ClientStatus)
	}
	register("second")
	if err := say("first", 6, "pending"); !errors.Is(err, fault.Conflict) {
		t.Errorf("a former process is heard: %v", err)
	}
	if err := say("second", 1, "running"); err != nil {
		t.Error(err)
	}
}
