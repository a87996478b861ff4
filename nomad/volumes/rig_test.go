package volumes_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// rig is the room over an in-memory log, with nodes that are scripted.
type rig struct {
	t     *testing.T
	state *state.Store
	raft  *fsm.Local
	room  *volumes.Service
	nodes *nodes
	stop  context.CancelFunc
	ended chan error
}

// quick keeps tests short; times that a test is about are set by it.
func quick() volumes.Limits {
	return volumes.Limits{
		FenceAfter: 500 * time.Millisecond, LeaseMargin: time.Millisecond, NudgeAfter: time.Hour,
		RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond, Patience: 60 * time.Millisecond,
		AttachTimeout: 5 * time.Second,
	}
}

func newRig(t *testing.T, change ...func(*volumes.Limits)) *rig {
	t.Helper()
	s, err := state.New()
	if err != nil {
		t.Fatal(err)
	}
	limits := quick()
	for _, c := range change {
		c(&limits)
	}
	registry := fsm.NewRegistry()
	volumes.Commands(registry)
	registry.Register(func() fsm.Command { return &edit{} })
	r := &rig{t: t, state: s, raft: fsm.NewLocal(s, registry), nodes: &nodes{all: map[string]*node{}}}
	r.room = volumes.New(volumes.Config{
		Log: hclog.NewNullLogger(), State: s, Raft: r.raft, Nodes: r.nodes, Limits: limits,
	})
	r.start()
	t.Cleanup(r.halt)
	return r
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- r.room.Run(ctx) }()
}

// halt ends the leadership.
func (r *rig) halt() {
	r.stop()
	select {
	case <-r.ended:
		r.ended <- nil
	case <-time.After(10 * time.Second):
		r.t.Error("the loop did not end with its context")
	}
}

// edit is a command of tests: it runs a function inside Apply.
type edit struct{ ID uint64 }

var (
	editsMu sync.Mutex
	edits   = map[uint64]func(*state.Txn) error{}
	editsID uint64
)

func (*edit) Kind() fsm.Kind { return fsm.KindSkippable + 1 }

func (e *edit) Apply(tx *state.Txn) (any, error) {
	editsMu.Lock()
	fn := edits[e.ID]
	editsMu.Unlock()
	return nil, fn(tx)
}

func (e *edit) MarshalMsg(b []byte) ([]byte, error) { return fmt.Appendf(b, "%020d", e.ID), nil }

func (e *edit) UnmarshalMsg(b []byte) ([]byte, error) {
	_, err := fmt.Sscanf(string(b[:20]), "%d", &e.ID)
	return b[20:], err
}

func (r *rig) try(fn func(*state.Txn) error) error {
	editsMu.Lock()
	editsID++
	id := editsID
	edits[id] = fn
	editsMu.Unlock()
	_, err := r.raft.Propose(context.Background(), &edit{id})
	return err
}

func (r *rig) edit(fn func(*state.Txn)) {
	r.t.Helper()
	if err := r.try(func(tx *state.Txn) error { fn(tx); return nil }); err != nil {
		r.t.Fatal(err)
	}
}

// node adds a ready node that runs the plugin "p" in the given ways.
func (r *rig) node(id string, change ...func(*api.Node)) *node {
	r.t.Helper()
	n := &api.Node{
		ID: id, SecretID: "secret-" + id, Status: api.NodeStatusReady, Name: id, StatusUpdatedAt: time.Now().Unix(),
		CSINodePlugins: map[string]*api.CSIInfo{"p": {
			PluginID: "p", AllocID: "plugin-" + id, Healthy: true, Provider: "prov", ProviderVersion: "1", RequiresControllerPlugin: true,
			NodeInfo: &api.CSINodeInfo{ID: "provider-" + id, MaxVolumes: 100},
		}},
		CSIControllerPlugins: map[string]*api.CSIInfo{"p": {
			PluginID: "p", Healthy: true, Provider: "prov", ProviderVersion: "1", RequiresControllerPlugin: true,
			ControllerInfo: &api.CSIControllerInfo{
				SupportsAttachDetach: true, SupportsCreateDelete: true, SupportsExpand: true, SupportsListVolumes: true,
				SupportsCreateDeleteSnapshot: true, SupportsListSnapshots: true,
			},
		}},
	}
	for _, c := range change {
		c(n)
	}
	r.edit(func(tx *state.Txn) { tx.PutNode(n) })
	return r.nodes.add(id)
}

func nodeOnly(n *api.Node) { n.CSIControllerPlugins = nil }

// noController makes the plugin one without a controller service.
func noController(n *api.Node) {
	n.CSIControllerPlugins = nil
	n.CSINodePlugins["p"].RequiresControllerPlugin = false
}

func (r *rig) change(id string, fn func(*api.Node)) {
	r.t.Helper()
	r.edit(func(tx *state.Txn) {
		n := *tx.Node(id)
		n.CSINodePlugins, n.CSIControllerPlugins = cloned(n.CSINodePlugins), cloned(n.CSIControllerPlugins)
		fn(&n)
		tx.PutNode(&n)
	})
}

func cloned(m map[string]*api.CSIInfo) map[string]*api.CSIInfo {
	next := map[string]*api.CSIInfo{}
	for k, i := range m {
		c := *i
		next[k] = &c
	}
	return next
}

func (r *rig) down(id string, ago time.Duration) {
	r.t.Helper()
	r.change(id, func(n *api.Node) {
		n.Status, n.StatusUpdatedAt = api.NodeStatusDown, time.Now().Add(-ago).Unix()
	})
}

func spec(id string, modes ...api.AccessMode) *api.VolumeSpec {
	if len(modes) == 0 {
		modes = []api.AccessMode{api.AccessSingleNodeWriter}
	}
	v := &api.VolumeSpec{ID: id, Name: id, Namespace: "default", PluginID: "p", ExternalID: "ext-" + id}
	for _, m := range modes {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &api.VolumeCapability{AccessMode: m, AttachmentMode: api.AttachmentFileSystem})
	}
	return v
}

func (r *rig) register(specs ...*api.VolumeSpec) {
	r.t.Helper()
	if _, err := r.room.Register(r.ctx(), &api.VolumeRegisterRequest{Volumes: specs}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

func alloc(id, node, volume string, mode api.AccessMode, change ...func(*api.Allocation)) *api.Allocation {
	g := &api.TaskGroup{Name: "g", Count: 1, Volumes: map[string]*api.VolumeRequest{
		"data": {Name: "data", Type: api.VolumeTypeCSI, Source: volume, AccessMode: string(mode), AttachmentMode: "file-system"},
	}}
	a := &api.Allocation{
		ID: id, Namespace: "default", Name: "job.g[0]", NodeID: node, JobID: "job", TaskGroup: "g",
		Job:           &api.Job{ID: "job", Namespace: "default", TaskGroups: []*api.TaskGroup{g}},
		DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func of(job string) func(*api.Allocation) {
	return func(a *api.Allocation) { a.JobID = job; a.Job.ID = job; a.Name = job + ".g[0]" }
}

// place does what plan apply does.
func (r *rig) place(a *api.Allocation, stopping ...string) error {
	stops := map[string]bool{}
	for _, id := range stopping {
		stops[id] = true
	}
	return r.try(func(tx *state.Txn) error {
		for _, id := range stopping {
			old := *tx.Alloc(id)
			old.DesiredStatus = api.AllocDesiredStatusStop
			tx.PutAlloc(&old)
			if err := ledger.AllocChanged(tx, &old); err != nil {
				return err
			}
		}
		tx.PutAlloc(a)
		return ledger.Take(tx, a, stops)
	})
}

func (r *rig) mustPlace(a *api.Allocation, stopping ...string) {
	r.t.Helper()
	if err := r.place(a, stopping...); err != nil {
		r.t.Fatal(err)
	}
}

// ends has the node report a client status.
func (r *rig) ends(id, status string) {
	r.t.Helper()
	if err := r.try(func(tx *state.Txn) error {
		a := *tx.Alloc(id)
		a.ClientStatus, a.ModifyTime = status, tx.Now().UnixNano()
		tx.PutAlloc(&a)
		return ledger.AllocChanged(tx, &a)
	}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) claim(volume, alloc, node string) (*api.VolumeClaimResponse, error) {
	return r.room.Claim(r.ctx(), &api.VolumeClaimRequest{VolumeID: volume, AllocID: alloc, NodeID: node, NodeSecret: "secret-" + node})
}

func (r *rig) mustClaim(volume, alloc, node string) *api.VolumeClaimResponse {
	r.t.Helper()
	out, err := r.claim(volume, alloc, node)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) unmounted(volume, alloc, node string) {
	r.t.Helper()
	if err := r.report(volume, alloc, node, ""); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) report(volume, alloc, node, reason string) error {
	_, err := r.room.Unpublish(r.ctx(), &api.VolumeUnpublishRequest{
		VolumeID: volume, AllocID: alloc, NodeID: node, NodeSecret: "secret-" + node, Error: reason,
	})
	return err
}

// eventually waits until the state is so.
func (r *rig) eventually(what string, holds func(*state.Txn) bool) {
	r.t.Helper()
	keys := []state.Key{
		state.TableKey(state.TableClaims), state.TableKey(state.TableAttachments), state.TableKey(state.TableVolumes),
	}
	if err := state.Until(r.ctx(), r.state, keys, holds); err != nil {
		r.t.Fatalf("%s: %v; %s", what, err, r.describe())
	}
}

func (r *rig) free(volume string) {
	r.t.Helper()
	r.eventually("volume "+volume+" is free", func(tx *state.Txn) bool {
		for range tx.ClaimsByVolume("default", volume) {
			return false
		}
		for range tx.AttachmentsOf("p", "ext-"+volume) {
			return false
		}
		return true
	})
}

func (r *rig) claimState(volume, alloc string) api.ClaimState {
	c := r.state.Read().Claim("default", volume, alloc)
	if c == nil {
		return ""
	}
	return c.State
}

func (r *rig) describe() string {
	s := ""
	tx := r.state.Read()
	for c := range tx.Claims() {
		s += fmt.Sprintf("claim %s/%s %s on %s (%s); ", c.VolumeID, c.AllocID, c.State, c.NodeID, c.LastError)
	}
	for a := range tx.Attachments() {
		s += fmt.Sprintf("attachment %s to %s %s (%s); ", a.ExternalID, a.NodeID, a.State, a.LastError)
	}
	return s
}

func (r *rig) get(id string) *api.VolumeDetail {
	r.t.Helper()
	out, err := r.room.Get(r.ctx(), &api.VolumeGetRequest{ID: id})
	if err != nil || out.Volume == nil {
		r.t.Fatalf("get volume %q: %v, %v", id, out, err)
	}
	return out.Volume
}

// nodes are scripted agents.
type nodes struct {
	mu  sync.Mutex
	all map[string]*node
}

func (ns *nodes) add(id string) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.all[id] == nil {
		ns.all[id] = &node{id: id, answers: map[string]func(context.Context, any) error{}, called: make(chan string, 1000)}
	}
	return ns.all[id]
}

func (ns *nodes) Node(id string) (wire.Caller, error) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.all[id]; n != nil && !n.gone() {
		return n, nil
	}
	return nil, fault.New(fault.Unavailable, "node %s is not connected", id)
}

type node struct {
	id string

	mu      sync.Mutex
	off     bool
	calls   []string
	answers map[string]func(context.Context, any) error
	called  chan string
	created api.ControllerCreateResponse
	grown   api.ControllerExpandResponse
	fences  []uint64
	// unready is how many snapshots are answered before one is ready.
	unready int
}

// readyAfter has the given call be the first that answers a ready snapshot.
func (n *node) readyAfter(call int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unready = call - 1
}

func (n *node) gone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.off
}

func (n *node) disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = true
}

// on has the node answer a method; nil makes it succeed again.
func (n *node) on(method string, answer func(context.Context, any) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[method] = answer
}

func (n *node) fails(method string, err error) {
	n.on(method, func(context.Context, any) error { return err })
}

func (n *node) Invoke(ctx context.Context, method string, req, resp any) error {
	n.mu.Lock()
	n.calls = append(n.calls, method)
	answer := n.answers[method]
	n.mu.Unlock()
	select {
	case n.called <- method:
	default:
	}
	if answer != nil {
		if err := answer(ctx, req); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch out := resp.(type) {
	case *api.ControllerPublishResponse:
		out.PublishContext = map[string]string{"device": "/dev/" + req.(*api.ControllerPublishRequest).ExternalID}
		n.fences = append(n.fences, req.(*api.ControllerPublishRequest).Fence)
	case *api.ControllerCreateResponse:
		*out = n.created
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
	case *api.ControllerSnapshotResponse:
		out.Snapshot = &api.Snapshot{ID: "snap", ExternalSourceVolumeID: "x", IsReady: n.unready == 0}
		n.unready = max(0, n.unready-1)
	}
	return nil
}

func (n *node) count(method string) int {
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

// await waits until the node was asked.
func (n *node) await(t *testing.T, method string) {
	t.Helper()
	bound := time.NewTimer(10 * time.Second)
	defer bound.Stop()
	for {
		select {
		case m := <-n.called:
			if m == method {
				return
			}
		case <-bound.C:
			t.Fatalf("node %s was not asked to %s", n.id, method)
		}
	}
}
