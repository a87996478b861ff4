package tasks

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// jitterShare is the largest random part of a restart delay.
const jitterShare = 4 // a quarter

// Reasons of decisions, as users read them.
const (
	reasonWithin        = "Restart within policy"
	reasonNone          = "Policy allows no restarts"
	reasonUnrecoverable = "Error was unrecoverable"
)

// Tracker counts the restarts of one task in the present window of its policy.
type Tracker struct {
	// Count is the number of restarts since WindowStart.
	Count int
	// WindowStart is zero before the first restart.
	WindowStart time.Time
}

// Ending is how one attempt of a task ended.
type Ending struct {
	// Success is set when the main process exited as it should.
	Success bool
	// Unrecoverable is set when trying again cannot help.
	Unrecoverable bool
}

// Decision is what follows the end of an attempt.
type Decision struct {
	// Restart is set when the task is to be started again after Delay.
	Restart bool
	Delay   time.Duration
	// Failed is set when the task has failed for good.
	Failed bool
	// Reason is for people; empty when the task is simply done.
	Reason string
}

// Next decides what follows an ending. again is set when the task is restarted after success as well; jitter returns a
// random part of at most its argument.
func (t Tracker) Next(p *api.RestartPolicy, e Ending, again bool, now time.Time, jitter func(time.Duration) time.Duration) (Tracker, Decision) {
	if e.Success && !again {
		return t, Decision{}
	}
	if e.Unrecoverable {
		return t, Decision{Failed: true, Reason: reasonUnrecoverable}
	}
	if p == nil || p.Attempts <= 0 {
		return t, Decision{Failed: true, Reason: reasonNone}
	}
	// A window that begins in the future was begun before the clock was set back.
	if t.WindowStart.IsZero() || t.WindowStart.After(now) || !now.Before(t.WindowStart.Add(p.Interval)) {
		t = Tracker{WindowStart: now}
	}
	t.Count++
	if t.Count <= p.Attempts {
		return t, Decision{Restart: true, Delay: p.Delay + jitter(p.Delay/jitterShare), Reason: reasonWithin}
	}
	reason := fmt.Sprintf("Exceeded allowed attempts %d in interval %v and mode is %q", p.Attempts, p.Interval, p.Mode)
	if p.Mode == api.RestartPolicyModeDelay {
		wait := t.WindowStart.Add(p.Interval).Sub(now)
		return t, Decision{Restart: true, Delay: wait + jitter(p.Delay/jitterShare), Reason: reason}
	}
	return t, Decision{Failed: true, Reason: reason}
}
