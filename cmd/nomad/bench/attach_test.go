package bench_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/store"
	clientvolumes "github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/fsm/consensus"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/reconciler"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

// BenchmarkAttach prints how many volumes a second are attached and detached again by the embedded driver, so
// many at once. The log of the server, the store of the node and the books of the driver are on disk; nothing is
// mounted and no task is started.
func BenchmarkAttach(b *testing.B) {
	for _, width := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("at-once=", width), func(b *testing.B) {
			v := newStorage(b, width)
			for b.Loop() {
				const spell = 3 * time.Second
				var done atomic.Int64
				var group sync.WaitGroup
				began := time.Now()
				for i := range width {
					group.Go(func() {
						for time.Since(began) < spell && !b.Failed() {
							v.use(i)
							done.Add(1)
						}
					})
				}
				group.Wait()
				b.ReportMetric(float64(done.Load())/time.Since(began).Seconds(), "cycles/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// storage is a server's half of volumes, and a node that runs the embedded driver with attaching.
type storage struct {
	tb      testing.TB
	state   *state.Store
	raft    *consensus.Raft
	service *volumes.Service
	node    *clientvolumes.Service
	// external are the ids of the volumes at the driver.
	external []string
	allocs   atomic.Int64
	edits    sync.Map
}

const (
	plugin     = "p"
	host       = "n1"
	hostSecret = "of n1"
)

func newStorage(b *testing.B, many int) *storage {
	b.Helper()
	dir, err := os.MkdirTemp("", "attach") // short, because unix socket paths are
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	v := &storage{tb: b}
	registry := fsm.NewRegistry(commands.All)
	registry.Register(func() fsm.Command { return &edit{of: v} })
	v.lead(filepath.Join(dir, "server"), registry)
	v.work(dir)
	for i := range many {
		v.create(fmt.Sprint("v", i))
	}
	return v
}

// lead starts the server's half.
func (v *storage) lead(dir string, registry *fsm.Registry) {
	v.tb.Helper()
	var err error
	v.state = state.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		v.tb.Fatal(err)
	}
	v.tb.Cleanup(func() { _ = l.Close() })
	v.raft, err = consensus.Open(consensus.Config{
		ID: "s1", Advertise: l.Addr().String(), Dir: dir, Single: true, State: v.state, Registry: registry, Listener: l,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
		Log: hclog.NewNullLogger(),
	})
	if err != nil {
		v.tb.Fatal(err)
	}
	r := reconciler.New(reconciler.Config{State: v.state, Raft: v.raft, Nodes: v})
	v.service = volumes.New(volumes.Config{Log: hclog.NewNullLogger(), State: v.state, Raft: v.raft, Drivers: r, Outcomes: r})
	leading := make(chan struct{})
	v.background(func(ctx context.Context) {
		_ = v.raft.Lead(ctx, func(ctx context.Context) error {
			close(leading)
			var term sync.WaitGroup
			defer term.Wait()
			term.Go(func() { _ = v.service.Run(ctx) })
			return r.Run(ctx)
		})
		_ = v.raft.Close()
	})
	<-leading
}

// background runs until the benchmark ends, which waits for it.
func (v *storage) background(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	v.tb.Cleanup(func() { cancel(); <-ended })
}

// work starts the node's half and its plugin, and waits until the servers know it.
func (v *storage) work(dir string) {
	v.tb.Helper()
	db, err := store.Open(filepath.Join(dir, "node.db"), hclog.NewNullLogger())
	if err != nil {
		v.tb.Fatal(err)
	}
	v.tb.Cleanup(func() { _ = db.Close() })
	found := make(chan struct{}, 1)
	v.node, err = clientvolumes.New(clientvolumes.Config{
		StateDir: filepath.Join(dir, "client"), NodeID: func() string { return host }, NodeSecret: func() string { return hostSecret },
		Servers: handlers(v.service.Handlers), Journal: db.Bucket("mounts"), Registry: db.Bucket("plugins"), Fences: db.Bucket("fences"), Log: hclog.NewNullLogger(),
		Updated: func(controllers, nodes map[string]*api.CSIInfo) {
			if nodes[plugin] == nil || !nodes[plugin].Healthy {
				return
			}
			v.edit(func(tx *state.Txn) error {
				tx.PutNode(&api.Node{
					ID: host, Name: host, SecretID: hostSecret, Status: api.NodeStatusReady, StatusUpdatedAt: time.Now().Unix(),
					CSIControllerPlugins: controllers, CSINodePlugins: nodes,
				})
				return nil
			})
			select {
			case found <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		v.tb.Fatal(err)
	}
	v.tb.Cleanup(func() { // after all that follows
		v.node.Plugins().Drop("plugin")
		v.node.Plugins().LeaveRoot()
	})
	v.background(func(ctx context.Context) { _ = v.node.Run(ctx) })
	task := &api.Task{Name: "driver", CSIPluginConfig: &api.CSIPluginConfig{ID: plugin, Type: api.CSIPluginTypeMonolith}}
	group := &api.TaskGroup{Name: "g", Tasks: []*api.Task{task}}
	alloc := &api.Allocation{ID: "plugin", Namespace: "default", TaskGroup: "g", Job: &api.Job{ID: plugin, Namespace: "default", TaskGroups: []*api.TaskGroup{group}}}
	t, err := v.node.Plugins().Task(alloc, task, false)
	if err != nil {
		v.tb.Fatal(err)
	}
	_, env, err := t.Prepare()
	if err != nil {
		v.tb.Fatal(err)
	}
	v.background(func(ctx context.Context) {
		_ = hostpath.Run(ctx, hostpath.Config{Endpoint: env["CSI_ENDPOINT"], StateDir: filepath.Join(dir, "books"), NodeID: host, Attach: true})
	})
	v.background(func(ctx context.Context) { t.Supervise(ctx, func(string, string) {}, func(string) {}) })
	select {
	case <-found:
	case <-time.After(20 * time.Second):
		v.tb.Fatal("the plugin is not healthy")
	}
}

func (v *storage) create(id string) {
	v.tb.Helper()
	_, err := v.service.Create(v.tb.Context(), &api.VolumeCreateRequest{Volumes: []*api.VolumeSpec{{
		ID: id, Name: id, Namespace: "default", PluginID: plugin, RequestedCapacityMin: 1 << 20,
		RequestedCapabilities: []*api.VolumeCapability{{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem}},
	}}})
	if err != nil {
		v.tb.Fatal(err)
	}
	v.external = append(v.external, v.state.Read().Volume("default", id).RemoteID())
}

// use has an allocation take a volume, waits until it is attached, ends the allocation and waits until the volume
// is detached.
func (v *storage) use(volume int) {
	id, alloc := fmt.Sprint("v", volume), fmt.Sprint("a", v.allocs.Add(1))
	group := &api.TaskGroup{Name: "g", Count: 1, Volumes: map[string]*api.VolumeRequest{
		"data": {Name: "data", Type: api.VolumeTypeCSI, Source: id, AccessMode: "single-node-writer", AttachmentMode: "file-system"},
	}}
	v.edit(func(tx *state.Txn) error {
		a := &api.Allocation{
			ID: alloc, Namespace: "default", Name: alloc + ".g[0]", NodeID: host, JobID: alloc, TaskGroup: "g",
			Job:           &api.Job{ID: alloc, Namespace: "default", TaskGroups: []*api.TaskGroup{group}},
			DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending,
		}
		tx.PutAlloc(a)
		return ledger.Take(tx, a, nil)
	})
	if _, err := v.service.Claim(v.tb.Context(), &api.VolumeClaimRequest{VolumeID: id, AllocID: alloc, NodeID: host, NodeSecret: hostSecret}); err != nil {
		v.tb.Error(err)
		return
	}
	v.edit(func(tx *state.Txn) error {
		a := *tx.Alloc(alloc)
		a.ClientStatus, a.ModifyTime = api.AllocClientStatusComplete, tx.Now().UnixNano()
		tx.PutAlloc(&a)
		return ledger.AllocChanged(tx, &a)
	})
	_, err := v.service.Unpublish(v.tb.Context(), &api.VolumeUnpublishRequest{VolumeID: id, AllocID: alloc, NodeID: host, NodeSecret: hostSecret})
	if err != nil {
		v.tb.Error(err)
		return
	}
	err = state.Until(v.tb.Context(), v.state, []state.Key{state.TableKey(state.TableAttachments)}, func(tx *state.Txn) bool {
		for range tx.AttachmentsOf(plugin, v.external[volume]) {
			return false
		}
		return true
	})
	if err != nil {
		v.tb.Error(err)
	}
}

// Node implements the reconciler's way to nodes.
func (v *storage) Node(string) (wire.Caller, error) { return handlers(v.node.Handlers), nil }

// handlers carry calls out without a connection.
type handlers func() []wire.Handler

func (all handlers) Invoke(ctx context.Context, method string, req, resp any) error {
	for _, h := range all() {
		if h.Name != method {
			continue
		}
		out, err := h.Serve(ctx, req)
		if err == nil && resp != nil {
			reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(out).Elem())
		}
		return err
	}
	return fault.New(fault.Unimplemented, "method %s", method)
}

// edit is a command that runs a function inside Apply, as the commands of other parts of a server do.
type edit struct {
	of *storage
	id int64
}

func (v *storage) edit(do func(*state.Txn) error) {
	id := v.allocs.Add(1)
	v.edits.Store(id, do)
	if _, err := v.raft.Propose(v.tb.Context(), &edit{v, id}); err != nil {
		v.tb.Error(err)
	}
}

func (*edit) Kind() fsm.Kind { return fsm.KindSkippable + 1 }

func (e *edit) Apply(tx *state.Txn) (any, error) {
	do, _ := e.of.edits.LoadAndDelete(e.id)
	return nil, do.(func(*state.Txn) error)(tx)
}

func (e *edit) MarshalMsg(b []byte) ([]byte, error) { return fmt.Appendf(b, "%020d", e.id), nil }

func (e *edit) UnmarshalMsg(b []byte) ([]byte, error) {
	_, err := fmt.Sscanf(string(b[:20]), "%d", &e.id)
	return b[20:], err
}
