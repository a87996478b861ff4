package workgroup_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/workgroup"
)

func TestWaitNamesWhatHangsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g workgroup.Group
		hung := make(chan struct{})
		g.Go("ends", func() { time.Sleep(time.Second) })
		begun := time.Now()
		if left := g.Wait(); len(left) > 0 || time.Since(begun) != time.Second {
			t.Errorf("after %s these are left: %q", time.Since(begun), left)
		}
		for _, name := range []string{"twice", "hangs", "twice"} {
			g.Go(name, func() { <-hung })
		}
		g.Go("ends", func() {})
		begun = time.Now()
		if left := g.Wait(); !slices.Equal(left, []string{"hangs", "twice"}) || time.Since(begun) != workgroup.EndWait {
			t.Errorf("after %s these are left: %q", time.Since(begun), left)
		}
		close(hung)
		if left := g.Wait(); len(left) > 0 {
			t.Errorf("left in the end: %q", left)
		}
	})
}
