package volumes_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/client/volumes"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// virtual is a node in memory and in virtual time, with one plugin called p.
type virtual struct {
	t                         *testing.T
	host                      *mountstest.Host
	driver                    *fake.Driver
	servers                   *servers
	users                     *users
	journal, registry, fences *bucket
	conf                      volumes.Config
	svc                       *volumes.Service

	mu     sync.Mutex
	conn   *bufconn.Listener
	events []*api.NodeEvent
	all    sync.WaitGroup
	agent  context.CancelFunc
	plugin context.CancelFunc
	kind   string
	unplug func()
}

// inVirtualTime runs a test with a node whose plugin is healthy.
func inVirtualTime(t *testing.T, c fake.Config, test func(*testing.T, *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &virtual{
			t: t, host: mountstest.New("n1"), servers: newServers(), users: newUsers(), journal: &bucket{}, registry: &bucket{}, fences: &bucket{},
			kind: api.CSIPluginTypeMonolith,
		}
		c.Host, c.DataDir = v.host, "/data"
		v.driver = fake.New(c)
		v.driver.Storage().Add("v")
		v.conf = volumes.Config{
			StateDir: "/state", NodeID: func() string { return "n1" }, Servers: v.servers, Journal: v.journal, Registry: v.registry, Fences: v.fences,
			Host: v.host, Dial: v.dial, Tasks: v.users, NodeEvent: func(e *api.NodeEvent) {
				v.mu.Lock()
				defer v.mu.Unlock()
				v.events = append(v.events, e)
			},
		}
		v.plugIn(v.kind)
		v.start()
		defer func() {
			v.unplug()
			v.stop()
			if got := v.driver.Storage().Violations(); len(got) > 0 {
				t.Errorf("violations of the specification: %v", got)
			}
		}()
		test(t, v)
	})
}

func (v *virtual) dial(ctx context.Context, _ string) (net.Conn, error) {
	v.mu.Lock()
	l := v.conn
	v.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	return l.DialContext(ctx)
}

// plugIn starts the plugin's process; [virtual.start] makes it known.
func (v *virtual) plugIn(kind string) {
	ctx, cancel := context.WithCancel(v.t.Context())
	l := bufconn.Listen(1 << 20)
	v.mu.Lock()
	v.conn = l
	v.mu.Unlock()
	v.kind = kind
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.driver.ServeListener(ctx, l) }()
	v.unplug = func() { cancel(); <-ended; _ = l.Close() }
}

// start begins an agent process on what the former one left.
func (v *virtual) start() {
	v.t.Helper()
	svc, err := volumes.New(v.conf)
	if err != nil {
		v.t.Fatal(err)
	}
	v.svc = svc
	var ctx context.Context
	ctx, v.agent = context.WithCancel(v.t.Context())
	v.all.Go(func() { _ = svc.Run(ctx) })
	v.supervise()
}

// supervise makes the plugin known as the task of the allocation "plug" of its kind.
func (v *virtual) supervise() {
	var ctx context.Context
	ctx, v.plugin = context.WithCancel(v.t.Context())
	svc, kind := v.svc, v.kind
	v.all.Go(func() {
		_ = svc.Plugins().Serve(ctx, csiplugins.Instance{PluginID: "p", Type: kind, AllocID: "plug-" + kind, Task: "t", Socket: "p"})
	})
	v.until("the plugin is healthy", func() bool { return svc.Plugins().Alive() })
}

func (v *virtual) stop() {
	v.plugin()
	v.agent()
	v.all.Wait()
}

// until lets virtual time pass until a fact holds.
func (v *virtual) until(what string, fact func() bool) {
	v.t.Helper()
	for range 36_000 {
		synctest.Wait()
		if fact() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	v.t.Fatalf("never: %s", what)
}

func (v *virtual) up(a *api.Allocation) map[string]volumes.Mount {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Hour)
	defer cancel()
	m, err := v.svc.Up(ctx, a)
	if err != nil {
		v.t.Fatal(err)
	}
	return m
}

func (v *virtual) down(id string) {
	v.t.Helper()
	if err := v.svc.Down(v.t.Context(), id); err != nil {
		v.t.Fatal(err)
	}
}

func (v *virtual) released(id string) bool {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	return v.servers.isReleased(id)
}

// untilReleased waits until the servers were told.
func (v *virtual) untilReleased(id string) {
	v.t.Helper()
	v.until(id+" is released", func() bool { return v.released(id) })
}

// clean expects that nothing is left on the node.
func (v *virtual) clean() {
	v.t.Helper()
	if left, _ := v.host.Table(); len(left) > 0 {
		v.t.Errorf("%s is mounted still", left[0].Point)
	}
	if u := v.driver.Storage().Use("v"); len(u.Staged)+len(u.Published) > 0 {
		v.t.Errorf("the driver has %+v still", u)
	}
	if rows, _ := v.journal.All(); len(rows) > 0 {
		v.t.Errorf("the journal has %d records still", len(rows))
	}
}

func (v *virtual) count(rpc string) int { return len(v.driver.Calls(rpc)) }

// event reports whether the node told something of the kind.
func (v *virtual) event(message string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.events, func(e *api.NodeEvent) bool { return e.Message == message })
}

func (v *virtual) detach(req *api.NodeVolumeDetachRequest) error {
	v.t.Helper()
	req.Namespace, req.VolumeID, req.ExternalID, req.PluginID = "default", "v", "v", "p"
	_, err := serve(v.t, v.svc, v.t.Context(), wire.NodeVolumeDetach, req)
	return err
}

// on reports what is mounted at the path.
func (v *virtual) on(path string) *mounts.Entry {
	e, _ := v.host.At(path)
	return e
}

// The whole service runs in virtual time when its host and its plugins are in memory.
func TestServiceRunsInVirtualTime(t *testing.T) {
	inVirtualTime(t, fake.Config{}, func(t *testing.T, v *virtual) {
		begin := time.Now()
		v.driver.Script(fake.Fault{RPC: "NodeStageVolume", Times: 3, Code: codes.Unavailable})
		at := v.up(workload("w"))["a"].Source
		if v.on(at) == nil {
			t.Errorf("nothing is mounted at %s", at)
		}
		if took := time.Since(begin); took < time.Second {
			t.Errorf("three tries took %s of virtual time", took)
		}
		v.down("w")
		v.clean()
	})
}
