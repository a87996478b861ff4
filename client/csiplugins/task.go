package csiplugins

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// Defaults of the csi_plugin block.
const (
	defaultMountDir      = "/csi"
	defaultBaseDir       = "/local/csi"
	defaultHealthTimeout = 30 * time.Second
	socketName           = "csi.sock"
	endpointVariable     = "CSI_ENDPOINT"
)

// Task is what a task with a csi_plugin block needs around its life. It fits tasks.Plugin.
type Task struct {
	s         *Service
	plugin    Plugin
	isolated  bool
	socketDir string
	mountDir  string
	// own is set when the job names a socket of its own.
	own bool
	// unseen is set when the socket is no file that could be looked for.
	unseen  bool
	timeout time.Duration
}

// Task returns what the task needs; isolated reports whether it has file system isolation.
func (s *Service) Task(alloc *api.Allocation, task *api.Task, isolated bool) (*Task, error) {
	c := task.CSIPluginConfig
	if c == nil {
		return nil, fault.New(fault.Invalid, "task %s has no csi_plugin block", task.Name)
	}
	if err := CheckPluginID(c.ID); err != nil {
		return nil, err
	}
	switch c.Type {
	case api.CSIPluginTypeController, api.CSIPluginTypeNode, api.CSIPluginTypeMonolith:
	default:
		return nil, fault.New(fault.Invalid, "plugin %s: type %q is not controller, node or monolith", c.ID, c.Type)
	}
	p := &Task{
		s: s, isolated: isolated, timeout: cmp.Or(c.HealthTimeout, defaultHealthTimeout),
		mountDir:  cmp.Or(c.MountDir, defaultMountDir),
		socketDir: filepath.Join(s.conf.Root, "plugins", socketDirName(alloc, task.Name)),
	}
	base := s.BaseOf(c.Type, c.ID)
	p.plugin = Plugin{
		PluginID: c.ID, Type: c.Type, AllocID: alloc.ID, Task: task.Name,
		Socket: filepath.Join(p.socketDir, socketName), Base: Place{Host: base, Plugin: base},
	}
	if isolated {
		p.plugin.Base.Plugin = cmp.Or(c.StagePublishBaseDir, defaultBaseDir)
	} else if socket, ok := literalSocket(task.Env[endpointVariable]); ok {
		p.plugin.Socket, p.own = socket, true
	}
	return p, csi.CheckSocketPath(p.plugin.Socket)
}

// socketDirName is the allocation's id; further plugins of the same allocation get a number.
func socketDirName(alloc *api.Allocation, task string) string {
	n := 0
	if g := alloc.Group(); g != nil {
		for _, t := range g.Tasks {
			if t.Name == task {
				break
			}
			if t.CSIPluginConfig != nil {
				n++
			}
		}
	}
	if n == 0 {
		return alloc.ID
	}
	return alloc.ID + "-" + strconv.Itoa(n)
}

// literalSocket reads a socket path that the job sets itself; one with variables in it cannot be known.
func literalSocket(endpoint string) (string, bool) {
	if endpoint == "" || strings.Contains(endpoint, "${") {
		return "", false
	}
	path, err := csi.SocketOf(endpoint)
	return path, err == nil
}

// Prepare makes the directories of the plugin and returns its mounts and variables.
func (p *Task) Prepare() ([]driver.Mount, map[string]string, error) {
	if err := p.s.PrepareRoot(); err != nil && p.isolated {
		p.s.conf.Log.Warn("mounts of the plugin may not be seen by the node", "plugin_id", p.plugin.PluginID, "error", err)
	}
	if err := p.s.conf.Host.MakeDir(p.socketDir); err != nil {
		return nil, nil, err
	}
	if err := p.s.MakeDirs(p.plugin.Base); err != nil {
		return nil, nil, err
	}
	if !p.isolated {
		return nil, map[string]string{endpointVariable: "unix://" + p.plugin.Socket}, nil
	}
	return []driver.Mount{
		{Source: p.socketDir, Destination: p.mountDir, Propagation: "bidirectional"},
		{Source: p.plugin.Base.Host, Destination: p.plugin.Base.Plugin, Propagation: "bidirectional"},
		{Source: "/dev", Destination: "/dev"},
	}, map[string]string{endpointVariable: "unix://" + filepath.Join(p.mountDir, socketName)}, nil
}

// Supervise waits for the plugin's socket, registers the plugin and watches its health until ctx ends. It calls say to
// record an event of the task and restart to request a restart that counts as a failure.
func (p *Task) Supervise(ctx context.Context, say func(eventType, message string), restart func(reason string)) {
	fresh := p.plugin
	pl, known, err := p.s.registry.adopt(&fresh)
	if err != nil {
		say(api.EventPluginUnhealthy, err.Error())
		return
	}
	w := &watch{p: p, plugin: pl, known: known && p.s.registry.isHealthy(pl), say: say, restart: restart, since: time.Now()}
	for ctx.Err() == nil {
		wait := w.look(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-pl.probe:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	if !known && !p.s.registry.has(pl) {
		_ = pl.client.Close()
	}
}

// EventWaiting is the type of events of tasks that wait for volumes.
const EventWaiting = "Waiting"

// quiesceMax bounds for how long a plugin is kept for those who leave, quiescePace is how often it is looked.
const (
	quiesceMax  = time.Minute
	quiescePace = 25 * time.Millisecond
)

// Quiesce waits, bounded, until the volumes of allocations that leave the node are unmounted: a plugin that is stopped
// together with its users stops last. Users that stay are served by its successor. A node that was lost may receive
// the plugin's change first: then all leave.
func (p *Task) Quiesce(ctx context.Context, say func(eventType, message string)) {
	ctx, cancel := context.WithTimeout(ctx, quiesceMax)
	defer cancel()
	tick := time.NewTicker(quiescePace)
	defer tick.Stop()
	for told := false; ; told = true {
		n := p.leaving()
		if n == 0 {
			return
		}
		if !told {
			say(EventWaiting, fmt.Sprintf("%d volumes of allocations that leave the node are unmounted first", n))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// leaving counts the volumes that only this instance can unmount for those who leave.
func (p *Task) leaving() int {
	active, err := p.s.Find(api.CSIPluginTypeNode, p.plugin.PluginID)
	if err != nil || active.AllocID != p.plugin.AllocID || active.Task != p.plugin.Task {
		return 0
	}
	return p.s.conf.Leaving(p.plugin.PluginID, p.plugin.AllocID)
}

// watch is the memory of one supervisor.
type watch struct {
	p       *Task
	plugin  *Plugin
	say     func(eventType, message string)
	restart func(reason string)
	// known is set when the plugin was healthy before, maybe in an earlier agent process.
	known bool
	down  bool
	// since is when the plugin was last healthy, or last reported that it is starting.
	since time.Time
	tries int
}

// look probes once, reports changes and returns how long to wait.
func (w *watch) look(ctx context.Context) time.Duration {
	f := w.probe(ctx)
	if ctx.Err() != nil {
		return 0
	}
	g := w.p.s.registry
	g.note(w.plugin, f)
	id := w.plugin.PluginID
	if f.err == nil && !f.starting {
		if !w.known || w.down {
			w.say(api.EventPluginHealthy, "plugin: "+id)
		}
		w.known, w.down, w.since, w.tries = true, false, time.Now(), 0
		return g.conf.HealthInterval
	}
	if w.known && !w.down {
		w.say(api.EventPluginUnhealthy, f.description())
		w.down = true
	}
	if f.starting {
		w.since = time.Now()
	}
	if patience := w.patience(); time.Since(w.since) >= patience {
		w.say(api.EventPluginUnhealthy, f.description())
		w.restart(fmt.Sprintf("CSI plugin %s was not healthy for %s: %s", id, patience, f.description()))
		w.since = time.Now()
	}
	w.tries++
	if w.known {
		return min(unhealthyPause, g.conf.HealthInterval)
	}
	return min(25*time.Millisecond<<min(w.tries-1, 6), time.Second)
}

// probe probes the plugin if it is reachable.
func (w *watch) probe(ctx context.Context) finding {
	if _, err := os.Lstat(w.plugin.Socket); err != nil && !w.known && !w.p.unseen {
		return finding{err: fault.New(fault.Unavailable, "the plugin has not created its socket %s", w.plugin.Socket)}
	}
	return w.p.s.registry.ask(ctx, w.plugin)
}

// patience is how long the plugin may be unhealthy. One that was healthy before has live mounts behind it
// and gets more time.
func (w *watch) patience() time.Duration {
	if w.known {
		return max(3*w.p.timeout, 2*time.Minute)
	}
	return w.p.timeout
}

func (g *registry) isHealthy(p *Plugin) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return p.Healthy
}

func (g *registry) has(p *Plugin) bool {
	for _, o := range g.all() {
		if o == p {
			return true
		}
	}
	return false
}

// Cleanup removes the socket directory after the task has ended. It never descends into a mount. The plugin stays
// known, as not running, until its allocation has ended or Config.PluginGrace has passed: a restarted task takes it up
// again.
func (p *Task) Cleanup() {
	p.s.registry.rest(p.plugin.key())
	if p.own {
		return
	}
	if err := p.s.removeFlat(p.socketDir); err != nil {
		p.s.conf.Log.Warn("clean up after plugin", "plugin_id", p.plugin.PluginID, "error", err)
	}
}
