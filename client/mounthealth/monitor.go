package mounthealth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/workqueue"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// Events of tasks about their volumes.
const (
	EventUnhealthy = "Volume Unhealthy"
	EventHealthy   = "Volume Healthy"
)

const (
	// DefaultInterval is the default interval of mount probes.
	DefaultInterval = 10 * time.Second
	// probeWorkers is how many mounts are asked at once.
	probeWorkers = 16
)

// Tasks are the tasks of the node's allocations, as far as failed mounts concern them. An allocation that is
// not known is an error of class NotFound; tasks that do not run are left alone.
type Tasks interface {
	// Tell records an event of the tasks that mount the volume. It must not block.
	Tell(allocID, volumeID, kind, text string)
	// Restart restarts the tasks that mount the volume, with all every running task of the allocation.
	Restart(ctx context.Context, allocID, volumeID string, all bool, reason string) error
	// Signal sends a signal to the tasks that mount the volume.
	Signal(ctx context.Context, allocID, volumeID, signal, reason string) error
}

// Mount is a published mount.
type Mount struct {
	// Key identifies the mount.
	Key               string
	AllocID, VolumeID string
	// Path is where it is on the host.
	Path string
	// Device is set when it is a block device, not a file system.
	Device bool
	// Policy is the volume's on_mount_dead.
	Policy string
	// Mounted is not set while a repair is under way.
	Mounted bool
	// Stale is set while running tasks still have the mount from before a repair.
	Stale bool
	// Version changes whenever what is known of the mount changes. It must be comparable.
	Version any
}

// Volumes are the published mounts of the node.
type Volumes interface {
	// Published lists the mounts, those included whose repair is under way.
	Published() []Mount
	// Find returns one of them.
	Find(key string) (Mount, bool)
	// Republish removes a failed mount and publishes its volume again. It returns false when there was nothing to do.
	// After an error it must be called again. It marks the mount as stale before it removes it.
	Republish(ctx context.Context, key string) (bool, error)
	// Refreshed records that no running task has an older mount.
	Refreshed(ctx context.Context, key string) error
}

// Config is what a monitor needs.
type Config struct {
	Volumes Volumes
	Tasks   Tasks
	Host    mounts.Host
	// Root is the directory below which all mounts are.
	Root string
	// Interval is how often mounts are probed; 0 means [DefaultInterval].
	Interval time.Duration
	// Repairs plans the tries of repairs. Nobody else uses it.
	Repairs *workqueue.Queue
	// Failed is called when a mount has failed. It must not block.
	Failed func(m Mount, why string)
	Log    hclog.Logger
}

// Monitor watches mounts and repairs failed ones.
type Monitor struct {
	conf    Config
	log     hclog.Logger
	prober  *Prober
	tracker tracker
	repairs *workqueue.Queue
}

// NewMonitor makes a monitor. Nothing runs before [Monitor.Run].
func NewMonitor(c Config) *Monitor {
	if c.Interval <= 0 {
		c.Interval = DefaultInterval
	}
	return &Monitor{conf: c, log: c.Log, prober: NewProber(c.Host), repairs: c.Repairs}
}

// Prober returns what asks the mounts.
func (m *Monitor) Prober() *Prober { return m.prober }

// Repair plans the repair of a mount.
func (m *Monitor) Repair(key string) { m.repairs.Add(key) }

// Counts returns how many published mounts there are, how many of them have failed, and how many did not respond to the
// last probes and have not failed yet.
func (m *Monitor) Counts() (all, failed, unresponsive int) {
	failed, unresponsive = m.tracker.counts()
	return len(m.conf.Volumes.Published()), failed, unresponsive
}

// Hurry makes all planned repairs due, because something that they miss may be there.
func (m *Monitor) Hurry() { m.repairs.Hurry() }

// Run probes and repairs until ctx ends. No mount can hold it up.
func (m *Monitor) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		if left := m.repairs.Run(ctx, m.repair); len(left) > 0 {
			m.log.Warn("mounts are being repaired still at the end", "left", left)
		}
	})
	tick := time.NewTicker(m.conf.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sweep asks all published mounts.
func (m *Monitor) sweep(ctx context.Context) {
	known := map[string]bool{}
	var list []Mount
	for _, p := range m.conf.Volumes.Published() {
		known[p.Key] = true
		if p.Mounted {
			list = append(list, p)
		}
	}
	m.tracker.retain(known)
	if len(list) == 0 {
		return
	}
	table, err := m.conf.Host.Below(m.conf.Root)
	if err != nil {
		m.log.Warn("look at mounts", "error", err)
		return
	}
	top := map[string]*mounts.Entry{}
	for _, e := range table {
		top[e.Point] = e
	}
	places := make(chan struct{}, probeWorkers)
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			h, why := m.Examine(ctx, p, top[p.Path])
			m.judge(ctx, p, h, why)
		})
	}
}

// Examine asks one published mount; at is what is mounted there.
func (m *Monitor) Examine(ctx context.Context, p Mount, at *mounts.Entry) (Health, string) {
	switch {
	case p.Device:
		if !m.conf.Host.IsDevice(p.Path) {
			return Unresponsive, "it is no block device any more"
		}
		return Healthy, ""
	case at == nil:
		return Unresponsive, "nothing is mounted there any more"
	}
	return m.prober.Look(ctx, at)
}

// judge reports a change of a mount's health and plans what the volume's policy requires.
func (m *Monitor) judge(ctx context.Context, p Mount, h Health, why string) {
	if now, ok := m.conf.Volumes.Find(p.Key); ctx.Err() != nil || !ok || now.Version != p.Version {
		return // it has changed meanwhile
	}
	failed, recovered, earlier := m.tracker.record(p.Key, h, time.Now())
	switch {
	case recovered:
		m.tellHealthy(p)
	case failed:
		m.log.Warn("a mount is dead", "volume_id", p.VolumeID, "alloc_id", p.AllocID, "path", p.Path, "why", why, "policy", p.policy())
		m.conf.Tasks.Tell(p.AllocID, p.VolumeID, EventUnhealthy,
			fmt.Sprintf("the mount of volume %s at %s is dead: %s; policy is %s", p.VolumeID, p.Path, why, p.policy()))
		m.conf.Failed(p, why)
		if p.policy() != api.MountDeadIgnore {
			m.repairs.After(p.Key, earlier)
		}
	}
}

func (m *Monitor) tellHealthy(p Mount) {
	m.log.Info("a dead mount answers again", "volume_id", p.VolumeID, "alloc_id", p.AllocID, "path", p.Path)
	m.conf.Tasks.Tell(p.AllocID, p.VolumeID, EventHealthy, fmt.Sprintf("the mount of volume %s at %s answers again", p.VolumeID, p.Path))
}

// policy is what the volume wants of a failed mount.
func (p Mount) policy() string {
	if p.Policy == "" {
		return api.MountDeadIgnore
	}
	return p.Policy
}
