package consensus

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api/fault"
)

// leadsTimeout bounds the wait for a majority.
const leadsTimeout = 5 * time.Second

// lease is how long the confirmation of a majority that this server leads is valid.
type lease struct {
	length time.Duration
	// turn is held by the caller that asks the majority; it guards since and term.
	turn chan struct{}
	// since is when the last request was sent that a majority confirmed in the term. It is read from CLOCK_BOOTTIME, which
	// also runs while the process is frozen and while the host sleeps.
	since time.Duration
	term  uint64
	// handing counts the transfers of leadership under way: their receiver is voted for at once.
	handing atomic.Int32
}

// Term is the raft term of the moment.
func (r *Raft) Term() uint64 { return r.raft.CurrentTerm() }

// Leads fails with fault.NotLeader unless this server leads and has led since it was in the term: then what it has read
// meanwhile is what the leader had. A majority is asked, at most once in a quarter of the heartbeat timeout.
func (r *Raft) Leads(ctx context.Context, term uint64) error {
	asked := bootTime()
	wait, cancel := context.WithTimeout(ctx, leadsTimeout) // a log that hangs never replies
	defer cancel()
	select {
	case r.lease.turn <- struct{}{}:
		defer func() { <-r.lease.turn }()
	case <-wait.Done():
		return notKnown(ctx, wait.Err())
	}
	l := &r.lease
	fresh := l.since >= asked || l.handing.Load() == 0 && bootTime()-l.since <= l.length
	if l.term != term || !fresh {
		since := bootTime()
		if err := r.VerifyLeader(wait); err != nil {
			return notKnown(ctx, err)
		}
		l.since, l.term = since, r.Term()
	}
	if l.term != term || r.Term() != term {
		return fault.New(fault.NotLeader, "this server has lost the leadership since the term %d", term)
	}
	return nil
}

func notKnown(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.NotLeader, "no majority confirms that this server leads: %w", err)
}

func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // no Linux that runs this program lacks the clock
	}
	return time.Duration(t.Nano())
}

// commits is the key of contexts whose proposals are watched.
type commits struct{}

// Commits returns a context for calls of [Raft], and whether one with it, or with one made from it, had a majority so far:
// a command was committed, also one that was refused then, the servers changed, or the leadership was handed over.
func (r *Raft) Commits(ctx context.Context) (context.Context, func() bool) {
	committed := new(atomic.Bool)
	return context.WithValue(ctx, commits{}, committed), committed.Load
}

func noteCommit(ctx context.Context) {
	if committed, watched := ctx.Value(commits{}).(*atomic.Bool); watched {
		committed.Store(true)
	}
}
