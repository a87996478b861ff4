package csiplugins

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Bucket keeps values durably; client/store gives one.
type Bucket interface {
	// Get returns nil when there is no value.
	Get(key string) ([]byte, error)
	// Put returns when the value is durable.
	Put(key string, value []byte) error
	Delete(key string) error
	All() (map[string][]byte, error)
}

// Config is what the service needs.
type Config struct {
	// Root is the directory of sockets and of the plugins' bases, absolute and without symbolic links.
	Root string
	// Registry holds the instances that must be known again after a restart.
	Registry Bucket
	// Fences holds the newest intents of controller calls; nil keeps them in memory.
	Fences Bucket
	// Servers confirm, before a controller call that changes something, that its intent is still the newest; nil skips
	// the confirmation. NodeID and NodeSecret identify this node.
	Servers            wire.Caller
	NodeID, NodeSecret func() string
	// Host is where mounts and directories are; nil means this machine.
	Host mounts.Host
	// Dial connects to sockets of plugins; nil dials unix sockets.
	Dial csi.Dialer
	// Connect makes connections to plugins in the place of Dial; nil means that Dial does.
	Connect csi.Connector
	// Updated is called with the whole fingerprint whenever it changed. It must not block.
	Updated func(controllers, nodes map[string]*api.CSIInfo)
	// Healthy is called when an instance became healthy. It must not block.
	Healthy func()
	// NodeEvent records an event of the node. It must not block.
	NodeEvent func(*api.NodeEvent)
	// Leaving counts the mounts of a plugin whose allocations leave the node, as the plugin's allocation does.
	Leaving func(pluginID, allocID string) int
	// Grace is how long a plugin stays known while its task does not run; 0 means 30 s.
	Grace time.Duration
	// HealthInterval is how often healthy plugins are probed; 0 means 30 s.
	HealthInterval time.Duration
	// Calls is how many calls of volumes a plugin gets at once; 0 means 8.
	Calls int
	// Timeouts bound single calls of plugins; zero means the defaults.
	Timeouts csi.Timeouts
	// Metrics records calls of plugins; nil does not.
	Metrics *metrics.Recorder
	Log     hclog.Logger
}

// Service knows and supervises the CSI plugins of the node, and makes controller calls for servers.
type Service struct {
	conf     Config
	registry *registry
	locks    locks
	calls    calls
	fences   *fences

	// helpersMu is held while processes are moved to scopes.
	helpersMu sync.Mutex

	sharing sync.Mutex
}

// New makes the service from what the registry remembers. Nothing runs before [Service.Run].
func New(c Config) (*Service, error) {
	if c.Root == "" || c.Registry == nil {
		return nil, fault.New(fault.Invalid, "csi plugins: root directory and registry are required")
	}
	if c.Host == nil {
		c.Host = mounts.System{}
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if c.Updated == nil {
		c.Updated = func(_, _ map[string]*api.CSIInfo) {}
	}
	if c.Healthy == nil {
		c.Healthy = func() {}
	}
	if c.NodeEvent == nil {
		c.NodeEvent = func(*api.NodeEvent) {}
	}
	if c.Leaving == nil {
		c.Leaving = func(string, string) int { return 0 }
	}
	for field, fallback := range map[*time.Duration]time.Duration{&c.Grace: 30 * time.Second, &c.HealthInterval: 30 * time.Second} {
		if *field <= 0 {
			*field = fallback
		}
	}
	if c.Calls <= 0 {
		c.Calls = defaultCalls
	}
	s := &Service{conf: c, calls: newCalls(c.Calls)}
	var err error
	if s.fences, err = openFences(c.Fences, c.Log); err != nil {
		return nil, err
	}
	s.registry, err = openRegistry(c)
	return s, err
}

// Run watches the instances of an earlier process until their supervisors take over, and publishes the
// fingerprint. It ends with ctx.
func (s *Service) Run(ctx context.Context) {
	var all sync.WaitGroup
	s.registry.publish()
	all.Go(func() { s.registry.expire(ctx) })
	all.Go(func() { s.pruneFences(ctx) })
	for _, p := range s.registry.all() {
		all.Go(func() { s.registry.attend(ctx, p) })
	}
	all.Wait()
	s.registry.closing()
}

// Instance is a plugin that no task of this node provides: tests serve such plugins themselves.
type Instance struct {
	PluginID, Type string
	// AllocID and Task identify the instance.
	AllocID, Task string
	// Socket is given to Config.Dial.
	Socket string
}

// Serve registers an instance with its first good probe and probes it until ctx ends, in the way of a
// supervised task. The instance then stays known as a task's does that does not run.
func (s *Service) Serve(ctx context.Context, i Instance) error {
	if err := CheckPluginID(i.PluginID); err != nil {
		return err
	}
	base := s.BaseOf(i.Type, i.PluginID)
	t := &Task{s: s, own: true, unseen: true, timeout: defaultHealthTimeout, plugin: Plugin{
		PluginID: i.PluginID, Type: i.Type, AllocID: i.AllocID, Task: i.Task, Socket: i.Socket, Base: Place{Host: base, Plugin: base},
	}}
	if err := s.MakeDirs(t.plugin.Base); err != nil {
		return err
	}
	t.Supervise(ctx, func(_, _ string) {}, func(string) {})
	return nil
}

// Rest notes that the task of an instance does not run.
func (s *Service) Rest(allocID, task string) { s.registry.rest(allocID + "/" + task) }

// Find returns a healthy instance, or an error of class Unavailable that names what is missing. kind is
// api.CSIPluginTypeController or api.CSIPluginTypeNode.
func (s *Service) Find(kind, id string) (*Plugin, error) { return s.registry.find(kind, id) }

// Wait returns a healthy instance. It waits for one for at most bound, then returns [ErrNoPlugin].
func (s *Service) Wait(ctx context.Context, kind, id string, bound time.Duration) (*Plugin, error) {
	return s.registry.wait(ctx, kind, id, bound)
}

// Stages reports whether the instance wants volumes staged.
func (s *Service) Stages(p *Plugin) bool { return s.registry.stages(p) }

// TakesGroup reports whether the instance gives mounts to a group itself.
func (s *Service) TakesGroup(p *Plugin) bool { return s.registry.takesGroup(p) }

// Alive reports whether any instance is healthy.
func (s *Service) Alive() bool { return s.registry.alive() }

// Retain forgets the instances of all allocations but the known ones.
func (s *Service) Retain(allocs map[string]bool) {
	s.registry.drop(func(p *Plugin) bool { return !allocs[p.AllocID] })
}

// Drop forgets the instances of one allocation.
func (s *Service) Drop(allocID string) {
	s.registry.drop(func(p *Plugin) bool { return p.AllocID == allocID })
}
