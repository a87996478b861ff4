package volumestest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// Nodes are scripted agents.
type Nodes struct {
	mu  sync.Mutex
	all map[string]*Node
}

func (ns *Nodes) add(id string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.all[id] == nil {
		ns.all[id] = &Node{id: id, answers: map[string]func(context.Context, any) error{}, Called: make(chan string, 1000)}
	}
	return ns.all[id]
}

// Of is a node that was added.
func (ns *Nodes) Of(id string) *Node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.all[id]
}

// Node reaches an agent.
func (ns *Nodes) Node(id string) (wire.Caller, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.all[id]; n != nil && !n.Gone() {
		return n, nil
	}
	return nil, fault.New(fault.Unavailable, "node %s is not connected", id)
}

// Node is a scripted agent.
type Node struct {
	id string

	mu      sync.Mutex
	off     bool
	calls   []string
	answers map[string]func(context.Context, any) error
	replies map[string]func(any)
	Called  chan string
	Created api.ControllerCreateResponse
	grown   api.ControllerExpandResponse
	fences  []uint64
	known   api.ControllerVerifyResponse
	volumes api.ControllerListResponse
	snaps   api.ControllerSnapshotListResponse
	// cut is when the returned snapshots were cut; zero is the time of the call.
	cut time.Time
	// source is the volume that they are of; empty is the one of the call.
	source string
	// named is their id.
	named string
	// unready is how many snapshots are answered before one is ready.
	unready int
	// unconfirmed is why the driver does not confirm capabilities.
	unconfirmed string
}

// LeavesOpen has the node's driver neither confirm nor deny capabilities, for a reason.
func (n *Node) LeavesOpen(reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unconfirmed = reason
}

// ReadyAfter has the given call be the first that returns a ready snapshot.
func (n *Node) ReadyAfter(call int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unready = call - 1
}

// SnapshotsOf has the node's driver return snapshots of that volume, whatever the request is.
func (n *Node) SnapshotsOf(external string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.source = external
}

// SnapshotsNamed has the node's driver return snapshots with that id.
func (n *Node) SnapshotsNamed(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named = id
}

// SnapshotsCut has the node's driver return snapshots of that time.
func (n *Node) SnapshotsCut(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = at
}

// Lists has the node's driver return a page of each list.
func (n *Node) Lists(volumes api.ControllerListResponse, snaps api.ControllerSnapshotListResponse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.volumes, n.snaps = volumes, snaps
}

// ID is the node's id.
func (n *Node) ID() string { return n.id }

// Knows has the node's driver return the result of a verification.
func (n *Node) Knows(known api.ControllerVerifyResponse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = known
}

// Gone reports whether the node is out of reach.
func (n *Node) Gone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.off
}

// Disconnect puts the node out of reach.
func (n *Node) Disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = true
}

// On has the node reply to a method; nil makes it succeed again.
func (n *Node) On(method string, answer func(context.Context, any) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[method] = answer
}

// Replies has calls of a method write their reply.
func (n *Node) Replies(method string, reply func(resp any)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.replies == nil {
		n.replies = map[string]func(any){}
	}
	n.replies[method] = reply
}

// Fails has the node reply to a method with an error.
func (n *Node) Fails(method string, err error) {
	n.On(method, func(context.Context, any) error { return err })
}

// Hold has the node reply to a method as it would, but not before release is called.
func (n *Node) Hold(method string) (release func()) {
	n.mu.Lock()
	answer := n.answers[method]
	n.mu.Unlock()
	held := make(chan struct{})
	n.On(method, func(ctx context.Context, req any) error {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
		if answer == nil {
			return nil
		}
		return answer(ctx, req)
	})
	return sync.OnceFunc(func() { close(held) })
}

// Invoke implements [wire.Caller].
func (n *Node) Invoke(ctx context.Context, method string, req, resp any) error {
	n.mu.Lock()
	n.calls = append(n.calls, method)
	answer := n.answers[method]
	n.mu.Unlock()
	select {
	case n.Called <- method:
	default:
	}
	if answer != nil {
		if err := answer(ctx, req); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if reply := n.replies[method]; reply != nil {
		reply(resp)
		return nil
	}
	switch out := resp.(type) {
	case *api.ControllerPublishResponse:
		out.PublishContext = map[string]string{"device": "/dev/" + req.(*api.ControllerPublishRequest).ExternalID}
		n.fences = append(n.fences, req.(*api.ControllerPublishRequest).Fence)
	case *api.ControllerValidateResponse:
		*out = api.ControllerValidateResponse{Validated: n.unconfirmed == "", Message: n.unconfirmed}
	case *api.ControllerVerifyResponse:
		*out = n.known
	case *api.ControllerCreateResponse:
		*out = n.Created
		if out.CapacityBytes == 0 {
			out.CapacityBytes = req.(*api.ControllerCreateRequest).CapacityMinBytes
		}
		if out.ExternalID == "" {
			out.ExternalID = "ext-" + req.(*api.ControllerCreateRequest).Name
		}
	case *api.ControllerExpandResponse:
		*out = n.grown
		if out.CapacityBytes == 0 {
			out.CapacityBytes = req.(*api.ControllerExpandRequest).CapacityMinBytes
		}
	case *api.ControllerListResponse:
		*out = n.volumes
	case *api.ControllerSnapshotListResponse:
		*out = n.snaps
	case *api.ControllerSnapshotResponse:
		cut := n.cut
		if cut.IsZero() {
			cut = time.Now()
		}
		source := cmp.Or(n.source, req.(*api.ControllerSnapshotRequest).ExternalID)
		out.Snapshot = &api.Snapshot{ID: cmp.Or(n.named, "snap"), ExternalSourceVolumeID: source, IsReady: n.unready == 0, CreateTime: cut.Unix()}
		n.unready = max(0, n.unready-1)
	}
	return nil
}

// Calls are the methods that were called, in order.
func (n *Node) Calls() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.calls)
}

// Fences are those of the attaches that succeeded, in order.
func (n *Node) Fences() []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.fences)
}

// Count is how often a method was called.
func (n *Node) Count(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(slices.Collect(func(yield func(string) bool) {
		for _, c := range n.calls {
			if c == method && !yield(c) {
				return
			}
		}
	}))
}

// Await waits until the node was asked.
func (n *Node) Await(t T, method string) {
	t.Helper()
	bound := time.NewTimer(30 * time.Second)
	defer bound.Stop()
	for {
		select {
		case m := <-n.Called:
			if m == method {
				return
			}
		case <-bound.C:
			t.Fatalf("node %s was not asked to %s", n.id, method)
		}
	}
}

// Seen keeps the requests that a node gets for one method.
type Seen[T any] struct {
	mu  sync.Mutex
	all []*T
}

// Watch keeps the requests of one method, and has the node reply to it.
func Watch[T any](n *Node, method string) *Seen[T] {
	s := &Seen[T]{}
	n.On(method, func(_ context.Context, req any) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, req.(*T))
		return nil
	})
	return s
}

// Only is the request when there was exactly one.
func (s *Seen[T]) Only(t interface {
	Helper()
	Fatalf(string, ...any)
},
) *T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != 1 {
		t.Fatalf("%d calls, wanted one", len(s.all))
	}
	return s.all[0]
}

// rpcs are the calls to drivers behind the methods of nodes.
var rpcs = map[string]string{
	"Controller.Publish": "ControllerPublishVolume", "Controller.Unpublish": "ControllerUnpublishVolume",
	"Controller.Create": "CreateVolume", "Controller.Delete": "DeleteVolume", "Controller.Expand": "ControllerExpandVolume",
	"Controller.Snapshot": "CreateSnapshot", "Controller.SnapshotDelete": "DeleteSnapshot",
	"Controller.Validate": "ValidateVolumeCapabilities", "NodeVolume.Expand": "NodeExpandVolume", "NodeVolume.Detach": "NodeUnpublishVolume",
}

// Says is the error that a node makes of the code that its driver returns for a method.
func Says(method string, code codes.Code, text string) error {
	return csi.Explain(rpcs[method], code, text)
}

// Says has the node's driver return a code for a method.
func (n *Node) Says(method string, code codes.Code, text string) {
	n.Fails(method, Says(method, code, text))
}

// Grows has the node's driver reply to expansions; without a capacity they succeed as requested.
func (n *Node) Grows(answer api.ControllerExpandResponse) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.grown = answer
}
