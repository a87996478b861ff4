package fingerprint

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
)

const (
	defaultMinDynamicPort = 20000
	defaultMaxDynamicPort = 32000
	probeTimeout          = 5 * time.Second
)

// Config is what the agent knows better than the host. Zero values are found out.
type Config struct {
	// DataDir is the directory whose volume tasks write to.
	DataDir  string
	Version  string
	Revision string
	// AdvertiseAddress is the HTTP address of the agent.
	AdvertiseAddress string
	// NetworkInterface is the interface that tasks get their address from.
	NetworkInterface string
	// NetworkSpeed is in MBit/s.
	NetworkSpeed int
	// CPUTotalCompute is in MHz.
	CPUTotalCompute int
	MemoryTotalMB   int
	DiskTotalMB     int
	// Reserved is kept for the host.
	Reserved api.NodeReservedResources
	// ReservedCores are cores kept for the host, ReservableCores those that tasks may reserve (empty: all
	// others); both are lists such as "0-3,6".
	ReservedCores   string
	ReservableCores string
	// HostNetworks are the networks of the host that ports may name.
	HostNetworks   map[string]*api.HostNetworkInfo
	MinDynamicPort int
	MaxDynamicPort int
	CgroupParent   string
	// SecretsDir contains the executables of secret providers.
	SecretsDir string
	// Wanted, when set, selects by name which probes run.
	Wanted func(probe string) bool
	Log    hclog.Logger
}

// Probe finds out one part of a node.
type Probe struct {
	Name string
	Run  func(ctx context.Context, c *Config, n *api.Node) error
}

// Probes lists the probes in their order.
func Probes() []Probe {
	return []Probe{
		{"arch", probeArch},
		{"kernel", probeKernel},
		{"os", probeOS},
		{"cpu", probeCPU},
		{"numa", probeNUMA},
		{"memory", probeMemory},
		{"storage", probeStorage},
		{"network", probeNetwork},
		{"host networks", probeHostNetworks},
		{"hostname", probeHostname},
		{"nomad", probeNomad},
		{"cgroups", probeCgroups},
		{"signals", probeSignals},
		{"boot", probeBoot},
		{"secrets", probeSecrets},
	}
}

// Run fills the attributes and resources of a fresh node. Its error is that of the context: probes that
// fail are logged.
func Run(ctx context.Context, c Config, n *api.Node) error {
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	if n.Attributes == nil {
		n.Attributes = map[string]string{}
	}
	if n.NodeResources == nil {
		n.NodeResources = &api.NodeResources{}
	}
	reserved := c.Reserved
	n.ReservedResources = &reserved
	n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = c.MinDynamicPort, c.MaxDynamicPort
	if c.MinDynamicPort == 0 && c.MaxDynamicPort == 0 {
		n.NodeResources.MinDynamicPort, n.NodeResources.MaxDynamicPort = defaultMinDynamicPort, defaultMaxDynamicPort
	}
	for _, p := range Probes() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("fingerprint the node: %w", err)
		}
		if c.Wanted != nil && !c.Wanted(p.Name) {
			c.Log.Debug("fingerprint probe left out", "probe", p.Name)
			continue
		}
		probing, cancel := context.WithTimeout(ctx, probeTimeout)
		if err := p.Run(probing, &c, n); err != nil {
			c.Log.Warn("fingerprint probe failed", "probe", p.Name, "error", err)
		}
		cancel()
	}
	return nil
}
