package volumes_test

import (
	"context"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// bucket is an in-memory twin of a bucket; it outlives services as a file does.
type bucket struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (b *bucket) Get(k string) ([]byte, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.m[k], nil }

func (b *bucket) Put(k string, v []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[string][]byte{}
	}
	b.m[k] = slices.Clone(v)
	return nil
}

func (b *bucket) Delete(k string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.m, k)
	return nil
}

func (b *bucket) All() (map[string][]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.m), nil
}

// servers are what the node calls: claims are ready at once, unless a test says otherwise.
type servers struct {
	mu       sync.Mutex
	claimFn  func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error
	reportFn func(*api.VolumeUnpublishRequest) error
	claims   int
	released []string // allocations
	failures []string
	uses     []string // volume and use of each release
	intentFn func(*api.VolumeIntentRequest) error
	changed  chan struct{}
}

func newServers() *servers { return &servers{changed: make(chan struct{})} }

func (s *servers) Invoke(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case *api.VolumeClaimRequest:
		s.mu.Lock()
		s.claims++
		fn := s.claimFn
		s.signal()
		s.mu.Unlock()
		out := resp.(*api.VolumeClaimResponse)
		*out = ready(r)
		if fn != nil {
			return fn(ctx, r, out)
		}
	case *api.VolumeUnpublishRequest:
		s.mu.Lock()
		defer s.mu.Unlock()
		defer s.signal()
		if s.reportFn != nil {
			if err := s.reportFn(r); err != nil {
				return err
			}
		}
		if r.Error != "" {
			s.failures = append(s.failures, r.Error)
		} else {
			s.released = append(s.released, r.AllocID)
			s.uses = append(s.uses, r.VolumeID+"/"+r.Use)
		}
	case *api.VolumeIntentRequest:
		s.mu.Lock()
		fn := s.intentFn
		s.mu.Unlock()
		if fn != nil {
			return fn(r)
		}
	}
	return nil
}

func (s *servers) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ready grants a claim on the volume whose provider id is its own id.
func ready(r *api.VolumeClaimRequest) api.VolumeClaimResponse {
	v := &api.Volume{VolumeSpec: api.VolumeSpec{ID: r.VolumeID, Namespace: r.Namespace, PluginID: "p"}}
	return api.VolumeClaimResponse{Volume: v, Claim: &api.VolumeClaim{
		Namespace: r.Namespace, VolumeID: r.VolumeID, AllocID: r.AllocID, Use: r.Use, PluginID: "p", ExternalID: r.VolumeID,
		Mode: api.ClaimWrite, AccessMode: api.AccessMultiNodeMultiWriter, AttachmentMode: api.AttachmentFileSystem, State: api.ClaimReady,
	}}
}

func (s *servers) onClaim(fn func(context.Context, *api.VolumeClaimRequest, *api.VolumeClaimResponse) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimFn = fn
}

func (s *servers) onReport(fn func(*api.VolumeUnpublishRequest) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportFn = fn
}

// until waits until cond, which sees the servers locked, holds.
func (s *servers) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func (s *servers) isReleased(alloc string) bool { return slices.Contains(s.released, alloc) }

// rig is a node with one plugin called p.
type rig struct {
	t        *testing.T
	dir      string
	driver   *fake.Driver
	servers  *servers
	journal  *bucket
	registry *bucket
	conf     volumes.Config

	svc    *volumes.Service
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	nodes   map[string]*api.CSIInfo
	updates int
	changed chan struct{}

	plug *plug
}

// plug is one running plugin task.
type plug struct {
	task          *csiplugins.Task
	stopDriver    context.CancelFunc
	stopSupervise context.CancelFunc
	served        chan struct{}
	supervised    chan struct{}
	events        chan string
	restarts      chan string
}

func newRig(t *testing.T, c fake.Config) *rig { t.Helper(); return newRigWith(t, c, nil) }

func newRigWith(t *testing.T, c fake.Config, change func(*volumes.Config)) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir, err := os.MkdirTemp("", "cv")
	if err != nil {
		t.Fatal(err)
	}
	if c.DataDir == "" {
		c.DataDir = filepath.Join(dir, "data")
	}
	r := &rig{t: t, dir: dir, driver: fake.New(c), servers: newServers(), journal: &bucket{}, registry: &bucket{}, changed: make(chan struct{})}
	r.driver.Storage().Add("v")
	r.conf = volumes.Config{
		StateDir: filepath.Join(dir, "client"), NodeID: func() string { return "node" }, Servers: r.servers,
		Journal: r.journal, Registry: r.registry, Updated: r.updated, PluginWait: 30 * time.Second,
		RetryMax: 20 * time.Millisecond, HealthInterval: 100 * time.Millisecond, Timeouts: csi.Timeouts{Change: 30 * time.Second, Linger: 400 * time.Millisecond},
		Log: hclog.NewNullLogger(),
	}
	if os.Getenv("VOLUMES_LOG") != "" {
		r.conf.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug})
	}
	if change != nil {
		change(&r.conf)
	}
	t.Cleanup(r.clean)
	r.start()
	return r
}

func (r *rig) updated(_, nodes map[string]*api.CSIInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = nodes
	r.updates++
	close(r.changed)
	r.changed = make(chan struct{})
}

// start begins an agent process on what the former one left.
func (r *rig) start() {
	r.t.Helper()
	svc, err := volumes.New(r.conf)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.svc, r.cancel, r.ended = svc, cancel, make(chan struct{})
	go func() { defer close(r.ended); _ = svc.Run(ctx) }()
}

// stop ends the agent process; the plugin goes on.
func (r *rig) stop() {
	r.cancel()
	<-r.ended
	if r.plug != nil {
		r.plug.stopSupervise()
		<-r.plug.supervised
	}
}

// restored says which allocations the node knows after a restart; those whose id begins with "over" have ended.
func (r *rig) restored(all ...*api.Allocation) {
	known := map[string]volumes.Known{}
	for _, a := range all {
		known[a.ID] = volumes.Known{Alloc: a, Ended: strings.HasPrefix(a.ID, "over")}
	}
	r.svc.Restored(known)
}

func pluginOf(id string) *api.Allocation {
	a, _ := pluginAlloc(id, api.CSIPluginTypeMonolith)
	return a
}

func (r *rig) restart() { r.stop(); r.start() }

func (r *rig) clean() {
	r.stop()
	if r.plug != nil {
		r.plug.stopDriver()
		<-r.plug.served
	}
	below, err := mounts.Below(r.dir)
	if err != nil {
		r.t.Error(err)
	}
	for _, e := range slices.Backward(below) {
		if err := mounts.Unmount(e.Point); err != nil {
			r.t.Error(err)
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.t.Error(err)
	}
	if v := r.driver.Storage().Violations(); len(v) > 0 {
		r.t.Errorf("violations of the specification: %v", v)
	}
}

func pluginAlloc(id, kind string) (*api.Allocation, *api.Task) {
	task := &api.Task{Name: "plugin", CSIPluginConfig: &api.CSIPluginConfig{ID: "p", Type: kind, HealthTimeout: 5 * time.Second}}
	return &api.Allocation{
		ID: id, Namespace: "default", TaskGroup: "g",
		Job: &api.Job{ID: "plugin", TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{task}}}},
	}, task
}

// plugIn starts the plugin as a task of an allocation does.
func (r *rig) plugIn(alloc string) *plug {
	r.t.Helper()
	p := r.prepare(alloc, api.CSIPluginTypeMonolith)
	r.serve(p, r.driver)
	r.supervise(p)
	r.healthy()
	return p
}

func (r *rig) prepare(alloc, kind string) *plug {
	r.t.Helper()
	a, task := pluginAlloc(alloc, kind)
	pt, err := r.svc.Plugins().Task(a, task, false)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &plug{
		task: pt, events: make(chan string, 100), restarts: make(chan string, 100),
		stopDriver: func() {}, stopSupervise: func() {}, served: make(chan struct{}), supervised: make(chan struct{}),
	}
	r.plug = p
	return p
}

func (r *rig) serve(p *plug, d *fake.Driver) {
	r.t.Helper()
	_, env, err := p.task.Prepare()
	if err != nil {
		r.t.Fatal(err)
	}
	socket, err := csi.SocketOf(env["CSI_ENDPOINT"])
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stopDriver, p.served = cancel, make(chan struct{})
	served := p.served
	go func() { defer close(served); _ = d.Serve(ctx, socket) }()
}

func (r *rig) supervise(p *plug) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stopSupervise, p.supervised = cancel, make(chan struct{})
	over := p.supervised
	go func() {
		defer close(over)
		p.task.Supervise(ctx, func(kind, text string) { p.events <- kind + ": " + text }, func(reason string) { p.restarts <- reason })
	}()
}

// unplug ends the task as the death of its process does.
func (r *rig) unplug(p *plug) {
	p.stopDriver()
	<-p.served
	p.stopSupervise()
	<-p.supervised
	p.task.Cleanup()
}

// node waits until the reported fingerprint of the plugin fits.
func (r *rig) node(what string, fits func(*api.CSIInfo) bool) *api.CSIInfo {
	r.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		info, changed := r.nodes["p"], r.changed
		r.mu.Unlock()
		if fits(info) {
			return info
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("plugin never: %s; it is %+v", what, info)
		}
	}
}

func (r *rig) healthy() {
	r.t.Helper()
	r.node("healthy", func(i *api.CSIInfo) bool { return i != nil && i.Healthy })
}

func ask(reqs ...*api.VolumeRequest) map[string]*api.VolumeRequest {
	out := map[string]*api.VolumeRequest{}
	for i, q := range reqs {
		q.Type = api.VolumeTypeCSI
		q.Name = string(rune('a' + i))
		out[q.Name] = q
	}
	return out
}

func workload(id string, reqs ...*api.VolumeRequest) *api.Allocation {
	if len(reqs) == 0 {
		reqs = []*api.VolumeRequest{{Source: "v"}}
	}
	return &api.Allocation{
		ID: id, Name: "job.g[0]", Namespace: "default", TaskGroup: "g",
		Job: &api.Job{ID: "job", TaskGroups: []*api.TaskGroup{{Name: "g", Volumes: ask(reqs...)}}},
	}
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) up(a *api.Allocation) map[string]volumes.Mount {
	r.t.Helper()
	m, err := r.svc.Up(r.ctx(), a)
	if err != nil {
		r.t.Fatal(err)
	}
	for alias, mount := range m {
		if on, err := mounts.IsPoint(mount.Source); err != nil || !on {
			r.t.Fatalf("volume %s is not mounted at %s: %v", alias, mount.Source, err)
		}
	}
	return m
}

func (r *rig) down(alloc string) {
	r.t.Helper()
	if err := r.svc.Down(r.ctx(), alloc); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) count(rpc string) int { return len(r.driver.Calls(rpc)) }

// mounted counts the mounts below the state directory, the shared root aside.
func (r *rig) mounted() int {
	r.t.Helper()
	below, err := mounts.Below(filepath.Join(r.conf.StateDir, "csi", "monolith"))
	if err != nil {
		r.t.Fatal(err)
	}
	return len(below)
}

// handle makes a call of the servers.
func handle[Req, Resp any](r *rig, ctx context.Context, m wire.Method[Req, Resp], req *Req) (*Resp, error) {
	r.t.Helper()
	return serve(r.t, r.svc, ctx, m, req)
}

func serve[Req, Resp any](t *testing.T, svc *volumes.Service, ctx context.Context, m wire.Method[Req, Resp], req *Req) (*Resp, error) {
	t.Helper()
	for _, h := range svc.Handlers() {
		if h.Name == m.Name {
			out, err := h.Serve(ctx, req)
			if err != nil {
				return nil, err
			}
			return out.(*Resp), nil
		}
	}
	t.Fatalf("no handler for %s", m.Name)
	return nil, nil
}

// keys are those that begin so.
func (b *bucket) keys(prefix string) iter.Seq[string] {
	return func(yield func(string) bool) {
		b.mu.Lock()
		all := slices.Sorted(maps.Keys(b.m))
		b.mu.Unlock()
		for _, k := range all {
			if strings.HasPrefix(k, prefix) && !yield(k) {
				return
			}
		}
	}
}
