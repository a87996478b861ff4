package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Driver is one plugin process.
type Driver struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeServer
	store *Storage

	mu      sync.Mutex
	conf    Config
	ready   bool
	script  []*Fault
	calls   []Call
	changed chan struct{}
	life    *life
}

// New makes a driver.
func New(c Config) *Driver {
	if c.Storage == nil {
		c.Storage = NewStorage()
	}
	if c.NodeID == "" {
		c.NodeID = "fake-node"
	}
	if c.Host == nil {
		c.Host = mounts.System{}
	}
	d := &Driver{conf: c, store: c.Storage, ready: !c.Starting, changed: make(chan struct{}), life: newLife()}
	d.store.know(c.NodeID)
	return d
}

// Storage is the provider of the driver.
func (d *Driver) Storage() *Storage { return d.store }

// ErrCrashed is what Serve returns after a crash.
var ErrCrashed = errors.New("crashed by script")

// Serve serves on the socket until ctx ends or a fault crashes it; it may be called again.
func (d *Driver) Serve(ctx context.Context, socket string) error {
	l, err := csi.Listen(socket)
	if err != nil {
		return err
	}
	return d.ServeListener(ctx, l)
}

// ServeListener serves on a listener, of a connection in memory for example, as [Driver.Serve] does on a socket.
func (d *Driver) ServeListener(ctx context.Context, l net.Listener) error {
	c, process := d.config(), newLife()
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return d.intercept(context.WithValue(ctx, lifeKey{}, process), req, info, next)
	}))
	process.server = s
	pb.RegisterIdentityServer(s, d)
	if !c.NoController {
		pb.RegisterControllerServer(s, d)
	}
	if !c.NoNode {
		pb.RegisterNodeServer(s, d)
	}
	d.mu.Lock()
	d.life = process
	d.mu.Unlock()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			process.end()
		case <-ended:
		}
	}()
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve fake plugin: %w", err)
	}
	if ctx.Err() == nil {
		return ErrCrashed
	}
	return nil
}

// life is that of a process: from its start to its crash.
type life struct {
	server *grpc.Server // nil when calls are calls of functions
	over   chan struct{}
	once   sync.Once
}

type lifeKey struct{}

func newLife() *life { return &life{over: make(chan struct{})} }

func (l *life) end() {
	l.once.Do(func() {
		if l.server != nil {
			l.server.Stop() // first, so that nothing is answered
		}
		close(l.over)
	})
}

func (l *life) ended() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// living is the process that serves the call, or that serves calls of functions now.
func (d *Driver) living(ctx context.Context) *life {
	if l, ok := ctx.Value(lifeKey{}).(*life); ok {
		return l
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

// Restart begins the process again if it has crashed, for calls of functions.
func (d *Driver) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.ended() {
		d.life = newLife()
	}
}

// SetReady sets the reply of Probe.
func (d *Driver) SetReady(ready bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready = ready
}

// Rename gives the node another provider's id, as a plugin with a new configuration has.
func (d *Driver) Rename(nodeID string) {
	d.Change(func(c *Config) { c.NodeID = nodeID })
	d.store.know(nodeID)
}

// Call is one call that the driver got.
type Call struct {
	// RPC is the name of the method.
	RPC    string
	Volume string
	// Path is the target or staging path, or the node of controller calls.
	Path string
	// Request is the whole request; tests look at single fields.
	Request any
	Err     error
	Began   time.Time
}

// Calls lists the calls of the given methods in the order in which they began; without methods all.
func (d *Driver) Calls(rpcs ...string) []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.calls), func(c Call) bool { return len(rpcs) > 0 && !slices.Contains(rpcs, c.RPC) })
}

// Await waits until there were n calls of the method.
func (d *Driver) Await(ctx context.Context, rpc string, n int) error {
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		if got := len(d.Calls(rpc)); got >= n {
			return nil
		} else if ctx.Err() != nil {
			return fmt.Errorf("%d calls of %s, wanted %d: %w", got, rpc, n, ctx.Err())
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// intercept writes the log, plays the script and watches for overlaps.
func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	rpc := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	c := Call{RPC: rpc, Volume: volumeOf(req), Path: pathOf(req), Request: req, Began: time.Now()}
	d.mu.Lock()
	at := len(d.calls)
	d.calls = append(d.calls, c)
	f := d.faultLocked(c)
	conf := d.conf
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	defer d.store.enter(c, conf.NodeID)()
	resp, err := d.play(ctx, conf, c, f, next)
	d.mu.Lock()
	d.calls[at].Err = err
	d.mu.Unlock()
	return resp, err
}

func volumeOf(req any) string {
	if r, ok := req.(interface{ GetVolumeId() string }); ok {
		return r.GetVolumeId()
	}
	if r, ok := req.(interface{ GetName() string }); ok {
		return r.GetName()
	}
	return ""
}

func pathOf(req any) string {
	switch r := req.(type) {
	case interface{ GetTargetPath() string }:
		return r.GetTargetPath()
	case interface{ GetVolumePath() string }:
		return r.GetVolumePath()
	case interface{ GetStagingTargetPath() string }:
		return r.GetStagingTargetPath()
	case interface{ GetNodeId() string }:
		return r.GetNodeId()
	}
	return ""
}

// GetPluginInfo names the driver.
func (d *Driver) GetPluginInfo(context.Context, *pb.GetPluginInfoRequest) (*pb.GetPluginInfoResponse, error) {
	return &pb.GetPluginInfoResponse{Name: cmp.Or(d.config().Name, "fake.open-nomad.dev"), VendorVersion: "1"}, nil
}

// GetPluginCapabilities returns the capabilities of Config.
func (d *Driver) GetPluginCapabilities(context.Context, *pb.GetPluginCapabilitiesRequest) (*pb.GetPluginCapabilitiesResponse, error) {
	c := d.config()
	out := &pb.GetPluginCapabilitiesResponse{}
	add := func(on bool, t pb.PluginCapability_Service_Type) {
		if on {
			out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_Service_{
				Service: &pb.PluginCapability_Service{Type: t},
			}})
		}
	}
	add(!c.NoController || c.Attach, pb.PluginCapability_Service_CONTROLLER_SERVICE)
	add(len(c.Topology) > 0, pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	if c.OfflineExpansion {
		out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &pb.PluginCapability_VolumeExpansion{Type: pb.PluginCapability_VolumeExpansion_OFFLINE},
		}})
	}
	if c.NilEntries {
		out.Capabilities = append(out.Capabilities, nil)
	}
	return out, nil
}

// Probe returns what SetReady set.
func (d *Driver) Probe(context.Context, *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &pb.ProbeResponse{Ready: boolValue(d.ready)}, nil
}
