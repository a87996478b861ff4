package deployments

import (
	"time"

	"github.com/open-nomad/open-nomad/internal/deadlines"
)

// agenda holds when each active deployment must be evaluated, the earliest first.
type agenda struct {
	by    map[string]*item
	times deadlines.Heap[string, *item]
}

// item is one deployment of the agenda.
type item struct {
	id string
	// healthy is how many allocations were healthy when its job was evaluated last.
	healthy int
	// stepped is when its last step was taken.
	stepped time.Time
}

func newAgenda() *agenda { return &agenda{by: map[string]*item{}} }

func (w *agenda) clear() { *w = *newAgenda() }

// item returns the entry of a deployment, which is made when there is none.
func (w *agenda) item(id string) *item {
	e := w.by[id]
	if e == nil {
		e = &item{id: id}
		w.by[id] = e
	}
	return e
}

// set sets when to evaluate a deployment; zero means not before it changes.
func (w *agenda) set(e *item, at time.Time) {
	if at.IsZero() {
		w.times.Drop(e.id)
		return
	}
	w.times.Set(e.id, at, e)
}

func (w *agenda) drop(id string) {
	w.times.Drop(id)
	delete(w.by, id)
}

// next is when the first deployment is due; zero means never.
func (w *agenda) next() time.Time {
	at, _ := w.times.Next()
	return at
}

// due removes and returns the deployments to evaluate now.
func (w *agenda) due(now time.Time, most int) []*item {
	var out []*item
	for len(out) < most {
		_, e, due := w.times.Take(now)
		if !due {
			break
		}
		out = append(out, e)
	}
	return out
}
