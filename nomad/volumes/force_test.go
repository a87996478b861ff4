package volumes_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// A node whose plugin is gone for good unmounts by itself when an operator forces it, and nothing stays mounted.
func TestForcedDetachReachesTheNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter = time.Hour })
	n := r.Node("n1")
	r.Register(volumestest.Spec("v"))
	r.MustPlace(volumestest.Alloc("a1", "n1", "v", writer))
	r.MustClaim("v", "a1", "n1")
	mounted := true
	n.On("NodeVolume.Detach", func(_ context.Context, q any) error {
		if !q.(*api.NodeVolumeDetachRequest).Force {
			return fault.New(fault.Unavailable, "this node has no node plugin")
		}
		mounted = false
		return nil
	})
	r.Ends("a1", api.AllocClientStatusComplete)
	detach := func(force bool) error {
		_, err := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: force})
		return err
	}
	if err := detach(false); err == nil {
		t.Fatal("unmounted without its plugin")
	}
	if err := detach(true); err != nil {
		t.Fatal(err)
	}
	if mounted {
		t.Error("the node was not asked to unmount by itself")
	}
	if m := r.State.Read().Node("n1").StaleMounts; len(m) > 0 {
		t.Errorf("stale mounts %+v", m[0])
	}
	r.Free("v")
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node("n1")
		n.StaleMounts = []*api.StaleMount{{Namespace: "default", VolumeID: "v", AllocID: "older", PluginID: "p", ExternalID: "ext-v"}}
		tx.PutNode(&n)
	})
	if mounted = true; detach(true) != nil || mounted {
		t.Error("a stale mount was written off, and stays")
	}
}

// proposing does something before an entry is written.
type proposing struct {
	fsm.Proposer
	before func()
}

func (p proposing) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	p.before()
	return p.Proposer.Propose(ctx, c)
}

// An operator's word is about what was there when it was given: a mount that the node tells of afterwards is not meant.
func TestForceForgetsNoMountThatIsToldAfterwards(t *testing.T) {
	t.Parallel()
	for name, noted := range map[string][]*api.StaleMount{
		"nothing before":           nil,
		"one of the volume before": {{VolumeID: "v", AllocID: "before", ExternalID: "ext-v", Since: 5}, {VolumeID: "w", AllocID: "other", ExternalID: "ext-w", Since: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.Node("n1")
			r.Register(volumestest.Spec("v"))
			r.Halt()
			note := func(list ...*api.StaleMount) {
				r.Change("n1", func(n *api.Node) {
					n.StaleMounts = slices.Clone(n.StaleMounts)
					for _, m := range list {
						m.Namespace, m.PluginID = "default", "p"
						n.StaleMounts = append(n.StaleMounts, m)
					}
				})
			}
			note(noted...)
			proposed := false
			late := func() {
				proposed = true
				note(&api.StaleMount{VolumeID: "v", AllocID: "late", ExternalID: "ext-v", Since: 10})
			}
			s := volumes.New(volumes.Config{State: r.State, Raft: proposing{r.Raft, sync.OnceFunc(late)}, Drivers: r.Reconciler, Outcomes: r.Reconciler})
			if _, err := s.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "v", NodeID: "n1", Force: true}); err != nil {
				t.Fatal(err)
			}
			left := map[string]bool{}
			for _, m := range r.State.Read().Node("n1").StaleMounts {
				left[m.AllocID] = true
			}
			if left["before"] || proposed && !left["late"] || len(noted) > 0 && !left["other"] {
				t.Errorf("noted are %v", left)
			}
		})
	}
}
