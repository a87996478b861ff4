package allocs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/store"
)

// left stops an allocation and ends the agent while its tasks end.
func left(t *testing.T, b *bench) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wait := start(ctx, b.make(t))
	synctest.Wait()
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := b.db.PutTask("a1", "t", &store.TaskRecord{State: &api.TaskState{State: api.TaskStateRunning}}, true); err != nil {
		t.Fatal(err)
	}
	stop := *b.alloc
	stop.DesiredStatus = api.AllocDesiredStatusStop
	b.alloc, b.said = &stop, nil
}

// Tasks end in their order, and poststop tasks use the volumes: an agent that is started anew meanwhile goes on with that.
func TestAgentRestartGoesOnWithAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		left(t, b)
		again := b.make(t)
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		status(t, again, api.AllocClientStatusComplete)
		b.want(t, "run /vol/a1", "killed", "unmount")
	})
}

func TestStopIsNotGoneOnWithWithoutItsVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		left(t, b)
		b.mounts.adoptErr = errors.New("not mounted any more")
		if err := b.make(t).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.want(t, "abandon", "abandon", "unmount") // the second finds nothing to end
	})
}

// A stop that comes while a restored allocation is brought up finds its tasks running.
func TestStopDuringTheAdoptionEndsTasksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		run := b.alloc
		left(t, b)
		b.alloc, b.mounts.hang = run, true
		again := b.make(t)
		wait := start(t.Context(), again)
		synctest.Wait()
		again.Stop()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		b.want(t, "mount", "run /vol/a1", "killed", "unmount")
	})
}
