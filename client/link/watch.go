package link

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/retry"
)

// A server for which calls wait is asked every watchMin for a sign of life, and has watchWait to give it.
// In large clusters it is asked more seldom: a watchShare-th of the time between heartbeats, which the
// servers choose by the number of nodes, and at least every watchMax.
const (
	watchMin   = 900 * time.Millisecond
	watchMax   = 10 * time.Second
	watchShare = 20
	watchWait  = time.Second
)

// SetPace takes over the time between heartbeats that the servers set.
func (l *Link) SetPace(beat time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace = min(max(beat/watchShare, watchMin), watchMax)
}

// sign is what a server shows of itself.
type sign int

const (
	silent     sign = iota
	leaderless      // it replies and knows no leader, as when it is cut off from the other servers
	sound
)

// watch ends the calls that wait for a server which fell silent or lost the cluster, so that they go to
// another one: a host that lost its power or network resets no connection. A server is left only for one
// that shows more; when all are slow or without a leader, calls go on waiting where they are.
func (l *Link) watch(ctx context.Context) {
	for retry.Sleep(ctx, l.untilLook()) {
		var checks sync.WaitGroup
		for _, address := range l.waitedFor() {
			checks.Go(func() { l.check(ctx, address) })
		}
		checks.Wait()
	}
}

func (l *Link) untilLook() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace
}

// waitedFor lists the servers for which calls wait. One that is the only server is not watched: its calls
// could go nowhere else.
func (l *Link) waitedFor() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reachable()) < 2 {
		return nil
	}
	return slices.Collect(maps.Keys(l.busy))
}

func (l *Link) check(ctx context.Context, address string) {
	got := l.ask(ctx, address)
	if got == sound || ctx.Err() != nil {
		return
	}
	better := l.better(ctx, address, got)
	if better == "" {
		return
	}
	l.log.Warn("server is left for another one", "server", address, "silent", got == silent, "next", better)
	l.leave(address, better)
}

// ask asks one server for a sign of life.
func (l *Link) ask(ctx context.Context, address string) sign {
	ctx, cancel := context.WithTimeout(ctx, watchWait)
	defer cancel()
	l.mu.Lock()
	c, err := l.to(address)
	l.mu.Unlock()
	if err != nil {
		return silent
	}
	r, err := wire.StatusLeader.Call(ctx, c, &api.QueryOptions{})
	switch {
	case passing(err), errors.Is(err, fault.Timeout), errors.Is(err, context.Canceled):
		return silent
	case err != nil: // it refuses the question
		return sound
	case r.Leader == "":
		return leaderless
	}
	return sound
}

// better is the first server that shows more than was got of the one that is to be left; empty when none does.
func (l *Link) better(ctx context.Context, than string, got sign) string {
	l.mu.Lock()
	others := slices.DeleteFunc(l.reachable(), func(a string) bool { return a == than })
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		address string
		sign    sign
	}
	answers := make(chan answer, len(others))
	for _, address := range others {
		go func() { answers <- answer{address, l.ask(ctx, address)} }()
	}
	best, shown := "", got
	for range others {
		switch a := <-answers; {
		case a.sign == sound:
			return a.address
		case a.sign > shown:
			best, shown = a.address, a.sign
		}
	}
	return best
}

// leave ends the connection to a server, and so all calls on it, and asks the other one from now on.
func (l *Link) leave(address, next string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conns[address]; c != nil {
		delete(l.conns, address)
		_ = c.Close()
	}
	if l.use == address {
		l.use = next
	}
}
