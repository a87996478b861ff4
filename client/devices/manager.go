package devices

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/program"
)

// Plugin is the configuration of one device plugin.
type Plugin struct {
	// Name is that of the executable without its prefix.
	Name string
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// Config is the config of the plugin block of the agent's configuration.
	Config map[string]any
	// StateDir is a directory for the plugin alone. It survives restarts.
	StateDir string
	// Timeout bounds the start of the process and each call; 0 means 10 s.
	Timeout time.Duration
}

// Config is what a manager needs.
type Config struct {
	Plugins []Plugin
	// StatsInterval is the time between two statistics; 0 means 1 s.
	StatsInterval time.Duration
	// Changed gets all groups after each change, one call at a time. They are read-only.
	Changed func([]*api.NodeDeviceResource)
	// NodeEvent records an event of the node.
	NodeEvent func(*api.NodeEvent)
	// Grace is how long a device may be lost before the tasks that use it fail; 0 means 10 s.
	Grace time.Duration
	Log   hclog.Logger
}

const grace = 10 * time.Second

// Manager manages the devices of a node. Use New, then Run.
type Manager struct {
	conf  Config
	log   hclog.Logger
	all   []*instance
	first chan struct{}
	// allArrived closes first.
	allArrived func()

	// updates serializes calls of Changed.
	updates sync.Mutex

	mu      sync.Mutex
	waiting int // plugins without a first report or failure
	changed chan struct{}
	owners  map[group]*instance
	shown   []*api.NodeDeviceResource
	users   map[key]string
	// settled is when all plugins ran for the first time.
	settled time.Time
}

// group is the name of a group of devices, key one device.
type (
	group struct{ vendor, kind, name string }
	key   struct {
		group
		id string
	}
)

func (g group) String() string { return g.vendor + "/" + g.kind + "/" + g.name }
func (k key) String() string   { return k.group.String() + "[" + k.id + "]" }

// New makes the manager.
func New(c Config) *Manager {
	c.Grace, c.StatsInterval = cmp.Or(c.Grace, grace), cmp.Or(c.StatsInterval, time.Second)
	m := &Manager{
		conf: c, log: c.Log.Named("devices"), first: make(chan struct{}), waiting: len(c.Plugins), changed: make(chan struct{}),
		owners: map[group]*instance{}, users: map[key]string{},
	}
	for _, p := range c.Plugins {
		p.Timeout = cmp.Or(p.Timeout, program.Timeout)
		m.all = append(m.all, &instance{m: m, conf: p, log: c.Log.Named("plugin." + p.Name), lost: map[key]loss{}})
	}
	m.allArrived = sync.OnceFunc(func() { close(m.first) })
	if m.waiting == 0 {
		m.allArrived()
		m.settled = time.Now()
	}
	return m
}

// First is closed when each plugin has reported its devices, or has failed.
func (m *Manager) First() <-chan struct{} { return m.first }

// Run runs the plugins until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, i := range m.all {
		all.Go(func() { i.run(ctx) })
	}
	all.Wait()
	<-ctx.Done()
	return ctx.Err()
}

// change changes what is known under mu, wakes all waiters, and reports changed devices to the node. Events are those of
// the node.
func (m *Manager) change(edit func() []*api.NodeEvent) {
	m.updates.Lock()
	defer m.updates.Unlock()
	m.mu.Lock()
	events := edit()
	close(m.changed)
	m.changed = make(chan struct{})
	now := m.gather()
	differs := !reflect.DeepEqual(m.shown, now)
	m.shown = now
	arrived := m.waiting == 0
	m.mu.Unlock()
	if differs && m.conf.Changed != nil {
		m.conf.Changed(now)
	}
	for _, e := range events {
		if m.conf.NodeEvent != nil {
			m.conf.NodeEvent(e)
		}
	}
	if arrived { // the node has the report
		m.allArrived()
	}
}

// gather lists the groups of all plugins; those of a plugin that is away are unhealthy. The caller holds mu.
func (m *Manager) gather() (out []*api.NodeDeviceResource) {
	for _, i := range m.all {
		for _, g := range i.groups {
			if i.problem != "" {
				g = unhealthy(g, i.problem)
			}
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *api.NodeDeviceResource) int { return strings.Compare(nameOf(a).String(), nameOf(b).String()) })
	return out
}

func unhealthy(g *api.NodeDeviceResource, why string) *api.NodeDeviceResource {
	own := *g
	own.Instances = nil
	for _, i := range g.Instances {
		one := *i
		if one.Healthy {
			one.Healthy, one.HealthDescription = false, why
		}
		own.Instances = append(own.Instances, &one)
	}
	return &own
}

func nameOf(g *api.NodeDeviceResource) group { return group{g.Vendor, g.Type, g.Name} }

// arrived counts a first report or failure. The caller holds mu.
func (m *Manager) arrived(i *instance) {
	if !i.reported {
		i.reported = true
		m.waiting--
	}
}

// Stats returns the newest statistics of all devices. They are read-only.
func (m *Manager) Stats() (out []*api.DeviceGroupStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.all {
		out = append(out, i.stats...)
	}
	return out
}

// StatsOf returns the newest statistics of the devices of a task. They are read-only.
func (m *Manager) StatsOf(devices []*api.AllocatedDeviceResource) (out []*api.DeviceGroupStats) {
	for _, g := range m.Stats() {
		own := &api.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*api.DeviceStats{}}
		for _, d := range devices {
			if d == nil || d.Vendor != g.Vendor || d.Type != g.Type || d.Name != g.Name {
				continue
			}
			for _, id := range d.DeviceIDs {
				if s := g.InstanceStats[id]; s != nil {
					own.InstanceStats[id] = s
				}
			}
		}
		if len(own.InstanceStats) > 0 {
			out = append(out, own)
		}
	}
	return out
}

func event(text string, details map[string]string) *api.NodeEvent {
	return &api.NodeEvent{Subsystem: "Device", Message: text, Details: details, Timestamp: time.Now().UTC()}
}

// lossesEvent is the event of devices that were lost together.
func lossesEvent(plugin string, lost map[key]string) *api.NodeEvent {
	keys := make([]key, 0, len(lost))
	for k := range lost {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.String(), b.String()) })
	const listed = 3
	text := make([]string, 0, listed)
	for _, k := range keys[:min(len(keys), listed)] {
		text = append(text, fmt.Sprintf("device %s is lost: %.200s", k, lost[k]))
	}
	if more := len(keys) - listed; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return event(strings.Join(text, "; "), map[string]string{"plugin": plugin})
}
