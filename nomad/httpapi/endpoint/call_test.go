package endpoint

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestAReadWaitsTenMinutesAtMost(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{0: waitDefault, time.Second: time.Second, time.Hour: 10 * time.Minute} {
		if got := waitBound(api.QueryOptions{MaxWait: asked}); got != want+want/16 {
			t.Errorf("asked for %s: %s", asked, got)
		}
	}
}
