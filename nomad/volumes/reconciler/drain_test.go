package reconciler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A leader that is deposed goes on without what hangs.
func TestEndOfATermLeavesHungWorkBehindAndNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		hangs, ends := externalKey("p", "hangs"), externalKey("p", "ends")
		q := newQueue(func(ctx context.Context, k key, _ *tries) time.Time {
			if k == hangs {
				<-hung
			}
			<-ctx.Done()
			return time.Time{}
		}, func(context.Context, string) {}, func(key) time.Duration { return 0 })
		ctx, cancel := context.WithCancel(t.Context())
		q.wake(ctx, hangs, false)
		q.wake(ctx, ends, false)
		synctest.Wait()
		cancel()
		if left := q.drain(); !slices.Equal(left, []string{hangs.String()}) {
			t.Errorf("left behind are %q", left)
		}
	})
}
