package client

import (
	"context"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/client/volumes"
)

// Options of the volume service.
const (
	optionProbeInterval = "csi.mount_probe_interval"
	optionPluginCalls   = "csi.plugin_calls"
)

// volumeOptions reads the options of the volume service into its configuration.
func (c *Config) volumeOptions(to *volumes.Config) error {
	if v := c.Options[optionProbeInterval]; v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < time.Second {
			return fault.New(fault.Invalid, "client: option %s: %q is not a duration of at least 1s", optionProbeInterval, v)
		}
		to.ProbeInterval = d
	}
	if v := c.Options[optionPluginCalls]; v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return fault.New(fault.Invalid, "client: option %s: %q is not a number of at least 1", optionPluginCalls, v)
		}
		to.PluginCalls = n
	}
	return nil
}

// mountUsers are the tasks of the node for the volume service.
type mountUsers struct{ c *Client }

// Tell records an event of the tasks that mount the volume.
func (u mountUsers) Tell(allocID, volumeID, kind, text string) {
	if e, err := u.c.working(allocID); err == nil {
		e.group.Tell(volumes.Mounting(e.alloc.Present(), volumeID), kind, text)
	}
}

// Restart restarts the tasks that mount the volume, or all.
func (u mountUsers) Restart(ctx context.Context, allocID, volumeID string, all bool, reason string) error {
	e, err := u.c.working(allocID)
	if err != nil {
		return err
	}
	names := volumes.Mounting(e.alloc.Present(), volumeID)
	if all {
		names = e.group.Names()
	}
	return e.group.RestartFor(ctx, names, reason)
}

// Leaving reports whether the allocation is being stopped, or has ended.
func (u mountUsers) Leaving(allocID string) bool {
	e := u.c.table.get(allocID)
	if e == nil || e.alloc.Leaving() {
		return true
	}
	select {
	case <-e.alloc.Ended():
		return true
	default:
		return false
	}
}

// Lost reports whether the servers had given the allocation up.
func (u mountUsers) Lost(allocID string) bool {
	e := u.c.table.get(allocID)
	return e != nil && e.alloc.Present().ClientStatus == api.AllocClientStatusLost
}

// Signal sends a signal to the tasks that mount the volume.
func (u mountUsers) Signal(ctx context.Context, allocID, volumeID, signal, reason string) error {
	e, err := u.c.working(allocID)
	if err != nil {
		return err
	}
	return e.group.SignalFor(ctx, volumes.Mounting(e.alloc.Present(), volumeID), signal, reason)
}
