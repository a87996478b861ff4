package login

import (
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad/login/provider"
)

// Limits of logins at providers that have begun.
const (
	pendingMax  = 4096
	pendingLife = 10 * time.Minute
)

// begun is a login at a provider that has begun.
type begun struct {
	provider.Login
	method      string
	methodIndex uint64
	clientNonce string
	until       time.Time
}

// pending keeps logins that have begun by their state.
type pending struct {
	mu sync.Mutex
	by map[string]begun
	// order lists the states by age; those that were taken may still be in it.
	order []string
}

// add keeps a login. The oldest one gives way when there are too many.
func (p *pending) add(b begun, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.until = now.Add(pendingLife)
	p.by[b.State] = b
	p.order = append(p.order, b.State)
	for len(p.order) > 0 {
		oldest, here := p.by[p.order[0]]
		if here && now.Before(oldest.until) && len(p.order) <= pendingMax {
			break
		}
		delete(p.by, p.order[0])
		p.order = p.order[1:]
	}
}

// take returns the login with the state and forgets it.
func (p *pending) take(state string, now time.Time) (begun, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.by[state]
	delete(p.by, state)
	return b, ok && now.Before(b.until)
}
