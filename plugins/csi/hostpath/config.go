package hostpath

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// DefaultDriverName is the name that the driver gives itself.
const DefaultDriverName = "hostpath.open-nomad.dev"

// Version is the driver's version.
const Version = "1.0.0"

// Config configures the driver.
type Config struct {
	// Endpoint is where to listen, such as unix:///csi/csi.sock; empty means $CSI_ENDPOINT.
	Endpoint string
	// StateDir holds volumes and books; nodes may share it.
	StateDir string
	// NodeID is the name of this node in the driver; empty means the host name.
	NodeID string
	// Mode is node, controller or monolith; empty means monolith.
	Mode string
	// Attach adds ControllerPublish with bookkeeping.
	Attach bool
	// Topology are the segments of this node; empty means that volumes are reachable from everywhere.
	Topology map[string]string
	// MaxVolumes is how many volumes the node takes; 0 means no limit.
	MaxVolumes int64
	// DriverName is the name of the driver; empty means DefaultDriverName.
	DriverName string
	// CapacityBytes limits the sum of all volumes and snapshots; 0 means what the file system has.
	CapacityBytes int64
	// Password is the value that the secrets of a call must have under the key password; empty means that none is needed.
	// Validations and lists need none.
	Password string
	// Intercept serves calls around the driver; nil means that the driver serves them itself.
	Intercept grpc.UnaryServerInterceptor
	// Log gets what happens; nil is silent. Requests are never logged.
	Log hclog.Logger
}

// normal fills in the defaults and checks the result.
func (c Config) normal() (Config, error) {
	if c.Endpoint == "" {
		c.Endpoint = os.Getenv("CSI_ENDPOINT")
	}
	if c.Endpoint == "" {
		return c, fault.New(fault.Invalid, "no endpoint: set one or $CSI_ENDPOINT")
	}
	if c.StateDir == "" {
		return c, fault.New(fault.Invalid, "no state directory")
	}
	dir, err := filepath.Abs(c.StateDir)
	if err != nil {
		return c, fault.New(fault.Invalid, "state directory %q: %w", c.StateDir, err)
	}
	c.StateDir = dir
	if c.NodeID == "" {
		if c.NodeID, err = os.Hostname(); err != nil {
			return c, fault.New(fault.Invalid, "no node id, and no host name: %w", err)
		}
	}
	if strings.ContainsAny(c.NodeID, "/\x00") || c.NodeID == "." || c.NodeID == ".." || len(c.NodeID) > 192 {
		return c, fault.New(fault.Invalid, "node id %q: it must be a file name of at most 192 bytes", c.NodeID)
	}
	switch c.Mode {
	case "":
		c.Mode = api.CSIPluginTypeMonolith
	case api.CSIPluginTypeNode, api.CSIPluginTypeController, api.CSIPluginTypeMonolith:
	default:
		return c, fault.New(fault.Invalid, "mode %q: it must be node, controller or monolith", c.Mode)
	}
	if c.MaxVolumes < 0 || c.CapacityBytes < 0 {
		return c, fault.New(fault.Invalid, "limits must not be negative")
	}
	if c.DriverName == "" {
		c.DriverName = DefaultDriverName
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	_, err = csi.SocketOf(c.Endpoint)
	return c, err
}

func (c Config) controls() bool { return c.Mode != api.CSIPluginTypeNode }
func (c Config) mounts() bool   { return c.Mode != api.CSIPluginTypeController }
