package slow

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A step is logged after firstLog, and again after pauses that double up to maxPause. They have no jitter: nothing is
// retried.
const (
	firstLog = 5 * time.Second
	maxPause = 5 * time.Minute
)

// Begin starts to watch a step that needs the path, and logs it while it takes long, until done is called.
func Begin(log hclog.Logger, what, path string) (done func()) {
	start, ended := time.Now(), make(chan struct{})
	var logs sync.WaitGroup
	logs.Go(func() {
		for pause := firstLog; ; pause = min(2*pause, maxPause) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
				log.Warn("starting the agent takes long", "waits_for", what, "path", path, "since", start.UTC().Format(time.RFC3339))
			case <-ended:
				timer.Stop()
				if pause > firstLog {
					log.Info("starting the agent continues", "waited_for", what, "path", path, "took", time.Since(start).Round(time.Millisecond))
				}
				return
			}
		}
	})
	return func() { close(ended); logs.Wait() }
}
