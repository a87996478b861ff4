package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/open-nomad/open-nomad/api/fault"
)

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!c.Server.Enabled && !c.Client.Enabled,
		"neither server nor client is enabled: set server { enabled = true } or client { enabled = true }, or use -dev")
	wrong(strings.ContainsRune(c.Region, 0) || c.Region == "", "region %q is not valid", c.Region)
	wrong(strings.ContainsAny(c.Datacenter, "\x00*") || c.Datacenter == "", "datacenter %q is not valid", c.Datacenter)
	wrong(c.DataDir == "" && !c.Dev, "data_dir is required: name an absolute directory that survives restarts")
	for key, dir := range map[string]string{
		"data_dir": c.DataDir, "server.data_dir": c.Server.DataDir,
		"client.state_dir": c.Client.StateDir, "client.alloc_dir": c.Client.AllocDir,
	} {
		wrong(dir != "" && !filepath.IsAbs(dir), "%s %q must be absolute", key, dir)
	}
	wrong(c.Client.NodePool == "all" || c.Client.NodePool == "", "client.node_pool %q is not a pool that a node can join", c.Client.NodePool)
	for key, port := range map[string]int{
		"ports.http": c.Ports.HTTP, "ports.rpc": c.Ports.RPC, "ports.serf": c.Ports.Serf,
		"client.min_dynamic_port": c.Client.MinDynamicPort, "client.max_dynamic_port": c.Client.MaxDynamicPort,
	} {
		wrong(port < 0 || port > 65535, "%s %d is not a port", key, port)
	}
	wrong(c.Client.MinDynamicPort > c.Client.MaxDynamicPort, "client.min_dynamic_port %d is above max_dynamic_port %d",
		c.Client.MinDynamicPort, c.Client.MaxDynamicPort)
	wrong(net.ParseIP(c.BindAddr) == nil, "bind_addr %q is not an IP address", c.BindAddr)
	for name, v := range c.Client.HostVolumes {
		wrong(!filepath.IsAbs(v.Path), "client.host_volume %q: path %q must be absolute", name, v.Path)
	}
	wrong(c.Server.Enabled && c.Server.BootstrapExpect > 1, "server.bootstrap_expect %d: this version runs one server", c.Server.BootstrapExpect)
	errs = append(errs, c.TLS.wrong()...)
	return fault.Wrap(fault.Invalid, errors.Join(errs...))
}
