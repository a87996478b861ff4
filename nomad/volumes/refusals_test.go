package volumes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/nomad/volumes/volumestest"
)

// refusalMax bounds the first line of a refusal.
const refusalMax = 160

// Refusals say in one short line who holds a volume and which command ends that, and name an allocation once.
func TestRefusalsAreShort(t *testing.T) {
	t.Parallel()
	const node, first, second = "3098d607-376d-4224-bef2-5009e55242c7", "d0f05d12-8d50-41ee-bdd5-0dfd6feeb036", "8c1e268c-feae-4a24-be4b-1b58926a8062"
	twice := func(a *api.Allocation) {
		again := *a.Job.TaskGroups[0].Volumes["data"]
		again.Name, again.ReadOnly = "logs", true
		a.Job.TaskGroups[0].Volumes["logs"] = &again
	}
	over := func(r *rig) { r.Ends(first, api.AllocClientStatusComplete) }
	for name, before := range map[string]func(*rig, *volumestest.Node){
		"it runs":          func(*rig, *volumestest.Node) {},
		"it is over":       func(r *rig, _ *volumestest.Node) { over(r) },
		"its node is down": func(r *rig, _ *volumestest.Node) { over(r); r.Down(node, 0) },
		"its plugin is gone": func(r *rig, _ *volumestest.Node) {
			over(r)
			r.Change(node, func(n *api.Node) { n.CSINodePlugins, n.CSIControllerPlugins["p"].Healthy = nil, true })
		},
		"it is stopped": func(r *rig, _ *volumestest.Node) {
			r.Edit(func(tx *state.Txn) {
				a := *tx.Alloc(first)
				a.DesiredStatus, a.ClientStatus = api.AllocDesiredStatusStop, api.AllocClientStatusRunning
				tx.PutAlloc(&a)
			})
		},
		"its driver keeps it": func(r *rig, n *volumestest.Node) {
			n.Says("Controller.Unpublish", codes.Internal, strings.Repeat("never ", 100))
			over(r)
			for c := range r.State.Read().ClaimsByAlloc(first) {
				if _, err := r.Service.Unpublish(r.Context(), &api.VolumeUnpublishRequest{VolumeID: c.VolumeID, AllocID: first, Use: c.Use, NodeID: node, NodeSecret: "secret-" + node}); err != nil {
					t.Error(err)
				}
			}
			r.Eventually("the driver fails", func(tx *state.Txn) bool {
				a := tx.Attachment("p", "ext-database", node)
				return a == nil || a.LastError != ""
			})
		},
		"two of it run": func(r *rig, _ *volumestest.Node) {
			r.MustPlace(volumestest.Alloc(second, node, "database", api.AccessMultiNodeMultiWriter))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(l *reconciler.Limits) { l.UnmountAfter, l.FenceAfter = time.Hour, time.Hour })
			n := r.Node(node)
			n.On("NodeVolume.Detach", func(context.Context, any) error { return fault.New(fault.Unavailable, "busy") })
			r.Register(volumestest.Spec("database", api.AccessMultiNodeMultiWriter))
			r.MustPlace(volumestest.Alloc(first, node, "database", api.AccessMultiNodeMultiWriter, twice))
			uses := 0
			for c := range r.State.Read().ClaimsByAlloc(first) {
				if _, err := r.Service.Claim(r.Context(), &api.VolumeClaimRequest{VolumeID: "database", AllocID: first, Use: c.Use, NodeID: node, NodeSecret: "secret-" + node}); err != nil {
					t.Fatal(err)
				}
				uses++
			}
			if uses != 2 {
				t.Fatalf("%d uses", uses)
			}
			before(r, n)
			_, deregister := r.Service.Deregister(r.Context(), &api.VolumeDeregisterRequest{VolumeID: "database"})
			refusals := []error{deregister, r.Delete("database")}
			if name == "it runs" || name == "its node is down" {
				_, detach := r.Service.Detach(r.Context(), &api.VolumeDetachRequest{VolumeID: "database", NodeID: node})
				refusals = append(refusals, detach)
			}
			for _, err := range refusals {
				if err == nil && name == "its driver keeps it" {
					continue // what is attached does not keep a volume registered
				}
				if !errors.Is(err, fault.Conflict) {
					t.Fatalf("not refused: %v", err)
				}
				line, _, _ := strings.Cut(err.Error(), "\n")
				if len(line) > refusalMax || !strings.Contains(line, "`nomad ") {
					t.Errorf("%d bytes: %s", len(line), line)
				}
				if strings.Contains(line, first) || strings.Count(line, "allocation") > 1 {
					t.Errorf("an allocation is named twice, or by its long id: %s", line)
				}
			}
			d := r.Get("database")
			if len(slices.CompactFunc(d.Allocations, func(a, b *api.AllocStub) bool { return a.ID == b.ID })) != len(d.Allocations) {
				t.Error("an allocation is listed twice")
			}
		})
	}
}
