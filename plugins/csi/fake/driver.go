package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi"
)

// Config says what the driver can do. The zero value is a controller and node in one with staging and
// creation, without attaching.
type Config struct {
	// Storage is shared by the drivers of several nodes; nil makes a new one.
	Storage *Storage
	// NodeID is the provider's name of the node; empty means fake-node.
	NodeID string
	// NoController leaves the controller service out, NoNode the node service.
	NoController, NoNode bool
	Attach               bool
	// NoStage leaves staging out.
	NoStage bool
	// ReadOnlyAttach adds PUBLISH_READONLY.
	ReadOnlyAttach bool
	// Topology makes volumes reachable only from nodes with these segments.
	Topology   map[string]string
	MaxVolumes int64
	// Starting makes Probe answer not ready until SetReady.
	Starting bool
	// NilEntries makes lists have holes, as broken plugins do.
	NilEntries bool
	// DataDir makes real bind mounts of directories in it.
	DataDir string
	// NoMountAtTarget answers yes to publishing without mounting anything.
	NoMountAtTarget bool
	// MountGroup adds VOLUME_MOUNT_GROUP; the group is only recorded with the call.
	MountGroup bool
	// OfflineExpansion says that volumes must not be in use while they grow.
	OfflineExpansion bool
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

// Fault is one line of the script. The first line that fits a call is used.
type Fault struct {
	RPC string
	// Volume and Node narrow it down; empty fits all.
	Volume, Node string
	// Skip lets so many fitting calls pass; Times is how many fail after that, 0 means all.
	Skip, Times int
	// Code is the answer; codes.OK lets the call work after its delay.
	Code codes.Code
	// Text is the message; empty means "injected".
	Text  string
	Delay time.Duration
	// Hang waits until the caller gives up; Late does the work first. Crash ends the plugin.
	Hang, Late, Crash bool
	seen              int
}

// Driver is one plugin process.
type Driver struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeServer
	conf  Config
	store *Storage

	mu      sync.Mutex
	ready   bool
	script  []*Fault
	calls   []Call
	changed chan struct{}
	server  *grpc.Server
}

// New makes a driver.
func New(c Config) *Driver {
	if c.Storage == nil {
		c.Storage = NewStorage()
	}
	if c.NodeID == "" {
		c.NodeID = "fake-node"
	}
	d := &Driver{conf: c, store: c.Storage, ready: !c.Starting, changed: make(chan struct{})}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.store.nodes[c.NodeID] = d
	return d
}

// Storage is the provider of the driver.
func (d *Driver) Storage() *Storage { return d.store }

// ErrCrashed is what Serve returns after a crash by script.
var ErrCrashed = errors.New("crashed by script")

// Serve answers on the socket until ctx ends or a fault crashes it; it may be called again.
func (d *Driver) Serve(ctx context.Context, socket string) error {
	l, err := csi.Listen(socket)
	if err != nil {
		return err
	}
	return d.serve(ctx, l)
}

func (d *Driver) serve(ctx context.Context, l net.Listener) error {
	s := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	pb.RegisterIdentityServer(s, d)
	if !d.conf.NoController {
		pb.RegisterControllerServer(s, d)
	}
	if !d.conf.NoNode {
		pb.RegisterNodeServer(s, d)
	}
	d.mu.Lock()
	d.server = s
	d.mu.Unlock()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			s.Stop()
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

// Script adds lines to the script.
func (d *Driver) Script(faults ...Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range faults {
		d.script = append(d.script, &f)
	}
}

// Heal empties the script.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script = nil
}

// SetReady says what Probe answers.
func (d *Driver) SetReady(ready bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready = ready
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

// changing are the calls of which only one may be in flight per volume.
var changing = []string{
	"ControllerPublishVolume", "ControllerUnpublishVolume", "NodeStageVolume", "NodeUnstageVolume",
	"NodePublishVolume", "NodeUnpublishVolume", "NodeExpandVolume", "ControllerExpandVolume", "DeleteVolume",
}

// intercept writes the log, plays the script and watches for overlaps.
func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	rpc := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	c := Call{RPC: rpc, Volume: volumeOf(req), Path: pathOf(req), Request: req, Began: time.Now()}
	d.mu.Lock()
	at := len(d.calls)
	d.calls = append(d.calls, c)
	f := d.faultLocked(c)
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
	defer d.store.enter(c, d.conf.NodeID)()
	resp, err := d.play(ctx, f, req, next)
	d.mu.Lock()
	d.calls[at].Err = err
	d.mu.Unlock()
	return resp, err
}

func (d *Driver) faultLocked(c Call) *Fault {
	for _, f := range d.script {
		if f.RPC != c.RPC || f.Volume != "" && f.Volume != c.Volume || f.Node != "" && f.Node != d.conf.NodeID && f.Node != c.Path {
			continue
		}
		f.seen++
		if f.seen > f.Skip && (f.Times == 0 || f.seen <= f.Skip+f.Times) {
			return f
		}
	}
	return nil
}

func (d *Driver) play(ctx context.Context, f *Fault, req any, next grpc.UnaryHandler) (resp any, err error) {
	if f == nil {
		return next(ctx, req)
	}
	if f.Late {
		// The work is done although the caller will not learn of it.
		if resp, err = next(context.WithoutCancel(ctx), req); err != nil {
			return nil, err
		}
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
		}
	}
	if f.Crash {
		d.mu.Lock()
		s := d.server
		d.mu.Unlock()
		go s.Stop()
		<-ctx.Done()
	}
	if f.Hang {
		<-ctx.Done()
	}
	if f.Code != codes.OK {
		text := f.Text
		if text == "" {
			text = "injected"
		}
		return nil, status.Error(f.Code, text)
	}
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if f.Late {
		return resp, nil
	}
	return next(ctx, req)
}

// enter watches for a second call in flight of the volume.
func (s *Storage) enter(c Call, node string) (leave func()) {
	if c.Volume == "" || !slices.Contains(changing, c.RPC) {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[c.Volume]
	if v == nil {
		return func() {}
	}
	key := node
	if strings.HasPrefix(c.RPC, "Controller") {
		key = "controller/" + c.Path
	}
	if other, ok := v.inFlight[key]; ok {
		s.violatedLocked("overlap: %s of volume %s while %s is in flight", c.RPC, c.Volume, other)
	}
	v.inFlight[key] = c.RPC
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(v.inFlight, key)
	}
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
	return &pb.GetPluginInfoResponse{Name: "fake.open-nomad.dev", VendorVersion: "1"}, nil
}

// GetPluginCapabilities says what Config says.
func (d *Driver) GetPluginCapabilities(context.Context, *pb.GetPluginCapabilitiesRequest) (*pb.GetPluginCapabilitiesResponse, error) {
	out := &pb.GetPluginCapabilitiesResponse{}
	add := func(on bool, t pb.PluginCapability_Service_Type) {
		if on {
			out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_Service_{
				Service: &pb.PluginCapability_Service{Type: t},
			}})
		}
	}
	add(!d.conf.NoController || d.conf.Attach, pb.PluginCapability_Service_CONTROLLER_SERVICE)
	add(len(d.conf.Topology) > 0, pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	if d.conf.OfflineExpansion {
		out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_VolumeExpansion_{
			VolumeExpansion: &pb.PluginCapability_VolumeExpansion{Type: pb.PluginCapability_VolumeExpansion_OFFLINE},
		}})
	}
	if d.conf.NilEntries {
		out.Capabilities = append(out.Capabilities, nil)
	}
	return out, nil
}

// Probe answers what SetReady said.
func (d *Driver) Probe(context.Context, *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &pb.ProbeResponse{Ready: boolValue(d.ready)}, nil
}
