package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/tracing"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// One raft entry holds at most batchMax plans, and at most one that is heavier than weightMax allocations.
const (
	batchMax  = 64
	weightMax = 4_000
)

// Config is what an applier needs.
type Config struct {
	State      *state.Store
	Raft       fsm.Proposer
	FleetCache *FleetCache
	Log        hclog.Logger
	// Rejections configures what happens to nodes on which plans are rejected repeatedly.
	Rejections Rejections
	// Ineligible takes a node out of scheduling.
	Ineligible func(ctx context.Context, node string) error
	// Metrics records how plans are verified and committed; nil does not.
	Metrics *metrics.Recorder
}

// Applier verifies and commits plans, on the leader.
type Applier struct {
	Config
	queue    *queue
	rejected rejected
}

// NewApplier makes an applier; Run makes it work.
func NewApplier(c Config) *Applier { return &Applier{Config: c, queue: newQueue()} }

// Submit brings a plan in and waits for its outcome.
func (a *Applier) Submit(ctx context.Context, s Submission) (out *Outcome, err error) {
	ctx, span := tracing.Start(ctx, "plan apply", "")
	defer func() { span.End(err) }()
	t := a.queue.push(s)
	select {
	case ans := <-t.done:
		return ans.outcome, ans.err
	case <-ctx.Done():
		if a.queue.withdraw(t) {
			return nil, ctx.Err()
		}
		ans := <-t.done // the plan is being committed: wait for the result
		return ans.outcome, ans.err
	}
}

// Run commits plans until ctx ends; then waiting plans are refused because this server does not lead. While one entry
// is on its way to the log, the next is verified on top of it.
func (a *Applier) Run(ctx context.Context) error {
	defer a.queue.close()
	var before *flight
	defer func() { before.wait() }()
	for {
		batch, err := a.queue.next(ctx)
		if err != nil {
			return err
		}
		now, err := a.verify(ctx, batch, before)
		if !before.wait() {
			now, err = a.verify(ctx, batch, nil)
		}
		if err != nil {
			answerAll(batch, err)
			before = nil
			continue
		}
		outstanding := 0.0
		if before != nil {
			outstanding = 1
		}
		a.Metrics.Sample("nomad.plan.outstanding_apply", outstanding)
		now.add(a.queue.take(batchMax-len(batch), weightMax-now.weight()))
		a.watchRejections(ctx, now)
		before = now
		go a.commit(ctx, now) // Run waits for it
	}
}

// flight is a raft entry on its way.
type flight struct {
	batch    []*ticket
	v        *verifier
	cmd      *Apply
	outcomes []*Outcome
	left     []*api.Plan
	refused  []string
	// done is closed when the entry is in the log or failed; then whole holds which.
	done  chan struct{}
	whole bool
}

// wait waits for the entry's end and reports whether all of it is in the state.
func (f *flight) wait() bool {
	if f == nil {
		return true
	}
	<-f.done
	return f.whole
}

func (f *flight) weight() int {
	n := 0
	for _, t := range f.batch {
		n += t.weight()
	}
	return n
}

// verify checks plans on the latest state and, if there is one, on top of the entry under way.
func (a *Applier) verify(ctx context.Context, batch []*ticket, under *flight) (*flight, error) {
	began := time.Now()
	nodes, err := a.FleetCache.Fleet(ctx)
	a.Metrics.Since("nomad.plan.wait_for_index", began)
	if err != nil {
		return nil, err
	}
	defer a.Metrics.Since("nomad.plan.evaluate", time.Now())
	f := &flight{v: newVerifier(nodes, a.State.Read()), cmd: &Apply{}, done: make(chan struct{})}
	if under != nil {
		f.v.assume(under.left)
	}
	f.add(batch)
	return f, nil
}

// assume counts what plans that may be committed already place. What they stop counts until its node is
// done with it.
func (v *verifier) assume(plans []*api.Plan) {
	for _, p := range plans {
		v.assumeQuota(p)
		for _, list := range p.NodeAllocation {
			for _, a := range list {
				if isNew(a) {
					v.edit.PutAlloc(withJob(p, a))
				}
			}
		}
	}
}

func (f *flight) add(batch []*ticket) {
	for _, t := range batch {
		checked := f.v.check(t.Plan)
		f.v.keepVictims(checked)
		out := &Outcome{PlanResult: checked.result(), Whole: len(checked.refused) == 0}
		evals := preempted(f.v.tx, checked.plan)
		if out.Whole {
			evals = append(slices.Clip(t.Evals), evals...)
		} else {
			out.RefreshIndex = f.v.tx.Index()
		}
		f.batch = append(f.batch, t)
		f.outcomes = append(f.outcomes, out)
		f.left = append(f.left, checked.plan)
		f.refused = append(f.refused, refusedNodes(checked)...)
		e := entryOf(checked.plan, evals)
		e.compact()
		f.cmd.Plans = append(f.cmd.Plans, e)
	}
}

// compact packs the placements; what cannot be packed stays as it is, and fails when the entry is encoded.
func (e *Entry) compact() {
	if b, err := pack(e.Places); err == nil && len(e.Places) > 0 {
		e.Packed, e.Places = b, nil
	}
}

// keepVictims cancels the evictions for a placement that was refused.
func (v *verifier) keepVictims(c *checked) {
	for node := range c.refused {
		for _, a := range c.plan.NodePreemptions[node] {
			v.restore(a.ID)
		}
		delete(c.plan.NodePreemptions, node)
	}
}

// preempted makes an evaluation for every other job that loses allocations.
func preempted(tx *state.Txn, p *api.Plan) []*api.Evaluation {
	type key struct{ ns, id string }
	jobs := map[key]bool{}
	for _, list := range p.NodePreemptions {
		for _, a := range list {
			if old := tx.Alloc(a.ID); old != nil {
				jobs[key{old.Namespace, old.JobID}] = true
			}
		}
	}
	var evals []*api.Evaluation
	for k := range jobs {
		if j := tx.Job(k.ns, k.id); j != nil {
			evals = append(evals, &api.Evaluation{
				ID: uuid.NewString(), Namespace: k.ns, JobID: k.id, Type: j.Type, Priority: j.Priority,
				TriggeredBy: api.TriggerPreemption, JobModifyIndex: j.JobModifyIndex, Status: api.EvalStatusPending,
				CreateTime: time.Now().UnixNano(),
			})
		}
	}
	return evals
}

// commit proposes the entry. When that fails, each plan is tried alone, so that one that cannot be
// applied does not take others with it.
func (a *Applier) commit(ctx context.Context, f *flight) {
	defer close(f.done)
	err := a.propose(ctx, f)
	if err != nil {
		a.Log.Warn("plans were not committed", "plans", len(f.batch), "error", err)
	}
	if err == nil || len(f.batch) == 1 || ctx.Err() != nil {
		a.answer(f, err)
		return
	}
	f.whole = false
	for _, t := range f.batch {
		one, err := a.verify(ctx, []*ticket{t}, nil)
		if err != nil {
			answerAll([]*ticket{t}, err)
			continue
		}
		a.answer(one, a.propose(ctx, one))
	}
}

func answerAll(batch []*ticket, err error) {
	for _, t := range batch {
		if errors.Is(err, context.Canceled) {
			t.refuse()
			continue
		}
		t.done <- answer{err: err}
	}
}

func (a *Applier) answer(f *flight, err error) {
	for i, t := range f.batch {
		switch {
		case errors.Is(err, fault.Conflict):
			r := &Refused{map[string]string{"": err.Error()}}
			t.done <- answer{outcome: refusedWhole(r, a.State.Read().Index())}
		case err != nil:
			t.done <- answer{err: err}
		default:
			t.done <- answer{outcome: f.outcomes[i]}
		}
	}
}

func (a *Applier) propose(ctx context.Context, f *flight) error {
	began := time.Now()
	res, err := a.Raft.Propose(ctx, f.cmd)
	a.Metrics.Since("nomad.plan.apply", began)
	if err != nil {
		return fmt.Errorf("commit plans: %w", err)
	}
	refusals, ok := res.Value.([]*Refused)
	if !ok || len(refusals) != len(f.batch) {
		return fault.New(fault.Internal, "plan apply answered a %T", res.Value)
	}
	f.whole = true
	for i, r := range refusals {
		f.outcomes[i].AllocIndex = res.Index
		if r != nil {
			f.outcomes[i], f.whole = refusedWhole(r, res.Index), false
		}
	}
	return nil
}

func refusedWhole(r *Refused, index uint64) *Outcome {
	return &Outcome{PlanResult: &api.PlanResult{
		RejectedNodes: slices.Sorted(maps.Keys(r.Reasons)), Reasons: r.Reasons, RefreshIndex: index, AllocIndex: index,
	}}
}

func sortedNodes(p *api.Plan) []string {
	var all []string
	for _, m := range []map[string][]*api.Allocation{p.NodeUpdate, p.NodeAllocation, p.NodePreemptions} {
		all = slices.AppendSeq(slices.Grow(all, len(m)), maps.Keys(m))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
