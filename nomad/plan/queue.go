package plan

import (
	"container/heap"
	"context"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Submission is a plan and the evaluations to be written when it is committed as a whole.
type Submission struct {
	Plan  *api.Plan
	Evals []*api.Evaluation
}

// Outcome is what became of a submission. Whole reports that nothing was left out and the evaluations
// were written.
type Outcome struct {
	*api.PlanResult
	Whole bool
}

type ticket struct {
	Submission
	order uint64
	done  chan answer
}

type answer struct {
	outcome *Outcome
	err     error
}

// queue holds waiting plans: higher priority first, then first come first served.
type queue struct {
	mu      sync.Mutex
	waiting tickets
	order   uint64
	closed  bool
	wake    chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(s Submission) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order++
	t := &ticket{s, q.order, make(chan answer, 1)}
	if q.closed {
		t.refuse()
		return t
	}
	heap.Push(&q.waiting, t)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return t
}

// refuse replies that this server does not lead.
func (t *ticket) refuse() {
	t.done <- answer{err: fault.New(fault.NotLeader, "this server does not apply plans any more")}
}

// close refuses what waits and what comes.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, t := range q.waiting {
		t.refuse()
	}
	q.waiting = nil
}

// depth is the number of plans that wait.
func (q *queue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// withdraw takes a plan out that still waits, and reports whether it did.
func (q *queue) withdraw(t *ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waiting, t)
	if at >= 0 {
		heap.Remove(&q.waiting, at)
	}
	return at >= 0
}

// next waits for plans and takes the best of them.
func (q *queue) next(ctx context.Context) ([]*ticket, error) {
	for {
		if batch := q.take(batchMax, weightMax); len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take takes at most so many plans, and after the first only as long as they are not too heavy together.
func (q *queue) take(limit, weight int) []*ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*ticket
	for len(q.waiting) > 0 && len(batch) < limit {
		weight -= q.waiting[0].weight()
		if weight < 0 && len(batch) > 0 {
			return batch
		}
		if t, ok := heap.Pop(&q.waiting).(*ticket); ok {
			batch = append(batch, t)
		}
	}
	return batch
}

// weight is the number of allocations that the plan touches.
func (t *ticket) weight() int {
	n := 1
	for _, m := range []map[string][]*api.Allocation{t.Plan.NodeUpdate, t.Plan.NodeAllocation, t.Plan.NodePreemptions} {
		for _, list := range m {
			n += len(list)
		}
	}
	return n
}

type tickets []*ticket

func (t tickets) Len() int      { return len(t) }
func (t tickets) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t tickets) Less(i, j int) bool {
	if a, b := t[i].Plan.Priority, t[j].Plan.Priority; a != b {
		return a > b
	}
	return t[i].order < t[j].order
}

// Push implements heap.Interface.
func (t *tickets) Push(x any) {
	if one, ok := x.(*ticket); ok {
		*t = append(*t, one)
	}
}

// Pop implements heap.Interface.
func (t *tickets) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
