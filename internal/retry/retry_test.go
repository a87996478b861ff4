package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/retry"
)

func TestPausesDoubleUpToTheBoundWithJitter(t *testing.T) {
	t.Parallel()
	const least, most = 100 * time.Millisecond, time.Second
	seen := map[time.Duration]bool{}
	for range 50 {
		p := retry.Between(least, most)
		for _, around := range []time.Duration{least, 2 * least, 4 * least, 8 * least, most, most} {
			if d := p.Next(); d < around/2 || d > around+around/2+1 {
				t.Errorf("%v around %v", d, around)
			} else {
				seen[d] = true
			}
		}
		p.Reset()
		if d := p.Next(); d > least+least/2+1 {
			t.Errorf("%v after a success", d)
		}
	}
	if len(seen) < 200 {
		t.Errorf("%d different pauses of 300", len(seen))
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if !retry.Sleep(ctx, time.Second) || time.Since(began) != time.Second {
			t.Errorf("%v", time.Since(began))
		}
		if retry.Sleep(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("%v", time.Since(began))
		}
	})
}
