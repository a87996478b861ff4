package allocs

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// TestHealthDoesNotFollowTheHostsClock: what people do to the host's clock makes nothing healthy too early or too late,
// nor late for its deadline.
func TestHealthDoesNotFollowTheHostsClock(t *testing.T) {
	t.Parallel()
	g := &api.TaskGroup{Tasks: []*api.Task{{Name: "t"}}}
	r := rules{least: 10 * time.Second, deadline: time.Minute}
	for name, set := range map[string]time.Duration{"kept": 0, "set back": -10 * 365 * 24 * time.Hour, "set forward": 10 * 365 * 24 * time.Hour} {
		wall, up := time.Unix(1_700_000_000, 0), time.Duration(0)
		c := &clock{wall: func() time.Time { return wall }, up: func() time.Duration { return up }, seen: map[int64]moment{}}
		passes := func(d time.Duration) { wall, up = wall.Add(d), up+d }
		running := map[string]*api.TaskState{"t": {State: api.TaskStateRunning, StartedAt: wall}}
		pending := map[string]*api.TaskState{"t": {State: api.TaskStatePending}}
		began := c.at(wall)
		look := func(states map[string]*api.TaskState) opinion { return assess(g, states, r, began, c.now(), c.at) }
		passes(5 * time.Second)
		if o := look(running); o.decided || o.again-c.now() != moment(5*time.Second) {
			t.Errorf("%s: at first %+v", name, o)
		}
		wall = wall.Add(set)
		passes(4 * time.Second)
		if o := look(running); o.decided || o.again-c.now() != moment(time.Second) {
			t.Errorf("%s: too early %+v", name, o)
		}
		if o := look(pending); o.decided || o.again-c.now() != moment(51*time.Second) {
			t.Errorf("%s: before the deadline %+v", name, o)
		}
		passes(time.Second)
		if o := look(running); !o.healthy {
			t.Errorf("%s: in time %+v", name, o)
		}
		passes(50 * time.Second)
		if o := look(pending); !o.decided || o.healthy {
			t.Errorf("%s: after the deadline %+v", name, o)
		}
	}
}

// TestClockKnowsWhatAnEarlierAgentSaw: times of an earlier process count on; those that are yet to come begin now.
func TestClockKnowsWhatAnEarlierAgentSaw(t *testing.T) {
	t.Parallel()
	wall := time.Unix(1_700_000_000, 0)
	c := &clock{wall: func() time.Time { return wall }, up: func() time.Duration { return time.Second }, seen: map[int64]moment{}}
	for ago, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 0: 0, -time.Hour: 0, 250 * 365 * 24 * time.Hour: epoch} {
		if got := c.now() - c.at(wall.Add(-ago)); got != moment(want) {
			t.Errorf("%v ago became %v", ago, time.Duration(got))
		}
	}
	if at := c.at(time.Time{}); at < 0 {
		t.Errorf("no time at all is %v", time.Duration(at))
	}
}
