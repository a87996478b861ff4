// Package serve makes a program of a task driver in Go: its main calls [Serve]. The agent starts the program from its
// plugin directory; see docs/driver-plugins.md.
package serve

import (
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/driver/external/protocol"
)

// Plugin describes a driver.
type Plugin struct {
	// Name is the name that job files use, and that of the executable, which may have the prefix "nomad-driver-".
	Name    string
	Version string
	// Capabilities are those of the driver; Exec needs a [driver.Execer].
	Capabilities driver.Capabilities
	// AgentConfig and TaskConfig are values of the structs that the driver passes to [driver.DecodeConfig]; nil is a block
	// without keys.
	AgentConfig, TaskConfig any
	// New makes the driver. The config has keys of AgentConfig. The directory survives restarts. The process may be killed
	// at any time: tasks must run on, and Recover must find them.
	New func(config map[string]any, stateDir string, log hclog.Logger) (driver.Driver, error)
}

// Serve serves the driver until the agent ends the process.
func Serve(p Plugin) {
	protocol.Kind.Serve(func(r grpc.ServiceRegistrar, log hclog.Logger) { protocol.RegisterDriverServer(r, newServer(p, log)) })
}
