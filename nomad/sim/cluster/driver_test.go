package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// driver is the storage behind both plugins. It is guarded by World.mu, but for the turns.
type driver struct {
	attached  map[string]map[string]bool // external id, provider's node id
	volumes   map[string]int64           // made ones by external id
	snapshots map[string]bool
	busy      map[string]bool // an effect is on its way
	fences    map[string]uint64
	turns     *turns
}

func newDriver() driver {
	return driver{
		attached: map[string]map[string]bool{}, volumes: map[string]int64{}, snapshots: map[string]bool{},
		busy: map[string]bool{}, fences: map[string]uint64{}, turns: &turns{held: map[string]chan struct{}{}},
	}
}

// turns let one call per object through at a time.
type turns struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func (t *turns) take(ctx context.Context, key string) (func(), error) {
	t.mu.Lock()
	c := t.held[key]
	if c == nil {
		c = make(chan struct{}, 1)
		t.held[key] = c
	}
	t.mu.Unlock()
	if ctx.Err() != nil { // select would choose at random
		return nil, ctx.Err()
	}
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// controller is the handlers of the node that hosts the controllers: as the client does it, one call per
// object at a time, and none whose intent is older than one that was seen.
func (w *World) controller() []wire.Handler {
	return []wire.Handler{
		wire.ControllerValidate.Handle(func(context.Context, *api.ControllerValidateRequest) (*api.Empty, error) { return &api.Empty{}, nil }),
		wire.ControllerPublish.Handle(func(ctx context.Context, r *api.ControllerPublishRequest) (*api.ControllerPublishResponse, error) {
			return &api.ControllerPublishResponse{PublishContext: map[string]string{"device": r.ExternalID}},
				w.control(ctx, "attach", r.Fence, r.ExternalID, r.ProviderNodeID, func() error { return w.attach(r) })
		}),
		wire.ControllerUnpublish.Handle(func(ctx context.Context, r *api.ControllerUnpublishRequest) (*api.Empty, error) {
			return &api.Empty{}, w.control(ctx, "detach", r.Fence, r.ExternalID, r.ProviderNodeID, func() error { return w.detach(r) })
		}),
		wire.ControllerCreate.Handle(func(ctx context.Context, r *api.ControllerCreateRequest) (*api.ControllerCreateResponse, error) {
			id := "x-" + r.Name
			return &api.ControllerCreateResponse{ExternalID: id, CapacityBytes: r.CapacityMinBytes},
				w.control(ctx, "create", r.Fence, "create/"+r.Name, "", func() error { return w.make(r, id) })
		}),
		wire.ControllerDelete.Handle(func(ctx context.Context, r *api.ControllerDeleteRequest) (*api.Empty, error) {
			if r.Name != "" {
				leave, err := w.driver.turns.take(ctx, "create/"+r.Name)
				if err != nil {
					return nil, err
				}
				defer leave()
				if err := w.pass("delete", "create/"+r.Name+" ", r.Fence); err != nil {
					return nil, err
				}
			}
			return &api.Empty{}, w.control(ctx, "delete", r.Fence, r.ExternalID, "", func() error { return w.remove(r.ExternalID) })
		}),
		wire.ControllerExpand.Handle(func(ctx context.Context, r *api.ControllerExpandRequest) (*api.ControllerExpandResponse, error) {
			return &api.ControllerExpandResponse{CapacityBytes: r.CapacityMinBytes, NodeExpansionRequired: true},
				w.control(ctx, "expand", r.Fence, r.ExternalID, "", func() error { return nil })
		}),
		wire.ControllerSnapshot.Handle(func(ctx context.Context, r *api.ControllerSnapshotRequest) (*api.ControllerSnapshotResponse, error) {
			return &api.ControllerSnapshotResponse{Snapshot: &api.Snapshot{ID: "snap-" + r.Name, IsReady: true}},
				w.control(ctx, "snapshot", r.Fence, r.ExternalID, "snapshot/"+r.Name, func() error { w.driver.snapshots[r.Name] = true; return nil })
		}),
	}
}

// control makes one call to the driver; do has its effect, with the lock held.
func (w *World) control(ctx context.Context, what string, fence uint64, object, where string, do func() error) error {
	release, err := w.driver.turns.take(ctx, object)
	if err != nil {
		return err
	}
	defer release()
	r := w.dice.roll("driver " + what + " " + object + " " + where)
	took := w.some(r, 60*time.Millisecond)
	if w.faulty(r, 3) {
		took = w.some(r, 18*time.Second)
	}
	before, after, late := w.faulty(r, 5), w.faulty(r, 5), w.faulty(r, 5)
	key, external := object+" "+where, strings.Replace(object, "create/", "x-", 1)
	if err := w.pass(what, key, fence); err != nil {
		return err
	}
	w.mu.Lock()
	busy := w.driver.busy[external]
	w.mu.Unlock()
	if busy || before {
		return fault.New(fault.Unavailable, "the driver is busy with %s", object)
	}
	effect := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.driver.busy, external)
		err := do()
		w.tally.Events++
		w.tell("driver: %s %s by %d%s", what, key, fence, orError(err))
		w.checkOutside()
		return err
	}
	if late {
		w.mu.Lock()
		w.driver.busy[external] = true
		w.mu.Unlock()
		time.AfterFunc(took+w.some(r, 10*time.Second), func() { _ = effect() })
		return fault.New(fault.Timeout, "the driver did not answer in time")
	}
	w.sleep(w.root, took) // a call that its caller gave up goes on
	if err := effect(); err != nil {
		return err
	}
	if after {
		return fault.New(fault.Unavailable, "the driver's answer was lost")
	}
	return ctx.Err()
}

// pass refuses a call whose intent is older than one that was seen.
func (w *World) pass(what, key string, fence uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen := w.driver.fences[key]; fence < seen && w.bug != BugNoFence {
		w.tell("the controller's host refuses %s of %s by %d: %d was seen", what, key, fence, seen)
		return fault.New(fault.Conflict, "the call belongs to intent %d, and intent %d was seen already", fence, seen)
	}
	w.driver.fences[key] = max(fence, w.driver.fences[key])
	return nil
}

func (w *World) attach(r *api.ControllerPublishRequest) error {
	on := w.driver.attached[r.ExternalID]
	if single(r.AccessMode) {
		for other := range on {
			if other != r.ProviderNodeID {
				w.fail("the storage is asked to attach %s to %s, and it is attached to %s", r.ExternalID, r.ProviderNodeID, other)
			}
		}
	}
	for _, n := range w.nodes {
		for _, k := range sorted(n.mounts) {
			if "provider-"+n.id == r.ProviderNodeID && !on[r.ProviderNodeID] && n.mounts[k].external == r.ExternalID && w.outcast[k] {
				w.fail("%s is attached to %s again under the mount of %s, which was given up", r.ExternalID, n.id, k)
			}
		}
	}
	if on == nil {
		on = map[string]bool{}
		w.driver.attached[r.ExternalID] = on
	}
	on[r.ProviderNodeID] = true
	return nil
}

func single(m api.AccessMode) bool {
	return m == api.AccessSingleNodeWriter || m == api.AccessSingleNodeReader || m == api.AccessSingleNodeSingle || m == api.AccessSingleNodeMulti
}

func (w *World) detach(r *api.ControllerUnpublishRequest) error {
	delete(w.driver.attached[r.ExternalID], r.ProviderNodeID)
	return nil
}

func (w *World) has(external, node string) bool { return w.driver.attached[external]["provider-"+node] }

func (w *World) make(r *api.ControllerCreateRequest, id string) error {
	w.driver.volumes[id] = max(w.driver.volumes[id], r.CapacityMinBytes)
	return nil
}

func (w *World) remove(id string) error {
	if len(w.driver.attached[id]) > 0 {
		return fault.New(fault.Conflict, "%s is attached", id)
	}
	delete(w.driver.volumes, id)
	return nil
}

// told tells of a request; two that differ are told differently.
func told(req any) string {
	switch r := req.(type) {
	case *api.ControllerPublishRequest:
		return fmt.Sprintf(" %s to %s by %d", r.ExternalID, r.ProviderNodeID, r.Fence)
	case *api.ControllerUnpublishRequest:
		return fmt.Sprintf(" %s from %s by %d", r.ExternalID, r.ProviderNodeID, r.Fence)
	case *api.ControllerDeleteRequest:
		return fmt.Sprintf(" %s by %d", r.ExternalID, r.Fence)
	case *api.ControllerExpandRequest:
		return fmt.Sprintf(" %s by %d", r.ExternalID, r.Fence)
	case *api.ControllerCreateRequest:
		return fmt.Sprintf(" %s by %d", r.Name, r.Fence)
	case *api.VolumeClaimRequest:
		return " " + r.AllocID + " " + r.VolumeID
	case *api.VolumeUnpublishRequest:
		return " " + r.AllocID + " " + r.VolumeID
	case *api.NodeVolumeDetachRequest:
		return " " + r.AllocID + " " + r.VolumeID
	case *api.NodeVolumeExpandRequest:
		return " " + r.VolumeID
	case *api.AllocUpdateRequest:
		return " " + r.Allocs[0].ID + " " + r.Allocs[0].ClientStatus
	case *api.NodeHeartbeatRequest:
		return " " + r.NodeID
	case *api.NodeRegisterRequest:
		return " " + r.Node.ID
	case *api.NodeAssignmentsRequest:
		return " " + r.NodeID
	case *api.VolumeRegisterRequest:
		return fmt.Sprintf(" %s of %d", r.Volumes[0].ID, r.Volumes[0].RequestedCapacityMin)
	case *api.VolumeCreateRequest:
		return " " + r.Volumes[0].ID
	case *api.VolumeDeleteRequest:
		return " " + r.VolumeID
	case *api.VolumeDetachRequest:
		return " " + r.VolumeID + " from " + r.NodeID
	}
	return ""
}
