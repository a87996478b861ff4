package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// operation is one call that the state asks for. name is new for every intent.
type operation struct {
	name string
	// plugin is whose success at something else has a failed call repeated before its time; empty when none has.
	plugin string
	// do makes the call; its argument counts the previous attempts.
	do func(context.Context, try) error
	// failed records the failure; its argument counts the attempts, this one included.
	failed func(context.Context, failure, try) error
}

// doAll does the operations that are due until none is left, and returns when the next one is: first those that were
// not tried yet, in their order, then the one that has been due the longest, so that calls that hang take turns with
// the others. They are read again after each call: its reply may have made others needless.
func (r *Reconciler) doAll(ctx context.Context, t tries, read func() []operation) time.Time {
	for ctx.Err() == nil {
		var first *operation
		var due time.Time
		for _, o := range read() {
			if at := t.failed[o.name].due; first == nil || at.Before(due) {
				first, due = &o, at
			}
		}
		if first == nil || due.After(r.now()) {
			return due
		}
		r.do(ctx, t, *first)
	}
	return time.Time{}
}

func (r *Reconciler) do(ctx context.Context, t tries, o operation) {
	ctx = context.WithValue(ctx, stopwatch{}, new(time.Duration))
	err := o.do(ctx, t.failed[o.name])
	if err == nil && o.plugin != "" {
		t.passed[o.plugin] = true
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	f := failed(err)
	next := t.note(o, f, r.now(), wait{r.limits.RetryMin, r.limits.RetryMax, func(d time.Duration) time.Duration { return r.chance(o.name, d) }})
	r.log.Debug("call failed", "call", o.name, "try", next.failed, "next", next.due, "error", err)
	if errors.Is(err, errReplaced) {
		return
	}
	if err := o.failed(ctx, f, next); err != nil && !errors.Is(err, errReplaced) && ctx.Err() == nil {
		r.log.Warn("failed call was not recorded", "call", o.name, "error", err)
	}
}

// soon spreads the keys that need not wait for their time any more.
func (r *Reconciler) soon(k key) time.Duration {
	return r.chance("soon "+k.String(), max(r.limits.RetryMin/2, 1))
}

// errReplaced marks a reply that the state refused: its intent was replaced in the meantime.
var errReplaced = errors.New("too late")

// record proposes the result of a call. While it is not recorded the call counts as one of unknown outcome.
func (r *Reconciler) record(ctx context.Context, c fsm.Command) error {
	timed(ctx, c)
	if _, err := r.raft.Propose(ctx, c); err != nil {
		if err = replacedOr(err); !errors.Is(err, errReplaced) {
			err = &lostAnswer{err}
		}
		return err
	}
	return nil
}

// replacedOr marks the refusal of a command whose intent was replaced.
func replacedOr(err error) error {
	if errors.Is(err, fault.Conflict) || errors.Is(err, fault.NotFound) {
		return fmt.Errorf("%w: %w", errReplaced, err)
	}
	return err
}

// quietly leaves a failure to the log: the volume works, and the call is repeated.
func (r *Reconciler) quietly(context.Context, failure, try) error { return nil }

// stopwatch is the key of a context's value that holds the time of the last call of an operation.
type stopwatch struct{}

// measure notes the time of a call that began at a time.
func (r *Reconciler) measure(ctx context.Context, began time.Time) {
	if took, ok := ctx.Value(stopwatch{}).(*time.Duration); ok {
		*took = r.now().Sub(began)
	}
}

// timed adds the time of the operation's last call to the command that records its result.
func timed(ctx context.Context, c fsm.Command) {
	took, ok := ctx.Value(stopwatch{}).(*time.Duration)
	if !ok || *took <= 0 {
		return
	}
	switch c := c.(type) {
	case *commands.Attached:
		c.Took = int64(*took)
	case *commands.Provisioned:
		c.Answer.Took = int64(*took)
	case *commands.EndDelete:
		c.Answer.Took = int64(*took)
	case *commands.EndExpand:
		c.Answer.Took = int64(*took)
	case *commands.SnapshotAnswer:
		c.Took = int64(*took)
	}
}
