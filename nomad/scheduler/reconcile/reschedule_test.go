package reconcile_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

var epoch = time.Unix(1_700_000_000, 0)

// delays fails an allocation n times, each right when it was placed again, and collects the delays.
func delays(policy *api.ReschedulePolicy, n int, lives time.Duration) []time.Duration {
	now := epoch
	a := &api.Allocation{ID: "a", NodeID: "n"}
	var all []time.Duration
	for range n {
		now = now.Add(lives)
		a.TaskStates, a.ModifyTime = map[string]*api.TaskState{"t": {FinishedAt: now}}, now.UnixNano()
		at, again := reconcile.NextReschedule(a, policy)
		if !again {
			return append(all, -1)
		}
		all = append(all, at.Sub(now))
		now = at
		a = &api.Allocation{ID: a.ID, NodeID: a.NodeID, RescheduleTracker: reconcile.Track(a, policy, now)}
	}
	return all
}

func TestDelays(t *testing.T) {
	const s = time.Second
	policy := func(function string, limit time.Duration) *api.ReschedulePolicy {
		return &api.ReschedulePolicy{Unlimited: true, Delay: 5 * s, DelayFunction: function, MaxDelay: limit}
	}
	for _, c := range []struct {
		name   string
		policy *api.ReschedulePolicy
		lives  time.Duration
		want   []time.Duration
	}{
		{"constant", policy("constant", 0), s, []time.Duration{5 * s, 5 * s, 5 * s}},
		{"exponential", policy("exponential", 30*s), s, []time.Duration{5 * s, 10 * s, 20 * s, 30 * s, 30 * s, 30 * s, 30 * s, 30 * s}},
		{"fibonacci", policy("fibonacci", 40*s), s, []time.Duration{5 * s, 5 * s, 10 * s, 15 * s, 25 * s, 40 * s, 40 * s}},
		{"falls back after a long life", policy("exponential", 20*s), time.Minute, []time.Duration{5 * s, 10 * s, 20 * s, 5 * s}},
		{"falls back after a life just above the limit", policy("exponential", 20*s), 21 * s, []time.Duration{5 * s, 10 * s, 20 * s, 5 * s}},
		{"limited", &api.ReschedulePolicy{Attempts: 2, Interval: time.Hour, Delay: 5 * s, DelayFunction: "constant"}, s, []time.Duration{5 * s, 5 * s, -1}},
		{"delay beyond interval", &api.ReschedulePolicy{Attempts: 9, Interval: 8 * s, Delay: 5 * s, DelayFunction: "exponential", MaxDelay: time.Hour}, s, []time.Duration{5 * s, -1}},
		{"none", nil, s, []time.Duration{-1}},
		{"zero", &api.ReschedulePolicy{}, s, []time.Duration{-1}},
	} {
		got := delays(c.policy, len(c.want), c.lives)
		for i := range c.want {
			if i >= len(got) || got[i] != c.want[i] {
				t.Errorf("%s: delays %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestAttemptsOutsideOfTheIntervalDoNotCount(t *testing.T) {
	p := &api.ReschedulePolicy{Attempts: 1, Interval: time.Minute, Delay: time.Second, DelayFunction: "constant"}
	if got := delays(p, 3, 2*time.Minute); got[2] != time.Second {
		t.Fatalf("delays %v", got)
	}
}

// The clock of a node is not that of the servers: what it says of an end counts only as far as the servers' allow.
func TestDelayOfAReplacementDoesNotHangOnTheClockOfANode(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": 24 * time.Hour, "behind": -24 * time.Hour} {
		for attempt := range 2 {
			a := &api.Allocation{
				ClientStatus: api.AllocClientStatusFailed, CreateTime: epoch.Add(-time.Minute).UnixNano(), ModifyTime: epoch.UnixNano(),
				TaskStates: map[string]*api.TaskState{"t": {State: api.TaskStateDead, Failed: true, FinishedAt: epoch.Add(skew)}},
			}
			if attempt > 0 {
				a.RescheduleTracker = &api.RescheduleTracker{Events: []*api.RescheduleEvent{{RescheduleTime: epoch.Add(-time.Minute).UnixNano()}}}
			}
			p := &api.ReschedulePolicy{Unlimited: true, Delay: time.Minute, DelayFunction: "exponential", MaxDelay: time.Hour}
			at, again := reconcile.NextReschedule(a, p)
			if wait := at.Sub(epoch); !again || wait < 0 || wait > time.Hour {
				t.Errorf("%s: an allocation whose end the servers heard of at %v is placed again at %v", name, epoch, at)
			}
		}
		a := &api.Allocation{
			ClientStatus: api.AllocClientStatusFailed, ModifyTime: epoch.UnixNano(),
			TaskStates:        map[string]*api.TaskState{"t": {State: api.TaskStateDead, Failed: true, FinishedAt: epoch.Add(skew)}},
			RescheduleTracker: &api.RescheduleTracker{Events: []*api.RescheduleEvent{{RescheduleTime: epoch.Add(-time.Minute).UnixNano()}}},
		}
		if _, again := reconcile.NextReschedule(a, &api.ReschedulePolicy{Attempts: 1, Interval: time.Hour, Delay: 5 * time.Second, DelayFunction: "constant"}); again {
			t.Errorf("%s: the one attempt within an hour was a minute ago, and there is another", name)
		}
	}
}
