package deadlines_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/deadlines"
)

// A heap says the same as a map that is searched.
func TestHeapIsLikeAMap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	type mark struct {
		at    time.Time
		value int
	}
	var h deadlines.Heap[int, int]
	model := map[int]mark{}
	nearest := func() (at time.Time, ok bool) {
		for _, m := range model {
			if !ok || m.at.Before(at) {
				at, ok = m.at, true
			}
		}
		return at, ok
	}
	for i := range 5000 {
		key, at := rnd.IntN(50), time.Unix(rnd.Int64N(100), 0)
		switch rnd.IntN(4) {
		case 0, 1:
			model[key] = mark{at, i}
			first, _ := nearest()
			if got := h.Set(key, at, i); got && !at.Equal(first) || !got && at.Before(first) {
				t.Fatalf("step %d: nearest %v at %v, the first is at %v", i, got, at, first)
			}
		case 2:
			h.Drop(key)
			delete(model, key)
		default:
			first, some := nearest()
			key, value, due := h.Take(at)
			if want := some && !first.After(at); due != want || due && (model[key] != mark{first, value}) {
				t.Fatalf("step %d: took %d with %d, %v; want %v of %v", i, key, value, due, want, model)
			}
			if due {
				delete(model, key)
			}
		}
		value, ok := h.Get(key)
		if m, known := model[key]; ok != known || value != m.value {
			t.Fatalf("step %d: %d has %d, %v; want %v", i, key, value, ok, m)
		}
		at, ok = h.Next()
		if want, some := nearest(); ok != some || !at.Equal(want) || h.Len() != len(model) {
			t.Fatalf("step %d: next %v, %v of %d; want %v, %v of %d", i, at, ok, h.Len(), want, some, len(model))
		}
	}
}
