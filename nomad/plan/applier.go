package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// batchMax is how many plans go into one raft entry.
const batchMax = 64

// Config is what an applier needs.
type Config struct {
	State  *state.Store
	Raft   fsm.Proposer
	Roster *Roster
	Log    hclog.Logger
}

// Applier verifies and commits plans, on the leader.
type Applier struct {
	Config
	queue *queue
}

// NewApplier makes an applier; Run makes it work.
func NewApplier(c Config) *Applier { return &Applier{Config: c, queue: newQueue()} }

// Submit brings a plan in and waits for its outcome.
func (a *Applier) Submit(ctx context.Context, s Submission) (*Outcome, error) {
	t := a.queue.push(s)
	select {
	case ans := <-t.done:
		return ans.outcome, ans.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Run commits plans until ctx ends; then those that wait are told that nobody leads here.
func (a *Applier) Run(ctx context.Context) error {
	for {
		batch, err := a.queue.next(ctx, batchMax)
		if err != nil {
			for _, t := range a.queue.take(1 << 30) {
				t.done <- answer{err: fault.New(fault.NotLeader, "plans are not applied here any more")}
			}
			return err
		}
		if err := a.commit(ctx, batch); err != nil {
			a.Log.Warn("plans were not committed", "plans", len(batch), "error", err)
		}
	}
}

// commit verifies the plans and proposes what is left of them in one command. When it fails, each plan
// is tried alone, so that one that cannot be applied does not take others with it.
func (a *Applier) commit(ctx context.Context, batch []*ticket) error {
	answers, err := a.propose(ctx, batch)
	if err != nil && len(batch) > 1 && ctx.Err() == nil {
		for _, t := range batch {
			one, alone := a.propose(ctx, []*ticket{t})
			a.answer([]*ticket{t}, one, alone)
		}
		return err
	}
	a.answer(batch, answers, err)
	return err
}

func (a *Applier) answer(batch []*ticket, answers []*Outcome, err error) {
	for i, t := range batch {
		switch {
		case errors.Is(err, fault.Conflict):
			r := &Refused{map[string]string{"": err.Error()}}
			t.done <- answer{outcome: refusedWhole(r, a.State.Read().Index())}
		case err != nil:
			t.done <- answer{err: err}
		default:
			t.done <- answer{outcome: answers[i]}
		}
	}
}

func (a *Applier) propose(ctx context.Context, batch []*ticket) ([]*Outcome, error) {
	f, err := a.Roster.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	v := newVerifier(f, a.State.Read())
	outcomes := make([]*Outcome, len(batch))
	cmd := &Apply{}
	for i, t := range batch {
		checked := v.check(t.Plan)
		outcomes[i] = &Outcome{PlanResult: checked.result(), Whole: len(checked.refused) == 0}
		if len(checked.refused) > 0 {
			outcomes[i].RefreshIndex = v.tx.Index()
		}
		var evals []*api.Evaluation
		if outcomes[i].Whole {
			evals = t.Evals
		}
		cmd.Plans = append(cmd.Plans, entryOf(checked.plan, evals))
	}
	res, err := a.Raft.Propose(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("commit plans: %w", err)
	}
	refusals, ok := res.Value.([]*Refused)
	if !ok || len(refusals) != len(batch) {
		return nil, fault.New(fault.Internal, "plan apply answered a %T", res.Value)
	}
	for i, r := range refusals {
		outcomes[i].AllocIndex = res.Index
		if r != nil {
			outcomes[i] = refusedWhole(r, res.Index)
		}
	}
	return outcomes, nil
}

func refusedWhole(r *Refused, index uint64) *Outcome {
	return &Outcome{PlanResult: &api.PlanResult{
		RejectedNodes: slices.Sorted(maps.Keys(r.Reasons)), Reasons: r.Reasons, RefreshIndex: index, AllocIndex: index,
	}}
}

func sortedNodes(p *api.Plan) []string {
	all := map[string]bool{}
	for _, m := range []map[string][]*api.Allocation{p.NodeUpdate, p.NodeAllocation, p.NodePreemptions} {
		for n := range m {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
