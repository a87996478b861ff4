package reconciler

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Limits are the reconciler's bounds and times; zero fields mean those of [Default].
type Limits struct {
	// FenceAfter is how long a node is down before its attachments are removed.
	FenceAfter time.Duration
	// LeaseMargin is added to the lease of a node that was lost: it counts from when its heartbeat was sent.
	LeaseMargin time.Duration
	// FenceHook is a program that shuts a lost node off, given its id and name; its exit with 0 is proof. Empty means none.
	FenceHook string
	// UnmountAfter is how long a node has to report an unmount before it is asked.
	UnmountAfter time.Duration
	// RetryMin and RetryMax bound the wait between two tries of the same call.
	RetryMin, RetryMax time.Duration
	// AttachTimeout bounds one attach, detach or unmount; MakeTimeout one create, delete, expand or snapshot,
	// twice as long after each time that it was reached, up to MakeTimeoutMax; ListTimeout one list or validation.
	AttachTimeout, MakeTimeout, MakeTimeoutMax, ListTimeout time.Duration
	// TurnAfter is how long an attach or detach keeps others of its plugin and node waiting, and SlowAfter how long it
	// counts at its controller; MakeSlowAfter is that of the calls that make or delete something.
	TurnAfter, SlowAfter, MakeSlowAfter time.Duration
	// Regather is how long nodes that the servers do not know have to be heard after an older state was restored.
	Regather time.Duration
	// LimitExpiry is how long a node gets no more of a plugin's volumes after its driver reported that it can take
	// no more of them.
	LimitExpiry time.Duration
	// Attaching, Detaching and Making bound the calls in flight per controller, Beside the attaches and detaches of one
	// node while others are slow. Calls that are slow do not count.
	Attaching, Detaching, Making, Beside int
	// Patience and LimitExpiry are also those of the service: how long a caller waits for another try after the
	// first one failed.
	Patience time.Duration
}

// Default returns the usual limits.
func Default() Limits {
	return Limits{
		Regather: 30 * time.Second, FenceAfter: 30 * time.Second, LeaseMargin: 2 * time.Second, UnmountAfter: 2 * time.Second,
		RetryMin: time.Second, RetryMax: time.Minute,
		AttachTimeout: 2 * time.Minute, MakeTimeout: 5 * time.Minute, MakeTimeoutMax: time.Hour, ListTimeout: 30 * time.Second,
		TurnAfter: 100 * time.Millisecond, SlowAfter: time.Second, MakeSlowAfter: 30 * time.Second, Patience: 10 * time.Second, LimitExpiry: ledger.LimitExpiry, Attaching: 8, Detaching: 8, Making: 8, Beside: 4,
	}
}

func (l Limits) orDefault() Limits {
	d := Default()
	for _, f := range []struct{ have, standard *time.Duration }{
		{&l.Regather, &d.Regather},
		{&l.FenceAfter, &d.FenceAfter},
		{&l.LeaseMargin, &d.LeaseMargin},
		{&l.UnmountAfter, &d.UnmountAfter},
		{&l.RetryMin, &d.RetryMin},
		{&l.RetryMax, &d.RetryMax},
		{&l.AttachTimeout, &d.AttachTimeout},
		{&l.MakeTimeout, &d.MakeTimeout},
		{&l.MakeTimeoutMax, &d.MakeTimeoutMax},
		{&l.ListTimeout, &d.ListTimeout},
		{&l.TurnAfter, &d.TurnAfter},
		{&l.SlowAfter, &d.SlowAfter},
		{&l.MakeSlowAfter, &d.MakeSlowAfter},
		{&l.Patience, &d.Patience},
		{&l.LimitExpiry, &d.LimitExpiry},
	} {
		if *f.have <= 0 {
			*f.have = *f.standard
		}
	}
	for _, f := range []struct{ have, standard *int }{
		{&l.Attaching, &d.Attaching}, {&l.Detaching, &d.Detaching}, {&l.Making, &d.Making}, {&l.Beside, &d.Beside},
	} {
		if *f.have <= 0 {
			*f.have = *f.standard
		}
	}
	return l
}
