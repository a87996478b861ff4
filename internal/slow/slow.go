package slow

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Something takes long after tellAfter, and is told again after twice as long each time, at most tellEvery.
const (
	tellAfter = 5 * time.Second
	tellEvery = 5 * time.Minute
)

// Begin says that something begins, which needs the path. It is told in the log while it lasts for long; done ends that.
func Begin(log hclog.Logger, what, path string) (done func()) {
	begun, over := time.Now(), make(chan struct{})
	var told sync.WaitGroup
	told.Go(func() {
		for pause := tellAfter; ; pause = min(2*pause, tellEvery) {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
				log.Warn("the agent does not start yet: this takes long, and goes on", "waits_for", what, "path", path, "since", begun.UTC().Format(time.RFC3339))
			case <-over:
				timer.Stop()
				if pause > tellAfter {
					log.Info("the agent goes on starting", "waited_for", what, "path", path, "took", time.Since(begun).Round(time.Millisecond))
				}
				return
			}
		}
	})
	return func() { close(over); told.Wait() }
}
