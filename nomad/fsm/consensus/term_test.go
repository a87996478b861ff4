package consensus_test

import (
	"context"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// held is a command whose apply waits on one server.
type held struct {
	mark
	at   *state.Store
	hold func(*state.Store)
}

func (*held) Kind() fsm.Kind { return 1001 }

func (h *held) Apply(tx *state.Txn) (any, error) {
	if h.hold != nil {
		h.hold(h.at)
	}
	return h.mark.Apply(tx)
}

// A server leads, loses the leadership and wins it again while a loop of its first term still ends a call.
func TestANewTermDoesNotAnswerBeforeItHasCaughtUp(t *testing.T) {
	t.Parallel()
	loop, gate := make(chan struct{}), make(chan struct{})
	var slow *state.Store
	hold := func(s *state.Store) {
		if s == slow {
			<-gate
		}
	}
	stores := map[string]*state.Store{}
	begin := func(id string, linger <-chan struct{}) *member {
		c, s := config(t, "")
		c.ID, c.Single = id, false
		c.Registry = registry()
		c.Registry.Register(func() fsm.Command { return &held{at: s, hold: hold} })
		stores[id] = s
		r, err := consensus.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = r.Lead(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				if linger != nil {
					<-linger
				}
				return nil
			})
		}()
		t.Cleanup(func() { cancel(); <-done; _ = r.Close() })
		return &member{r, id, c.Advertise}
	}
	a, b := begin("a", loop), begin("b", nil)
	slow = stores["a"]
	if err := a.Bootstrap([]api.RaftServer{{ID: "a", Address: a.address}, {ID: "b", Address: b.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "somebody leads", func() bool { return a.IsLeader() || b.IsLeader() })
	hand := func(from, to *member) {
		t.Helper()
		if err := from.TransferLeadership(t.Context(), to.id, to.address); err != nil {
			t.Fatal(err)
		}
	}
	if b.IsLeader() {
		hand(b, a)
	}
	until(t, "a leads", a.IsLeader)
	hand(a, b)
	until(t, "b leads", b.IsLeader)
	if _, err := b.Propose(t.Context(), &held{mark: mark{"committed-by-b"}}); err != nil {
		t.Fatal(err)
	}
	hand(b, a)
	until(t, "b follows a", func() bool { return b.LeaderAddress() == a.address })
	if a.IsLeader() {
		t.Error("a may answer, and has not applied what b committed and confirmed")
	}
	close(gate)
	close(loop)
	until(t, "a leads again", a.IsLeader)
	if slow.Read().Namespace("committed-by-b") == nil {
		t.Error("a leads without what b committed")
	}
}
