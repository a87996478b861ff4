// Package device is the contract between the node and device plugins, which find devices of the host such as GPUs, prepare
// them for tasks and measure them.
//
// A plugin is a program of its own. It reports groups of equal devices ([Plugin.Fingerprint]); the scheduler gives instances of
// them to tasks. Before each start of a task the node asks what the task needs to use its instances ([Plugin.Reserve]).
// A plugin keeps no account of who uses what: it may be killed and started again at any time, and tasks run on.
//
// Package protocol is how both speak to each other, package serve makes a program of a plugin in Go, and example is one.
package device

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/driver"
	"github.com/open-nomad/open-nomad/plugins/program"
)

// FingerprintPeriod is how often a plugin reports its devices at least.
const FingerprintPeriod = program.Period

// Plugin finds and prepares devices. Methods may be called from many goroutines.
type Plugin interface {
	// Fingerprint opens a channel of reports; it ends with the context. Each report has all devices.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
	// Reserve returns what a task needs to use the devices with these ids. An error of class fault.NotFound means that the
	// plugin has no such device.
	Reserve(ctx context.Context, ids []string) (*Reservation, error)
	// Stats opens a channel of statistics, one at once and then one per interval; it ends with the context.
	Stats(ctx context.Context, interval time.Duration) (<-chan Stats, error)
}

// Fingerprint is a report of all devices.
type Fingerprint struct {
	Groups []*api.NodeDeviceResource
	// Err is set when the plugin cannot find out; it ends the channel.
	Err error
}

// Stats are statistics of all devices.
type Stats struct {
	Groups []*api.DeviceGroupStats
	// Err is set when the plugin cannot measure; it ends the channel.
	Err error
}

// Reservation is what a task needs to use its devices.
type Reservation struct {
	// Envs are added to the environment of the task.
	Envs map[string]string
	// Mounts have a source, a destination and ReadOnly.
	Mounts []driver.Mount
	// Devices are nodes such as /dev/nvidia0.
	Devices []driver.Device
}
