package csiplugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// Plugin is one instance of a CSI plugin, which one task provides. Exported fields are remembered across
// restarts; all but the identifying ones change only under the service's mutex.
type Plugin struct {
	PluginID, Type, AllocID, Task string
	Socket                        string
	// Base is where the instance finds the paths that it stages and publishes at. It never changes.
	Base Place
	// Registered is when the plugin was first healthy; newer plugins of an id go first.
	Registered        time.Time
	Provider, Version string
	Identity          csi.Identity
	Controller        *api.CSIControllerInfo
	Node              *api.CSINodeInfo
	Healthy           bool
	Description       string

	client *csi.Client
	taken  chan struct{} // closed when a supervisor has it
	gone   chan struct{} // closed when it is dropped
	probe  chan struct{} // asks for a probe now
	idle   time.Time     // since when the task does not run; zero while it does
}

func (p *Plugin) key() string { return p.AllocID + "/" + p.Task }

func (p *Plugin) serves(kind string) bool {
	return p.Type == kind || p.Type == api.CSIPluginTypeMonolith
}

// Client makes calls to the instance.
func (p *Plugin) Client() *csi.Client { return p.client }

// See translates a path on the host into the instance's view.
func (p *Plugin) See(path Place) string {
	if rel, err := filepath.Rel(p.Base.Host, path.Host); err == nil && !strings.HasPrefix(rel, "..") {
		return filepath.Join(p.Base.Plugin, rel)
	}
	return path.Plugin
}

// Recheck asks for a probe soon, because a call could not reach the instance.
func (p *Plugin) Recheck() {
	select {
	case p.probe <- struct{}{}:
	default:
	}
}

// info is the plugin as the servers see it. Only the part of the kind is shown.
func (p *Plugin) info(kind string) *api.CSIInfo {
	i := &api.CSIInfo{
		PluginID: p.PluginID, AllocID: p.AllocID, Healthy: p.Healthy, HealthDescription: p.Description,
		RequiresControllerPlugin: p.Identity.Controller, RequiresTopologies: p.Identity.Topology,
		Provider: p.Provider, ProviderVersion: p.Version,
	}
	if kind == api.CSIPluginTypeController {
		i.ControllerInfo = p.Controller
	} else {
		i.NodeInfo = p.Node
	}
	return i
}

// registry knows the instances of this node.
type registry struct {
	conf Config

	mu      sync.Mutex
	plugins []*Plugin // newest registration first
	changed chan struct{}
	closed  bool

	pubMu sync.Mutex
	last  [2]map[string]*api.CSIInfo
}

func openRegistry(c Config) (*registry, error) {
	g := &registry{conf: c, changed: make(chan struct{})}
	raw, err := c.Registry.All()
	if err != nil {
		return nil, fmt.Errorf("read plugin registry: %w", err)
	}
	for key, value := range raw {
		p := new(Plugin)
		if err := json.Unmarshal(value, p); err != nil {
			c.Log.Error("skip unreadable record of plugin", "key", key, "error", err)
			continue
		}
		if err := g.connect(p); err != nil {
			c.Log.Error("skip record of plugin", "key", key, "error", err)
			continue
		}
		p.idle = time.Now() // until its supervisor takes it up
		g.plugins = append(g.plugins, p)
	}
	g.sort()
	return g, nil
}

func (g *registry) connect(p *Plugin) (err error) {
	p.taken, p.gone, p.probe = make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	p.client, err = csi.New(csi.Config{
		Socket: p.Socket, Dial: g.conf.Dial, Connect: g.conf.Connect, Timeouts: g.conf.Timeouts, Log: g.conf.Log.With("plugin_id", p.PluginID),
		Observe: func(rpc, code string, took time.Duration) { g.conf.Metrics.Call(p.PluginID, rpc, code, took) },
	})
	return err
}

func (g *registry) sort() {
	slices.SortStableFunc(g.plugins, func(a, b *Plugin) int { return b.Registered.Compare(a.Registered) })
}

func (g *registry) all() []*Plugin {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.plugins)
}

// provider is the name of the instance's driver.
func (g *registry) provider(p *Plugin) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.Provider
}

// stages reports whether the plugin wants volumes staged.
func (g *registry) stages(p *Plugin) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.Node != nil && p.Node.RequiresNodeStageVolume
}

// takesGroup reports whether the plugin gives mounts to a group itself.
func (g *registry) takesGroup(p *Plugin) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.Node != nil && p.Node.SupportsVolumeMountGroup
}

// alive reports whether any plugin is healthy.
func (g *registry) alive() bool {
	return slices.ContainsFunc(g.all(), g.isHealthy)
}

// active is the plugin that calls go to: the newest healthy one, else the newest.
func (g *registry) active(kind, id string) *Plugin {
	var first *Plugin
	for _, p := range g.plugins {
		if p.PluginID != id || !p.serves(kind) {
			continue
		}
		if p.Healthy {
			return p
		}
		if first == nil {
			first = p
		}
	}
	return first
}

// find returns a healthy plugin, or an error of class Unavailable that names what is missing.
func (g *registry) find(kind, id string) (*Plugin, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.active(kind, id)
	switch {
	case p == nil:
		return nil, fault.New(fault.Unavailable, "this node has no %s plugin %q", kind, id)
	case !p.Healthy:
		return nil, fault.New(fault.Unavailable, "%s plugin %q is unhealthy: %s", kind, id, p.Description)
	}
	return p, nil
}

// ErrNoPlugin marks that the wait for a plugin has reached its bound.
var ErrNoPlugin = errors.New("gave up waiting for the plugin")

// wait returns a healthy plugin. It waits for one for at most bound.
func (g *registry) wait(ctx context.Context, kind, id string, bound time.Duration) (*Plugin, error) {
	limit := time.NewTimer(bound)
	defer limit.Stop()
	for {
		g.mu.Lock()
		changed := g.changed
		g.mu.Unlock()
		p, err := g.find(kind, id)
		if err == nil {
			return p, nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil, fmt.Errorf("%w after %s: %w", ErrNoPlugin, bound, err)
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// adopt returns the plugin of a task for its supervisor: the remembered one, or one that is not registered yet. known
// reports which.
func (g *registry) adopt(fresh *Plugin) (p *Plugin, known bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, old := range g.plugins {
		if old.key() == fresh.key() {
			if old.Socket == fresh.Socket && old.PluginID == fresh.PluginID && old.Type == fresh.Type && old.Base == fresh.Base {
				select {
				case <-old.taken:
				default:
					close(old.taken)
				}
				old.idle = time.Time{}
				return old, true, nil
			}
			g.removeLocked(old)
			break
		}
	}
	if err := g.connect(fresh); err != nil {
		return nil, false, err
	}
	close(fresh.taken)
	return fresh, false, nil
}

// finding is what a probe found.
type finding struct {
	info csi.Info
	caps *csi.Capabilities
	err  error
	// starting is set when the plugin reports that it is not ready yet.
	starting bool
}

func (f *finding) description() string {
	switch {
	case f.err != nil:
		return f.err.Error()
	case f.starting:
		return "plugin is starting"
	}
	return "healthy"
}

// note records the result of a probe, registers the plugin at the first successful probe, and reports changes.
// Capabilities stay known while the plugin is unhealthy.
func (g *registry) note(p *Plugin, f finding) {
	g.mu.Lock()
	registered := slices.Contains(g.plugins, p)
	good := f.err == nil && !f.starting
	if g.closed || isClosed(p.gone) || (!registered && !good) {
		g.mu.Unlock()
		return
	}
	before := *p
	p.Healthy, p.Description = good, f.description()
	if good {
		p.Provider, p.Version = f.info.Name, f.info.Version
		p.Identity = f.caps.Identity
		if p.serves(api.CSIPluginTypeController) {
			p.Controller = f.caps.Controller
		}
		if p.serves(api.CSIPluginTypeNode) {
			p.Node = f.caps.Node
		}
		if !registered {
			p.Registered = time.Now()
			g.plugins = append(g.plugins, p)
			g.sort()
		}
	}
	changed := !registered || before.Healthy != p.Healthy || !reflect.DeepEqual(before.info(p.Type), p.info(p.Type)) ||
		!reflect.DeepEqual(before.Controller, p.Controller)
	raw, err := json.Marshal(p)
	if changed {
		g.signalLocked()
	}
	g.mu.Unlock()
	if !changed {
		return
	}
	if err == nil {
		err = g.conf.Registry.Put(p.key(), raw)
	}
	if err != nil {
		g.conf.Log.Error("remember plugin", "plugin_id", p.PluginID, "error", err)
	}
	g.conf.Log.Info("plugin", "plugin_id", p.PluginID, "type", p.Type, "alloc_id", p.AllocID, "healthy", good, "description", f.description())
	g.conf.NodeEvent(&api.NodeEvent{
		Subsystem: "CSI", Message: f.description(), Timestamp: time.Now(),
		Details: map[string]string{"plugin": p.PluginID, "type": p.Type},
	})
	g.publish()
	if good {
		g.conf.Healthy()
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (g *registry) signalLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *registry) removeLocked(p *Plugin) {
	g.plugins = slices.DeleteFunc(g.plugins, func(o *Plugin) bool { return o == p })
	close(p.gone)
	_ = p.client.Close()
	g.signalLocked()
}

// drop forgets plugins.
func (g *registry) drop(which func(*Plugin) bool) {
	g.mu.Lock()
	var dropped []*Plugin
	for _, p := range slices.Clone(g.plugins) {
		if which(p) {
			g.removeLocked(p)
			dropped = append(dropped, p)
		}
	}
	g.mu.Unlock()
	for _, p := range dropped {
		if err := g.conf.Registry.Delete(p.key()); err != nil {
			g.conf.Log.Error("forget plugin", "plugin_id", p.PluginID, "error", err)
		}
		g.conf.Log.Info("plugin is gone", "plugin_id", p.PluginID, "type", p.Type, "alloc_id", p.AllocID)
	}
	if len(dropped) > 0 {
		g.publish()
	}
}

// rest notes that the task of a plugin does not run. It may start again: see [registry.expire].
func (g *registry) rest(key string) {
	g.mu.Lock()
	var found *Plugin
	for _, p := range g.plugins {
		if p.key() == key {
			found = p
			p.idle = time.Now()
		}
	}
	g.mu.Unlock()
	if found != nil {
		g.note(found, finding{err: fault.New(fault.Unavailable, "the task of the plugin is not running")})
	}
}

// expire drops plugins whose tasks have not started again for a while. It ends with ctx.
func (g *registry) expire(ctx context.Context) {
	tick := time.NewTicker(g.conf.Grace/4 + 1)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, p := range g.all() {
			g.mu.Lock()
			over := !p.Healthy && !p.idle.IsZero() && time.Since(p.idle) > g.conf.Grace
			g.mu.Unlock()
			if over {
				g.drop(func(o *Plugin) bool { return o == p })
			}
		}
	}
}

// closing ends all news: the end of the agent is not the end of the plugins.
func (g *registry) closing() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, p := range g.plugins {
		_ = p.client.Close()
	}
}

// publish reports changes to the node's fingerprint. It never holds the registry's mutex while it calls out.
func (g *registry) publish() {
	g.pubMu.Lock()
	defer g.pubMu.Unlock()
	g.mu.Lock()
	next := [2]map[string]*api.CSIInfo{{}, {}}
	for i, kind := range []string{api.CSIPluginTypeController, api.CSIPluginTypeNode} {
		for _, p := range g.plugins {
			if p.serves(kind) && next[i][p.PluginID] == nil {
				next[i][p.PluginID] = g.active(kind, p.PluginID).info(kind)
			}
		}
	}
	closed := g.closed
	g.mu.Unlock()
	if closed || reflect.DeepEqual(next, g.last) {
		return
	}
	g.last = next
	stamped := [2]map[string]*api.CSIInfo{{}, {}}
	for i := range next {
		for id, info := range next[i] {
			c := *info
			c.UpdateTime = time.Now()
			stamped[i][id] = &c
		}
	}
	g.conf.Updated(stamped[0], stamped[1])
}
