package keyed_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/internal/keyed"
)

func TestUsersOfAKeyShareItsValueUntilTheLastLeaves(t *testing.T) {
	t.Parallel()
	m := keyed.New(func() *int { return new(int) })
	first, second, other := m.Enter("a"), m.Enter("a"), m.Enter("b")
	if first != second || first == other || m.Len() != 2 {
		t.Errorf("%p, %p and %p of another key; %d keys", first, second, other, m.Len())
	}
	m.Leave("a")
	if m.Enter("a") != first {
		t.Error("forgotten while it was in use")
	}
	m.Leave("a")
	m.Leave("a")
	m.Leave("b")
	*first = 1
	if m.Len() != 0 || *m.Enter("a") != 0 {
		t.Errorf("%d keys are left", m.Len())
	}
}

func TestUsersComeAndGoAtOnce(t *testing.T) {
	t.Parallel()
	m := keyed.New(func() *sync.Mutex { return new(sync.Mutex) })
	held := make([]int, 3)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				at := (i + n) % len(held)
				mu := m.Enter(fmt.Sprint(at))
				mu.Lock()
				held[at]++
				mu.Unlock()
				m.Leave(fmt.Sprint(at))
			}
		})
	}
	all.Wait()
	if n := held[0] + held[1] + held[2]; n != 4000 || m.Len() != 0 {
		t.Errorf("%d of 4000 uses, %d keys are left", n, m.Len())
	}
}
