// Package volumestest is a bed for tests of volumes: the service and the reconciler over a log in memory, with
// nodes that are scripted.
package volumestest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/secrets"
	"github.com/open-nomad/open-nomad/nomad/secrets/secretstest"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
)

// T is what the bed needs of a test.
type T interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// Rig is the service and the reconciler over a log in memory.
type Rig struct {
	T          T
	State      *state.Store
	Raft       *fsm.Local
	Service    *volumes.Service
	Reconciler *reconciler.Reconciler
	Nodes      *Nodes
	// Proposing is called before the reconciler proposes a command; nil does nothing.
	Proposing func(fsm.Command)
	// Keyring seals the secrets of volumes, and Variables are the items of variables by "<namespace>/<path>".
	Keyring   *secretstest.Keyring
	Variables sync.Map
	looking   atomic.Pointer[func(string)]
	limits    reconciler.Limits
	box       *secrets.Box
	log       hclog.Logger
	stop      context.CancelFunc
	ended     chan error

	clock sync.Mutex
	begun chan struct{} // closed when the reconciler's term has begun; nil afterwards
	ahead time.Duration
}

// Quick keeps tests short; times that a test is about are set by it.
func Quick() reconciler.Limits {
	return reconciler.Limits{
		FenceAfter: 500 * time.Millisecond, LeaseMargin: time.Millisecond, UnmountAfter: time.Hour,
		RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond, Patience: 60 * time.Millisecond,
		AttachTimeout: 30 * time.Second,
	}
}

// New makes a rig whose reconciler runs until the test ends.
func New(t T, change ...func(*reconciler.Limits)) *Rig {
	t.Helper()
	s := state.New()
	limits := Quick()
	for _, c := range change {
		c(&limits)
	}
	registry := fsm.NewRegistry(commands.All)
	registry.Register(func() fsm.Command { return &edit{} })
	r := &Rig{T: t, State: s, Raft: fsm.NewLocal(s, registry), Nodes: &Nodes{all: map[string]*Node{}}, Keyring: secretstest.NewKeyring("k1")}
	r.Build(hclog.NewNullLogger(), limits)
	r.Start()
	t.Cleanup(r.Halt)
	return r
}

// Log builds the reconciler again and has it log everything to w.
func (r *Rig) Log(w io.Writer) {
	r.Halt()
	r.Build(hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Trace}), r.limits)
	r.Start()
}

// Build makes a new service and a new reconciler.
func (r *Rig) Build(log hclog.Logger, limits reconciler.Limits) {
	r.limits = limits
	r.box, r.log = r.newBox(), log
	r.Reconciler = reconciler.New(reconciler.Config{
		Secrets: r.box, Log: log, State: r.State, Raft: proposer{r}, Nodes: r.Nodes, Limits: limits, Now: r.now, Begin: r.begin,
	})
	r.Service = r.ServiceOver(r.Raft)
}

// ServiceOver makes a service that writes to another log.
func (r *Rig) ServiceOver(log fsm.Leader) *volumes.Service {
	return volumes.New(volumes.Config{
		Secrets: r.box, Log: r.log, State: r.State, Raft: log, Drivers: r.Reconciler, Outcomes: r.Reconciler, Reconciler: r.Reconciler,
		Patience: r.limits.Patience, LimitExpiry: r.limits.LimitExpiry,
	})
}

// Looking has fn be called whenever the reconciler begins to look at something.
func (r *Rig) Looking(fn func(what string)) { r.looking.Store(&fn) }

func (r *Rig) begin(_ context.Context, what string) {
	if fn := r.looking.Load(); fn != nil {
		(*fn)(what)
	}
}

// proposer is the reconciler's way to the log.
type proposer struct{ rig *Rig }

func (p proposer) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if p.rig.Proposing != nil {
		p.rig.Proposing(c)
	}
	return p.rig.Raft.Propose(ctx, c)
}

// now is the clock. A term begins by reading it.
func (r *Rig) now() time.Time {
	r.clock.Lock()
	defer r.clock.Unlock()
	if r.begun != nil {
		close(r.begun)
		r.begun = nil
	}
	return time.Now().Add(r.ahead)
}

// Later puts the reconciler's clock ahead.
func (r *Rig) Later(by time.Duration) {
	r.clock.Lock()
	defer r.clock.Unlock()
	r.ahead += by
}

// Start begins a leader's term: what is intended from now on is not inherited.
func (r *Rig) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.ended = cancel, make(chan error, 1)
	begun := make(chan struct{})
	r.clock.Lock()
	r.begun = begun
	r.clock.Unlock()
	go func() {
		var group errgroup.Group
		group.Go(func() error { return r.Service.Run(ctx) })
		group.Go(func() error { return r.Reconciler.Run(ctx) })
		r.ended <- group.Wait()
	}()
	<-begun
}

// Halt ends the leadership.
func (r *Rig) Halt() {
	r.stop()
	select {
	case <-r.ended:
		r.ended <- nil
	case <-time.After(30 * time.Second):
		r.T.Error("the loop did not end with its context")
	}
}

// edit is a command of tests: it runs a function inside Apply.
type edit struct{ ID uint64 }

var (
	editsMu sync.Mutex
	edits   = map[uint64]func(*state.Txn) error{}
	editsID uint64
)

// Kind implements [fsm.Command].
func (*edit) Kind() fsm.Kind { return fsm.KindSkippable + 1 }

// Apply implements [fsm.Command].
func (e *edit) Apply(tx *state.Txn) (any, error) {
	editsMu.Lock()
	fn := edits[e.ID]
	editsMu.Unlock()
	return nil, fn(tx)
}

// MarshalMsg implements [fsm.Command].
func (e *edit) MarshalMsg(b []byte) ([]byte, error) { return fmt.Appendf(b, "%020d", e.ID), nil }

// UnmarshalMsg implements [fsm.Command].
func (e *edit) UnmarshalMsg(b []byte) ([]byte, error) {
	_, err := fmt.Sscanf(string(b[:20]), "%d", &e.ID)
	return b[20:], err
}

// Try runs a function inside Apply and returns its error.
func (r *Rig) Try(fn func(*state.Txn) error) error {
	editsMu.Lock()
	editsID++
	id := editsID
	edits[id] = fn
	editsMu.Unlock()
	_, err := r.Raft.Propose(context.Background(), &edit{id})
	return err
}

// Edit changes the state inside Apply.
func (r *Rig) Edit(fn func(*state.Txn)) {
	r.T.Helper()
	if err := r.Try(func(tx *state.Txn) error { fn(tx); return nil }); err != nil {
		r.T.Fatal(err)
	}
}

// Node adds a ready node that runs the plugin "p" in the given ways.
func (r *Rig) Node(id string, change ...func(*api.Node)) *Node {
	r.T.Helper()
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
	r.Edit(func(tx *state.Txn) {
		ledger.MarkOwned(tx, n)
		tx.PutNode(n)
	})
	return r.Nodes.add(id)
}

// NodeOnly takes the controller away from a node.
func NodeOnly(n *api.Node) { n.CSIControllerPlugins = nil }

// NoController makes the plugin one without a controller service.
func NoController(n *api.Node) {
	n.CSIControllerPlugins = nil
	n.CSINodePlugins["p"].RequiresControllerPlugin = false
}

// Change changes the row of a node.
func (r *Rig) Change(id string, fn func(*api.Node)) {
	r.T.Helper()
	r.Edit(func(tx *state.Txn) {
		n := *tx.Node(id)
		n.CSINodePlugins, n.CSIControllerPlugins = cloned(n.CSINodePlugins), cloned(n.CSIControllerPlugins)
		fn(&n)
		ledger.MarkOwned(tx, &n)
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

// Down marks a node as down since some time ago.
func (r *Rig) Down(id string, ago time.Duration) {
	r.T.Helper()
	r.Change(id, func(n *api.Node) {
		n.Status, n.StatusUpdatedAt = api.NodeStatusDown, time.Now().Add(-ago).Unix()
	})
}

// Spec is a valid spec of a volume "ext-ID" of the plugin "p".
func Spec(id string, modes ...api.AccessMode) *api.VolumeSpec {
	if len(modes) == 0 {
		modes = []api.AccessMode{api.AccessSingleNodeWriter}
	}
	v := &api.VolumeSpec{ID: id, Name: id, Namespace: "default", PluginID: "p", ExternalID: "ext-" + id}
	for _, m := range modes {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &api.VolumeCapability{AccessMode: m, AttachmentMode: api.AttachmentFileSystem})
	}
	return v
}

// Register registers volumes.
func (r *Rig) Register(specs ...*api.VolumeSpec) {
	r.T.Helper()
	if _, err := r.Service.Register(r.Context(), &api.VolumeRegisterRequest{Volumes: specs}); err != nil {
		r.T.Fatal(err)
	}
}

// Context is the context of a request, bounded.
func (r *Rig) Context() context.Context {
	ctx, cancel := context.WithTimeout(r.T.Context(), 30*time.Second)
	r.T.Cleanup(cancel)
	return ctx
}

// Alloc is an allocation whose group uses a volume.
func Alloc(id, node, volume string, mode api.AccessMode, change ...func(*api.Allocation)) *api.Allocation {
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

// Of makes the allocation one of another job.
func Of(job string) func(*api.Allocation) {
	return func(a *api.Allocation) { a.JobID = job; a.Job.ID = job; a.Name = job + ".g[0]" }
}

// Place does what plan apply does.
func (r *Rig) Place(a *api.Allocation, stopping ...string) error {
	stops := map[string]bool{}
	for _, id := range stopping {
		stops[id] = true
	}
	return r.Try(func(tx *state.Txn) error {
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

// MustPlace is Place that has to succeed.
func (r *Rig) MustPlace(a *api.Allocation, stopping ...string) {
	r.T.Helper()
	if err := r.Place(a, stopping...); err != nil {
		r.T.Fatal(err)
	}
}

// Ends has the node report a client status.
func (r *Rig) Ends(id, status string) {
	r.T.Helper()
	if err := r.Try(func(tx *state.Txn) error {
		a := *tx.Alloc(id)
		a.ClientStatus, a.ModifyTime = status, tx.Now().UnixNano()
		tx.PutAlloc(&a)
		return ledger.AllocChanged(tx, &a)
	}); err != nil {
		r.T.Fatal(err)
	}
}

// Claim waits for a claim as the node does.
func (r *Rig) Claim(volume, alloc, node string) (*api.VolumeClaimResponse, error) {
	return r.Service.Claim(r.Context(), &api.VolumeClaimRequest{VolumeID: volume, AllocID: alloc, NodeID: node, NodeSecret: "secret-" + node})
}

// MustClaim is Claim that has to succeed.
func (r *Rig) MustClaim(volume, alloc, node string) *api.VolumeClaimResponse {
	r.T.Helper()
	out, err := r.Claim(volume, alloc, node)
	if err != nil {
		r.T.Fatal(err)
	}
	return out
}

// Unmounted has the node report an unmount.
func (r *Rig) Unmounted(volume, alloc, node string) {
	r.T.Helper()
	if err := r.Report(volume, alloc, node, ""); err != nil {
		r.T.Fatal(err)
	}
}

// Report has the node report an unmount, or why there is none.
func (r *Rig) Report(volume, alloc, node, reason string) error {
	_, err := r.Service.Unpublish(r.Context(), &api.VolumeUnpublishRequest{
		VolumeID: volume, AllocID: alloc, NodeID: node, NodeSecret: "secret-" + node, Error: reason,
	})
	return err
}

// Eventually waits until the state is so.
func (r *Rig) Eventually(what string, holds func(*state.Txn) bool) {
	r.T.Helper()
	keys := []state.Key{
		state.TableKey(state.TableClaims), state.TableKey(state.TableAttachments), state.TableKey(state.TableVolumes),
	}
	if err := state.Until(r.Context(), r.State, keys, holds); err != nil {
		r.T.Fatalf("%s: %v; %s", what, err, r.Describe())
	}
}

// Free waits until nothing holds the volume.
func (r *Rig) Free(volume string) {
	r.T.Helper()
	r.Eventually("volume "+volume+" is free", func(tx *state.Txn) bool {
		for range tx.ClaimsByVolume("default", volume) {
			return false
		}
		for range tx.AttachmentsOf("p", "ext-"+volume) {
			return false
		}
		return true
	})
}

// ClaimState is the state of a claim, "" when there is none.
func (r *Rig) ClaimState(volume, alloc string) api.ClaimState {
	c := r.State.Read().Claim("default", volume, alloc, "")
	if c == nil {
		return ""
	}
	return c.State
}

// Describe lists claims and attachments for failures.
func (r *Rig) Describe() string {
	s := ""
	tx := r.State.Read()
	for c := range tx.Claims() {
		s += fmt.Sprintf("claim %s/%s %s on %s (%s); ", c.VolumeID, c.AllocID, c.State, c.NodeID, c.LastError)
	}
	for a := range tx.Attachments() {
		s += fmt.Sprintf("attachment %s to %s %s (%s); ", a.ExternalID, a.NodeID, a.State, a.LastError)
	}
	return s
}

// Get reads a volume as users do.
func (r *Rig) Get(id string) *api.VolumeDetail {
	r.T.Helper()
	out, err := r.Service.Get(r.Context(), &api.VolumeGetRequest{ID: id})
	if err != nil || out.Volume == nil {
		r.T.Fatalf("get volume %q: %v, %v", id, out, err)
	}
	return out.Volume
}

// Made is a spec of a volume that is to be created.
func Made(id string) *api.VolumeSpec {
	v := Spec(id)
	v.ExternalID, v.RequestedCapacityMin = "", 100
	return v
}

// Create creates volumes as users do.
func (r *Rig) Create(specs ...*api.VolumeSpec) error {
	_, err := r.Service.Create(r.Context(), &api.VolumeCreateRequest{Volumes: specs})
	return err
}

// Delete deletes a volume as users do.
func (r *Rig) Delete(id string) error {
	_, err := r.Service.Delete(r.Context(), &api.VolumeDeleteRequest{VolumeID: id})
	return err
}

// Intents counts the snapshots that are to be made or deleted.
func (r *Rig) Intents() (n int) {
	for range r.State.Read().SnapshotIntents() {
		n++
	}
	return n
}

// Snapshot makes a snapshot of the volume "v" as users do.
func (r *Rig) Snapshot(name string) (*api.SnapshotListResponse, error) {
	return r.Service.CreateSnapshots(r.Context(), &api.SnapshotCreateRequest{Snapshots: []*api.Snapshot{{SourceVolumeID: "v", Name: name}}})
}
