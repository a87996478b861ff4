package consensus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// What was read in a term counts in that term only, although the server leads again.
func TestLeaderOfALaterTermHasNotLedSince(t *testing.T) {
	t.Parallel()
	a, b := unformed(t, "a"), unformed(t, "b")
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}, {ID: b.id, Address: b.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a leads", a.IsLeader)
	term := a.Term()
	for range 3 {
		if err := a.Leads(t.Context(), term); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Leads(t.Context(), b.Term()); !errors.Is(err, fault.NotLeader) {
		t.Errorf("a follower leads: %v", err)
	}
	over := func(from, to *member) {
		until(t, to.id+" leads", func() bool {
			if from.IsLeader() {
				_ = from.TransferLeadership(t.Context(), to.id, to.address)
			}
			return to.IsLeader()
		})
	}
	over(a, b)
	if err := a.Leads(t.Context(), term); !errors.Is(err, fault.NotLeader) {
		t.Errorf("the leader before leads: %v", err)
	}
	over(b, a)
	if err := a.Leads(t.Context(), term); !errors.Is(err, fault.NotLeader) {
		t.Errorf("it has led since an earlier term: %v", err)
	}
	if err := a.Leads(t.Context(), a.Term()); err != nil {
		t.Error(err)
	}
}

// The word of a majority lasts for a moment; a leader that is alone asks in vain.
func TestLeaderWithoutAMajorityDoesNotLead(t *testing.T) {
	t.Parallel()
	a, b := unformed(t, "a"), unformed(t, "b")
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}, {ID: b.id, Address: b.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "one leads", func() bool { return a.IsLeader() || b.IsLeader() })
	if b.IsLeader() {
		a, b = b, a
	}
	term := a.Term()
	if err := a.Leads(t.Context(), term); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "it does not lead", func() bool { return errors.Is(a.Leads(t.Context(), term), fault.NotLeader) })
	if err := a.Leads(t.Context(), a.Term()); !errors.Is(err, fault.NotLeader) {
		t.Errorf("it leads alone: %v", err)
	}
}

// A proposal that the command itself refuses is committed all the same; one that never came into the log is not.
func TestCommitsAreOfTheirCallOnly(t *testing.T) {
	t.Parallel()
	a := unformed(t, "a")
	if err := a.Bootstrap([]api.RaftServer{{ID: a.id, Address: a.address}}); err != nil {
		t.Fatal(err)
	}
	until(t, "a leads", a.IsLeader)
	ctx, committed := a.Commits(t.Context())
	_, other := a.Commits(t.Context())
	if committed() {
		t.Error("committed before anything was proposed")
	}
	if _, err := a.Propose(ctx, &mark{"bad"}); !errors.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	if !committed() || other() {
		t.Errorf("committed %v, by another call %v", committed(), other())
	}
	ctx, committed = a.Commits(t.Context())
	if err := a.Snapshot(ctx); err != nil || committed() {
		t.Errorf("a snapshot: %v, committed %v", err, committed())
	}
	if err := a.AddNonvoter(ctx, "other", "127.0.0.1:1"); err != nil || !committed() {
		t.Errorf("a server: %v, committed %v", err, committed())
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, committed = a.Commits(t.Context())
	if _, err := a.Propose(ctx, &mark{"bad"}); err == nil || committed() {
		t.Errorf("after the end: %v, committed %v", err, committed())
	}
}

// What lies in a queue of raft when it ends is never answered.
func TestNobodyWaitsForAServerThatHasEnded(t *testing.T) {
	t.Parallel()
	r, _ := open(t, "")
	lead(t, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 { // some find the queue open
		if err := r.VerifyLeader(ctx); !errors.Is(err, fault.Unavailable) {
			t.Fatalf("it leads: %v", err)
		}
	}
}
