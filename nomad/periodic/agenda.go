package periodic

import (
	"time"

	"github.com/open-nomad/open-nomad/internal/deadlines"
)

// name is one job.
type name struct{ namespace, id string }

// entry is a job's next launch: due is the time that its crons name.
type entry struct {
	name
	due time.Time
}

// agenda is what comes next, the nearest first, with the time that is due. When to look may be later, for a launch that is
// tried again.
type agenda struct {
	launches deadlines.Heap[name, time.Time]
}

func newAgenda() *agenda { return &agenda{} }

// has reports whether the job has a next launch.
func (a *agenda) has(n name) bool {
	_, has := a.launches.Get(n)
	return has
}

// set makes due the next launch of the job, to be looked at when it is wake; zero takes the job off.
func (a *agenda) set(n name, due, wake time.Time) {
	if due.IsZero() {
		a.launches.Drop(n)
		return
	}
	a.launches.Set(n, wake, due)
}

// next is when to look again.
func (a *agenda) next() (time.Time, bool) { return a.launches.Next() }

// take takes off what is to be looked at by now.
func (a *agenda) take(now time.Time) (out []entry) {
	for n, due, some := a.launches.Take(now); some; n, due, some = a.launches.Take(now) {
		out = append(out, entry{n, due})
	}
	return out
}
