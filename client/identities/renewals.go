package identities

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Change modes of an identity; any other does nothing when it is renewed.
const (
	ChangeRestart = "restart"
	ChangeSignal  = "signal"
)

const (
	// periodMin is the least time between two renewals of an identity.
	periodMin = time.Second
	// jitterShare of the period is the largest random delay of a renewal: a fifth.
	jitterShare = 5
	// lateMax is the largest random delay of a renewal that is overdue, as after a restart of the agent.
	lateMax = 10 * time.Second
)

// Renewals decides when the identities of a running task are renewed: after half of their ttl and a random delay.
// Identities that are due at the same time are renewed together.
type Renewals struct {
	list   []*api.WorkloadIdentity
	signed []time.Time
}

// RenewalsOf returns the renewals of a task whose identities were signed at its start. They are empty when nothing of it is
// renewed: a new token is of no use where it replaces no file and the task is not restarted or notified.
func RenewalsOf(t *api.Task, started time.Time) *Renewals {
	r := &Renewals{}
	for _, id := range Shown(t) {
		if id.TTL > 0 && (id.File || id.ChangeMode == ChangeRestart || id.ChangeMode == ChangeSignal) {
			r.list, r.signed = append(r.list, id), append(r.signed, started)
		}
	}
	return r
}

// Empty reports whether there is nothing to renew.
func (r *Renewals) Empty() bool { return len(r.list) == 0 }

func period(id *api.WorkloadIdentity) time.Duration { return max(id.TTL/2, periodMin) }

// Wait returns the time until the next renewal; jitter returns a random duration below its argument.
func (r *Renewals) Wait(now time.Time, jitter func(time.Duration) time.Duration) time.Duration {
	next, spread := time.Duration(-1), time.Duration(0)
	for i, id := range r.list {
		p := period(id)
		wait := min(r.signed[i].Add(p).Sub(now), p) // the clock may have been set back
		if wait <= 0 {
			wait, p = 0, min(p, jitterShare*lateMax)
		}
		if next < 0 || wait < next {
			next, spread = wait, p/jitterShare
		}
	}
	return max(next, 0) + jitter(spread)
}

// Due returns the identities that are to be renewed.
func (r *Renewals) Due(now time.Time) (list []*api.WorkloadIdentity) {
	for i, id := range r.list {
		if r.due(i, now) {
			list = append(list, id)
		}
	}
	return list
}

func (r *Renewals) due(i int, now time.Time) bool { return now.Sub(r.signed[i]) >= period(r.list[i]) }

// Renewed records that the identities which were due at a time have been renewed then.
func (r *Renewals) Renewed(at time.Time) {
	for i := range r.list {
		if r.due(i, at) {
			r.signed[i] = at
		}
	}
}
