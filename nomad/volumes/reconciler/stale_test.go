package reconciler_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// back is a node that was lost with a mounted volume, which moved meanwhile, and is there again.
func back(t *testing.T, change func(*volumestest.Node), limits ...func(*reconciler.Limits)) *rig {
	t.Helper()
	r := newRig(t, limits...)
	r.Node("n2", volumestest.NodeOnly)
	n := r.Node("n1")
	r.Node("host")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	r.lose(0)
	r.Free("v")
	change(n)
	r.Change("n1", func(n *api.Node) { n.Status = api.NodeStatusInit })
	return r
}

func (r *rig) clean() {
	r.T.Helper()
	if err := state.Until(r.Context(), r.State, []state.Key{state.TableKey(state.TableNodes)}, func(tx *state.Txn) bool {
		return len(tx.Node("n1").StaleMounts) == 0
	}); err != nil {
		r.T.Fatalf("%v: %+v", err, r.State.Read().Node("n1").StaleMounts[0])
	}
}

func TestNodesReportEndsAStaleMount(t *testing.T) {
	t.Parallel()
	r := back(t, func(*volumestest.Node) {})
	if err := r.Place(volumestest.Alloc("a2", "n1", "v", writer)); err == nil || !strings.Contains(err.Error(), "may still be mounted on node n1 for allocation a1") {
		t.Fatalf("the volume is taken where it may be mounted: %v", err)
	}
	if err := r.Report("v", "a1", "n1", "unpublish: busy"); err != nil {
		t.Fatal(err)
	}
	if m := r.State.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].LastError != "unpublish: busy" {
		t.Fatalf("stale mounts %+v", m)
	}
	r.Unmounted("v", "a1", "n1")
	r.clean()
	index := r.State.Read().Index()
	r.Unmounted("v", "a1", "n1")
	if r.State.Read().Index() != index {
		t.Error("a report that was made before was written again")
	}
	r.MustPlace(volumestest.Alloc("a2", "n1", "v", writer))
	r.MustClaim("v", "a2", "n1")
}

func TestNodeThatForgotAStaleMountIsAsked(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	r := back(t, func(n *volumestest.Node) {
		n.On("NodeVolume.Detach", func(context.Context, any) error {
			if tries.Add(1) < 3 {
				return errors.New("the plugin is not there yet")
			}
			return nil
		})
	}, func(l *reconciler.Limits) { l.UnmountAfter = 10 * time.Millisecond })
	r.clean()
	if tries.Load() != 3 {
		t.Errorf("%d tries", tries.Load())
	}
}
