package client

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/artifacts"
	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/client/dirs"
	"github.com/open-nomad/open-nomad/client/gc"
	"github.com/open-nomad/open-nomad/client/networks"
	"github.com/open-nomad/open-nomad/client/secrets"
	"github.com/open-nomad/open-nomad/client/templates"
	"github.com/open-nomad/open-nomad/internal/inspect"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/docker"
	"github.com/open-nomad/open-nomad/plugins/driver/exec"
	"github.com/open-nomad/open-nomad/plugins/driver/rawexec"
)

// Servers is how the node reaches the servers and is reached by them; client/link makes one.
type Servers interface {
	wire.Caller
	// Handle adds methods that the servers may call; it is called before Run.
	Handle(handlers ...wire.Handler)
	// SetNode sets the id and the newest credential of the node.
	SetNode(id, credential string)
	// SetServers takes over the addresses that the servers report.
	SetServers(addresses []string)
	// SetPace takes over the time between heartbeats that the servers set.
	SetPace(beat time.Duration)
	// Remember takes over addresses that servers reported to an earlier agent process.
	Remember(addresses []string)
	// Each calls fn for every known server, and for those at the addresses, at once, and returns when all are done.
	Each(ctx context.Context, also []string, fn func(context.Context, wire.Caller))
}

// Config is the configuration of a node. See [Default].
type Config struct {
	Region     string
	Datacenter string
	// Name is the name of the node.
	Name      string
	NodeClass string
	NodePool  string
	// DefaultIneligible keeps a new node from getting work until an operator makes it eligible.
	DefaultIneligible bool
	// DisableRemoteExec refuses to run commands in tasks.
	DisableRemoteExec bool
	Meta              map[string]string
	// IntroToken introduces a new node to servers that require it; the state directory may hold one, too.
	IntroToken string
	// Inspect is the agent as operators look into it; nil refuses that.
	Inspect *inspect.Agent
	// Options are the free options of the client block, such as driver.allowlist.
	Options map[string]string
	Version string
	// Revision is the source revision of the program.
	Revision string
	// HTTPAddr is the address of the agent's HTTP server, for people and for the node record.
	HTTPAddr string
	// HTTPS is set when it uses TLS.
	HTTPS bool

	// StateDir keeps what survives a restart, AllocDir the directories of allocations. Both are absolute.
	StateDir string
	AllocDir string
	// CommonPluginDir contains executables by kind, such as secrets/<provider>.
	CommonPluginDir string
	// SecretsInMemory mounts a tmpfs for the secrets of each task.
	SecretsInMemory bool

	// Servers is the way to the servers; its Run belongs to the caller.
	Servers Servers

	// ServerHere, when set, reports whether the cluster's only server runs in this process.
	ServerHere func() bool

	NetworkInterface string
	CPUTotalCompute  int
	MemoryTotalMB    int
	DiskTotalMB      int
	MinDynamicPort   int
	MaxDynamicPort   int
	MaxKillTimeout   time.Duration
	Reserved         api.NodeReservedResources
	// ReservedCores are kept for the host, ReservableCores may be reserved by tasks (empty: all others).
	ReservedCores   string
	ReservableCores string
	// HostNetworks are the networks of the host that ports may name.
	HostNetworks map[string]*api.HostNetworkInfo
	// Networks is how allocations get networks of their own; New sets the node.
	Networks      networks.Config
	NodeMaxAllocs int
	HostVolumes   map[string]*api.HostVolumeInfo
	// HostVolumesDir is where dynamic host volumes are made, HostVolumePluginDir has the executables that make them. Empty
	// directories are in the state directory.
	HostVolumesDir, HostVolumePluginDir string

	GC gc.Limits
	// GCInterval is the time between two looks at what can be removed.
	GCInterval time.Duration
	// DiskInterval is the time between two looks whether the node can write its directories; 0 means 5 s.
	DiskInterval time.Duration

	// Templates is how templates with functions are rendered.
	Templates Templates

	RawExec rawexec.Config
	// Exec enables the driver of isolated processes.
	Exec *exec.Config
	// Docker enables the driver of containers.
	Docker *docker.Config
	// Mock enables the driver whose tasks are timers.
	Mock bool
	// Drivers are task drivers in addition to the built-in ones.
	Drivers []driver.Driver

	// DevicePlugins find devices, such as GPUs.
	DevicePlugins []devices.Plugin

	// Artifacts limits downloads of artifacts; New sets the directory.
	Artifacts artifacts.Config

	// ServeTask begins to serve the HTTP API on the socket of a task until the listener is closed; nil makes no sockets.
	ServeTask func(l net.Listener, allocID, task string)

	// DrainOnShutdown, when set, is what [Client.Drain] does.
	DrainOnShutdown *DrainOnShutdown

	// Dev ends all tasks when the node ends.
	Dev bool
	// Telemetry is how the node is measured.
	Telemetry Telemetry
	Log       hclog.Logger
}

// Templates is how templates with functions are rendered.
type Templates struct {
	// Denied are the functions that templates may not call, as patterns.
	Denied []string
	// Wait is for templates without a wait block; Bounds bounds their own.
	Wait, Bounds templates.Wait
	// Calls is how services and variables are read.
	Calls templates.Calls
}

// Default returns the configuration before anything is read.
func Default() Config {
	return Config{
		Region: api.GlobalRegion, Datacenter: "dc1", NodePool: api.NodePoolDefault,
		MinDynamicPort: 20000, MaxDynamicPort: 32000, MaxKillTimeout: 30 * time.Second,
		GC: gc.DefaultLimits(), GCInterval: time.Minute, Artifacts: artifacts.Default(),
		Templates: Templates{Denied: templates.DeniedDefault()}, Networks: networks.Default(),
	}
}

// secretsDir contains the executables of secret providers; it is empty if the node has none.
func (c *Config) secretsDir() string {
	if c.CommonPluginDir == "" {
		return ""
	}
	return filepath.Join(c.CommonPluginDir, secrets.Subdir)
}

// tree is where the directories of allocations are.
func (c *Config) tree() dirs.Tree {
	if c.SecretsInMemory {
		return dirs.New(c.AllocDir).InMemory()
	}
	return dirs.New(c.AllocDir)
}

func (c *Config) validate() error {
	switch {
	case c.StateDir == "" || c.AllocDir == "":
		return fault.New(fault.Invalid, "client: state and allocation directories are required")
	case c.Servers == nil:
		return fault.New(fault.Invalid, "client: no servers configured")
	case c.Name == "":
		return fault.New(fault.Invalid, "client: a node name is required")
	case c.Log == nil:
		return fault.New(fault.Invalid, "client: a logger is required")
	}
	return c.Networks.Check()
}
