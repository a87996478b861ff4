package allocs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func TestAllocationEndsAfterItsRunDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.alloc.Job.TaskGroups[0].MaxRunDuration = time.Hour
		b.alloc.CreateTime = time.Now().Add(-10 * time.Hour).UnixNano() // by a server's clock, which is not the node's
		a := b.make(t)
		b.work.received = time.Now().Add(-10 * time.Minute)
		wait := start(t.Context(), a)
		time.Sleep(50*time.Minute - time.Second)
		synctest.Wait()
		b.want(t, "mount", "run /vol/a1")
		time.Sleep(2 * time.Second)
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		b.want(t, "mount", "run /vol/a1", "event Max Run Duration", "killed", "unmount")
		status(t, a, api.AllocClientStatusComplete)
	})
}
