package allocs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/allocs"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// picky refuses entries with a certain allocation, and tells how large all were.
type picky struct {
	*counted
	bad   string
	class fault.Class

	mu    sync.Mutex
	sizes []int
	count int
}

func (p *picky) Propose(ctx context.Context, cmd fsm.Command) (fsm.Result, error) {
	c := cmd.(*allocs.UpdateClient)
	p.mu.Lock()
	p.sizes = append(p.sizes, c.Msgsize())
	p.count += len(c.Allocs)
	p.mu.Unlock()
	<-p.hold
	for _, a := range c.Allocs {
		if a.ID == p.bad {
			return fsm.Result{}, fault.New(p.class, "no entry for %s", a.ID)
		}
	}
	return p.Proposer.Propose(ctx, cmd)
}

// send reports n allocations, each by a node of its own, and answers who was refused.
func (p *picky) send(t *testing.T, n int, say func(*api.Allocation)) (refused []string) {
	_, s, c := open(t)
	p.counted = c
	p.hold = make(chan struct{})
	for i := range n {
		id := fmt.Sprintf("a%02d", i)
		place(s, id, "n"+id)
	}
	r := allocs.New(allocs.Config{Log: hclog.NewNullLogger(), State: s, Raft: p})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		id := fmt.Sprintf("a%02d", i)
		a := report(id, "running")
		say(a)
		wg.Go(func() {
			if _, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n" + id, Allocs: []*api.Allocation{a}}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, id)
			} else if s.Read().Alloc(id).ClientStatus != "running" {
				t.Errorf("%s was answered and does not run", id)
			}
		})
	}
	p.hold <- struct{}{} // the others come while the first entry is under way
	close(p.hold)
	wg.Wait()
	return refused
}

func TestAReportThatIsRefusedHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	p := &picky{bad: "a07", class: fault.TooLarge}
	if got := p.send(t, 50, func(*api.Allocation) {}); fmt.Sprint(got) != "[a07]" {
		t.Errorf("refused are %v", got)
	}
}

// Who leads no more is asked once for all, not once for each.
func TestReportsAreNotTriedOneByOneWhereNobodyLeads(t *testing.T) {
	t.Parallel()
	p := &picky{bad: "a07", class: fault.NotLeader}
	p.send(t, 50, func(*api.Allocation) {})
	if p.count != 50 {
		t.Errorf("%d reports were proposed", p.count)
	}
}

func TestEntriesOfReportsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	p := &picky{}
	text := strings.Repeat("x", 900<<10)
	if got := p.send(t, 20, func(a *api.Allocation) { a.NetworkStatus = &api.AllocNetworkStatus{InterfaceName: text} }); len(got) > 0 {
		t.Errorf("refused are %v", got)
	}
	for _, n := range p.sizes {
		if n > 9<<20 {
			t.Errorf("an entry has %d bytes", n)
		}
	}
}

func TestLargeReportsAreCutOrRefused(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t)
	place(s, "a1", "n1")
	long := strings.Repeat("x", 5<<20)
	a := report("a1", "complete")
	e := &api.TaskEvent{Type: "Terminated", Message: long, DisplayMessage: long, Details: map[string]string{"a": long, long: ""}, ExitCode: 7, TaskEventCause: &api.TaskEventCause{DriverError: long}}
	a.ClientDescription, a.TaskStates = long, map[string]*api.TaskState{"t": {State: "dead", Failed: true}}
	for range 40 {
		a.TaskStates["t"].Events = append(a.TaskStates["t"].Events, e)
	}
	send := func() error {
		_, err := r.Update(t.Context(), &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{a}})
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	got := s.Read().Alloc("a1")
	states := got.TaskStates["t"]
	if got.ClientStatus != "complete" || !states.Failed || len(states.Events) != 32 || states.Events[31].ExitCode != 7 || len(states.Events[31].Details) != 1 {
		t.Errorf("kept is %d events, %+.300v", len(states.Events), states)
	}
	bare := *got
	bare.Job = nil
	if n := bare.Msgsize(); n > 256<<10 {
		t.Errorf("the allocation has %d bytes", n)
	}
	a.NetworkStatus = &api.AllocNetworkStatus{InterfaceName: long}
	if err := send(); fault.Of(err) != fault.TooLarge || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("got %.300v", err)
	}
}

// A server that ends waits for those who are being answered: nobody waits for the log longer than he wants an answer.
func TestReporterThatGivesUpDoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, s, c := open(t)
		place(s, "a1", "n1")
		c.hold = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error)
		go func() {
			_, err := r.Update(ctx, &api.AllocUpdateRequest{NodeID: "n1", Allocs: []*api.Allocation{report("a1", "running")}})
			given <- err
		}()
		synctest.Wait()
		began := time.Now()
		cancel()
		select {
		case err := <-given:
			if !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		case <-time.After(time.Minute):
			t.Error("it waits for the log")
			go func() { <-given }()
		}
		close(c.hold) // the others who report with it are heard
		synctest.Wait()
		if a := s.Read().Alloc("a1"); a.ClientStatus != "running" {
			t.Errorf("it is %s", a.ClientStatus)
		}
	})
}
