package broker

import "container/heap"

// freshRuns is how many fresh evaluations go before a woken one of the same priority gets its turn.
const freshRuns = 3

// readyQueue is one kind's ready evaluations, best first. Those that were woken, which may be very many at once and
// may have been woken for nothing, come after fresh ones of their priority, but for every few of these.
type readyQueue struct {
	fresh, woken byAge
	// run counts the fresh ones that went before a woken one.
	run int
}

// before orders the best evaluations of queues: by priority, fresh ones first, then by age.
func before(a, b *item) bool {
	if a.eval.Priority == b.eval.Priority && a.woken != b.woken {
		return b.woken
	}
	return older(a, b)
}

// older orders by priority, then by age.
func older(a, b *item) bool {
	if a.eval.Priority != b.eval.Priority {
		return a.eval.Priority > b.eval.Priority
	}
	return a.eval.CreateIndex < b.eval.CreateIndex
}

func (q *readyQueue) of(it *item) *byAge {
	if it.woken {
		return &q.woken
	}
	return &q.fresh
}

// next is the queue whose turn it is.
func (q *readyQueue) next() *byAge {
	switch {
	case len(q.woken) == 0:
		return &q.fresh
	case len(q.fresh) == 0:
		return &q.woken
	}
	a, b := q.fresh[0].eval.Priority, q.woken[0].eval.Priority
	if b > a || a == b && q.run >= freshRuns {
		return &q.woken
	}
	return &q.fresh
}

func (q *readyQueue) top() *item { return (*q.next())[0] }

func (q *readyQueue) push(it *item) { heap.Push(q.of(it), it) }

func (q *readyQueue) pop() *item {
	from := q.next()
	top := (*from)[0]
	heap.Pop(from)
	if q.run++; top.woken || len(q.woken) == 0 {
		q.run = 0
	}
	return top
}

func (q *readyQueue) remove(it *item) {
	list := q.of(it)
	for i, x := range *list {
		if x == it {
			heap.Remove(list, i)
			return
		}
	}
}

func (q *readyQueue) len() int { return len(q.fresh) + len(q.woken) }

type byAge []*item

// Len implements heap.Interface.
func (q byAge) Len() int { return len(q) }

// Less implements heap.Interface.
func (q byAge) Less(i, j int) bool { return older(q[i], q[j]) }

// Swap implements heap.Interface.
func (q byAge) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *byAge) Push(x any) {
	if it, ok := x.(*item); ok {
		*q = append(*q, it)
	}
}

// Pop implements heap.Interface.
func (q *byAge) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
