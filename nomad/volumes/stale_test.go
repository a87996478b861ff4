package volumes_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
)

// back is a node that was lost with a mounted volume, which moved meanwhile, and is there again.
func back(t *testing.T, change func(*node), limits ...func(*volumes.Limits)) *rig {
	t.Helper()
	r := newRig(t, limits...)
	r.node("n2", nodeOnly)
	n := r.node("n1")
	r.node("host")
	r.register(spec("v"))
	r.mustPlace(alloc("a1", "n1", "v", writer))
	r.mustClaim("v", "a1", "n1")
	r.lose(0)
	r.free("v")
	change(n)
	r.change("n1", func(n *api.Node) { n.Status = api.NodeStatusInit })
	return r
}

func (r *rig) clean() {
	r.t.Helper()
	if err := state.Until(r.ctx(), r.state, []state.Key{state.TableKey(state.TableNodes)}, func(tx *state.Txn) bool {
		return len(tx.Node("n1").StaleMounts) == 0
	}); err != nil {
		r.t.Fatalf("%v: %+v", err, r.state.Read().Node("n1").StaleMounts[0])
	}
}

func TestNodesReportEndsAStaleMount(t *testing.T) {
	t.Parallel()
	r := back(t, func(*node) {})
	if err := r.place(alloc("a2", "n1", "v", writer)); err == nil || !strings.Contains(err.Error(), "may still be mounted on node n1 for allocation a1") {
		t.Fatalf("the volume is taken where it may be mounted: %v", err)
	}
	if err := r.report("v", "a1", "n1", "unpublish: busy"); err != nil {
		t.Fatal(err)
	}
	if m := r.state.Read().Node("n1").StaleMounts; len(m) != 1 || m[0].LastError != "unpublish: busy" {
		t.Fatalf("stale mounts %+v", m)
	}
	r.unmounted("v", "a1", "n1")
	r.clean()
	index := r.state.Read().Index()
	r.unmounted("v", "a1", "n1")
	if r.state.Read().Index() != index {
		t.Error("a report that was made before was written again")
	}
	r.mustPlace(alloc("a2", "n1", "v", writer))
	r.mustClaim("v", "a2", "n1")
}

func TestNodeThatForgotAStaleMountIsAsked(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	r := back(t, func(n *node) {
		n.on("NodeVolume.Detach", func(context.Context, any) error {
			if tries.Add(1) < 3 {
				return errors.New("the plugin is not there yet")
			}
			return nil
		})
	}, func(l *volumes.Limits) { l.NudgeAfter = 10 * time.Millisecond })
	r.clean()
	if tries.Load() != 3 {
		t.Errorf("%d tries", tries.Load())
	}
}
