package consensus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
)

// member is one server of a cluster in one process.
type member struct {
	*consensus.Raft
	id, address string
}

// unformed opens a server that belongs to no cluster yet and leads whenever it is elected.
func unformed(t testing.TB, id string) *member { return unformedIn(t, "", id) }

// unformedIn is unformed with the log in a directory.
func unformedIn(t testing.TB, dir, id string) *member {
	t.Helper()
	c, _ := config(t, dir)
	c.ID, c.Single = id, false
	r, err := consensus.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Lead(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}()
	t.Cleanup(func() { cancel(); <-done; _ = r.Close() })
	return &member{r, id, c.Advertise}
}

func until(t testing.TB, what string, fact func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !fact(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func voters(t *testing.T, r *consensus.Raft) map[string]bool {
	t.Helper()
	conf, err := r.Configuration()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, s := range conf.Servers {
		out[s.ID] = s.Voter
	}
	return out
}

func TestClusterGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	a, b := unformed(t, "a"), unformed(t, "b")
	if had, err := a.Bootstrapped(); had || err != nil {
		t.Fatalf("bootstrapped before: %v %v", had, err)
	}
	if err := a.TransferLeadership(t.Context(), "", ""); !errors.Is(err, fault.NotLeader) {
		t.Errorf("transfer by a follower: %v", err)
	}
	start := time.Now()
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a leads", a.IsLeader)
	t.Logf("leader %s after the first configuration", time.Since(start))
	if had, err := a.Bootstrapped(); !had || err != nil {
		t.Errorf("bootstrapped after: %v %v", had, err)
	}
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}}); err == nil {
		t.Error("bootstrapped twice")
	}
	if err := a.AddNonvoter(t.Context(), b.id, b.address); err != nil || voters(t, a.Raft)[b.id] {
		t.Fatalf("add b without a vote: %v", err)
	}
	if err := a.AddVoter(t.Context(), b.id, b.address); err != nil || !voters(t, a.Raft)[b.id] {
		t.Fatalf("give b a vote: %v", err)
	}
	propose(t, a.Raft, "one")
	until(t, "b has the log", func() bool { return b.LastIndex() == a.LastIndex() && b.LastTerm() == a.LastTerm() })
	until(t, "b leads", func() bool {
		if a.IsLeader() { // on a busy host the election may come too late, and a leads again
			if err := a.TransferLeadership(t.Context(), b.id, b.address); err != nil {
				t.Log(err)
			}
		}
		return b.IsLeader()
	})
	if err := a.RemoveServer(t.Context(), b.id); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a change by a follower: %v", err)
	}
	if err := b.DemoteVoter(t.Context(), a.id); err != nil || voters(t, b.Raft)[a.id] {
		t.Errorf("take the vote of a: %v", err)
	}
	if err := b.RemoveServer(t.Context(), a.id); err != nil || len(voters(t, b.Raft)) != 1 {
		t.Errorf("remove a: %v", err)
	}
	propose(t, b.Raft, "two")
}

func TestLostMajorityLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	a, b := unformed(t, "a"), unformed(t, "b")
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}, {ID: b.id, Address: b.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a leads", a.IsLeader)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := a.Propose(t.Context(), &mark{"lost"})
	if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.NotLeader) {
		t.Errorf("propose without a majority: %v", err)
	}
}
