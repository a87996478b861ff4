package reconcile

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// trackedMin is how many attempts are remembered at least when they are not limited.
const trackedMin = 5

// NextReschedule is when a failed allocation is to be placed again; false when its policy says no.
func NextReschedule(a *api.Allocation, policy *api.ReschedulePolicy) (time.Time, bool) {
	if policy == nil || !policy.Unlimited && (policy.Attempts <= 0 || policy.Interval <= 0) {
		return time.Time{}, false
	}
	ended := EndedAt(a)
	delay := nextDelay(a, policy, ended)
	if !policy.Unlimited {
		if attemptsWithin(a.RescheduleTracker, ended, policy.Interval) >= policy.Attempts || delay >= policy.Interval {
			return time.Time{}, false
		}
	}
	return ended.Add(delay), true
}

func attemptsWithin(t *api.RescheduleTracker, now time.Time, interval time.Duration) int {
	if t == nil {
		return 0
	}
	n := 0
	for _, e := range t.Events {
		if now.UnixNano()-e.RescheduleTime < int64(interval) {
			n++
		}
	}
	return n
}

// nextDelay walks over the earlier attempts: each makes the delay longer up to the policy's maximum.
// When an attempt at the maximum lived longer than it, the delays start again.
func nextDelay(a *api.Allocation, p *api.ReschedulePolicy, ended time.Time) time.Duration {
	d := progression{policy: p}
	if a.RescheduleTracker == nil {
		return d.next()
	}
	events := a.RescheduleTracker.Events
	for i := range events {
		delay := d.next()
		died := ended.UnixNano()
		if i+1 < len(events) {
			// Events do not keep their delay: take the longest, so that none is thought to have lived long.
			died = events[i+1].RescheduleTime - int64(p.MaxDelay)
		}
		if d.capped(delay) && died-events[i].RescheduleTime > int64(p.MaxDelay) {
			d = progression{policy: p}
		}
	}
	return d.next()
}

// progression yields the delays of a policy one after the other.
type progression struct {
	policy       *api.ReschedulePolicy
	last, before time.Duration
}

func (d *progression) next() time.Duration {
	p := d.policy
	delay := p.Delay
	switch {
	case d.last == 0:
	case p.DelayFunction == "exponential":
		delay = d.last * 2
	case p.DelayFunction == "fibonacci":
		delay = d.last + d.before
	}
	if p.MaxDelay > 0 && delay > p.MaxDelay || delay < 0 {
		delay = p.MaxDelay
	}
	d.before, d.last = d.last, delay
	return delay
}

func (d *progression) capped(delay time.Duration) bool {
	return d.policy.DelayFunction != "constant" && d.policy.MaxDelay > 0 && delay >= d.policy.MaxDelay
}

// What became of the last attempt to place a failed allocation again.
const (
	rescheduledOK = "ok"
	NoPlacement   = "no placement"
)

// Track is the history of a failed allocation with the attempt that begins now.
func Track(prev *api.Allocation, policy *api.ReschedulePolicy, now time.Time) *api.RescheduleTracker {
	t := &api.RescheduleTracker{LastReschedule: rescheduledOK}
	if prev.RescheduleTracker != nil {
		t.Events = append(t.Events, prev.RescheduleTracker.Events...)
	}
	t.Events = append(t.Events, &api.RescheduleEvent{
		RescheduleTime: now.UnixNano(), PrevAllocID: prev.ID, PrevNodeID: prev.NodeID,
	})
	if policy == nil {
		return t
	}
	if policy.Unlimited {
		t.Events = t.Events[max(0, len(t.Events)-trackedFor(policy)):]
		return t
	}
	for len(t.Events) > 1 && now.UnixNano()-t.Events[0].RescheduleTime >= int64(policy.Interval) {
		t.Events = t.Events[1:]
	}
	return t
}

// trackedFor is enough attempts to know from them that the delay has reached its maximum.
func trackedFor(p *api.ReschedulePolicy) int {
	d, n := progression{policy: p}, 0
	for n < 64 && p.MaxDelay > 0 && p.DelayFunction != "constant" && d.next() < p.MaxDelay {
		n++
	}
	return max(trackedMin, n+1)
}

// AvoidNodes are the nodes on which the allocation and its predecessors failed.
func AvoidNodes(prev *api.Allocation) []string {
	nodes := []string{prev.NodeID}
	if prev.RescheduleTracker != nil {
		for _, e := range prev.RescheduleTracker.Events {
			nodes = append(nodes, e.PrevNodeID)
		}
	}
	return nodes
}
