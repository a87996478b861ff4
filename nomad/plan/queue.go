package plan

import (
	"container/heap"
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/api"
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
	wake    chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(s Submission) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order++
	t := &ticket{s, q.order, make(chan answer, 1)}
	heap.Push(&q.waiting, t)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return t
}

// next waits for plans and takes at most limit of them.
func (q *queue) next(ctx context.Context, limit int) ([]*ticket, error) {
	for {
		if batch := q.take(limit); len(batch) > 0 {
			return batch, nil
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *queue) take(limit int) []*ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []*ticket
	for len(q.waiting) > 0 && len(batch) < limit {
		if t, ok := heap.Pop(&q.waiting).(*ticket); ok {
			batch = append(batch, t)
		}
	}
	return batch
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
