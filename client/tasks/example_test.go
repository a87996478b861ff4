package tasks_test

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/tasks"
)

// A task that fails is started again as often as its policy allows within the interval.
func ExampleTracker_Next() {
	policy := &api.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: 5 * time.Second, Mode: "fail"}
	still := func(time.Duration) time.Duration { return 0 }
	now := time.Unix(1_700_000_000, 0)

	var t tasks.Tracker
	for range 3 {
		var d tasks.Decision
		t, d = t.Next(policy, tasks.Ending{}, true, now, still)
		fmt.Println(d.Restart, d.Delay, d.Failed, d.Reason)
		now = now.Add(10 * time.Second)
	}
	// Output:
	// true 5s false Restart within policy
	// true 5s false Restart within policy
	// false 0s true Exceeded allowed attempts 2 in interval 1m0s and mode is "fail"
}
