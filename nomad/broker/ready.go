package broker

import "container/heap"

// readyQueue is one kind's ready evaluations, best first.
type readyQueue struct{ list []*item }

// before orders ready evaluations: by priority, then by age.
func before(a, b *item) bool {
	if a.eval.Priority != b.eval.Priority {
		return a.eval.Priority > b.eval.Priority
	}
	return a.eval.CreateIndex < b.eval.CreateIndex
}

func (q *readyQueue) top() *item { return q.list[0] }

func (q *readyQueue) push(it *item) { heap.Push(q, it) }

func (q *readyQueue) pop() *item {
	top := q.list[0]
	heap.Pop(q)
	return top
}

func (q *readyQueue) remove(it *item) {
	for i, x := range q.list {
		if x == it {
			heap.Remove(q, i)
			return
		}
	}
}

// Len implements heap.Interface.
func (q *readyQueue) Len() int { return len(q.list) }

// Less implements heap.Interface.
func (q *readyQueue) Less(i, j int) bool { return before(q.list[i], q.list[j]) }

// Swap implements heap.Interface.
func (q *readyQueue) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }

// Push implements heap.Interface.
func (q *readyQueue) Push(x any) {
	if it, ok := x.(*item); ok {
		q.list = append(q.list, it)
	}
}

// Pop implements heap.Interface.
func (q *readyQueue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}
