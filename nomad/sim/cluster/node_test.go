package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts/mountstest"
)

// node is one machine: its kernel, the processes of plugins, the processes that supervise its tasks, its disk, and
// the agent while one runs. It is guarded by World.mu.
type node struct {
	w    *World
	id   string
	rate float64 // of its boot clock
	host bool    // of controllers

	boot    int
	booted  bool
	os      context.Context // ends with the power
	off     context.CancelFunc
	kernel  *mountstest.Host
	before  mounts.List // the mounts of the boot before
	disk    *disk
	agent   *agent
	plugins []*process
	made    int              // plugin processes
	lives   int              // agents
	with    *server          // that is alone with it
	users   map[string]*user // by target path
	tasks   map[string]*task
}

// user is what was published at a target path, by what the driver was asked and the journal says.
type user struct {
	alloc, volume, use, plugin, external string
	mode                                 api.AccessMode
	writes                               bool
}

func key(alloc, volume string) string { return alloc + " " + volume }

func (u *user) key() string { return key(u.alloc, u.volume+u.use) }

// bootTime is how long a boot takes at least.
const bootTime = 4 * time.Second

func (w *World) newNode(id string, host bool) *node {
	n := &node{
		w: w, id: id, host: host, rate: []float64{0.99, 1, 1.01}[w.dice.roll("clock "+id).IntN(3)],
		kernel: mountstest.New(id), disk: newDisk(), users: map[string]*user{}, tasks: map[string]*task{},
	}
	if host {
		n.install("attach", api.CSIPluginTypeController)
	} else {
		n.install("attach", api.CSIPluginTypeNode)
		n.install("share", api.CSIPluginTypeNode)
	}
	n.power()
	return n
}

// install makes a plugin's process, in the place of the one that there was; the lock is held, or nobody knows the
// node yet.
func (n *node) install(plugin, kind string) *process {
	n.made++
	conf := fake.Config{
		Storage: n.w.storage, NodeID: provider(n.id), Host: n.kernel, DataDir: "/data",
		Attach: plugin == "attach", NoController: kind == api.CSIPluginTypeNode, NoNode: kind == api.CSIPluginTypeController,
	}
	p := &process{n: n, id: plugin, kind: kind, alloc: fmt.Sprintf("%s.%s.%d", n.id, plugin, n.made), driver: fake.New(conf), up: true}
	n.plugins = append(n.without(plugin), p)
	return p
}

func (n *node) without(plugin string) (list []*process) {
	for _, p := range n.plugins {
		if p.id != plugin {
			list = append(list, p)
		}
	}
	return list
}

func (n *node) name() string { return n.id }

// serves returns the agent's handler of a method.
func (n *node) serves(method string) (*wire.Handler, context.Context) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.agent == nil {
		return nil, n.os
	}
	if h, ok := n.agent.calls[method]; ok {
		return &h, n.agent.ctx
	}
	return nil, n.agent.ctx
}

// clock is the node's boot clock; after is how long it really takes until it has gone on by d.
func (n *node) clock() time.Duration {
	return time.Duration(float64(time.Since(n.w.began)) * n.rate)
}

func (n *node) after(d time.Duration) time.Duration {
	return time.Duration(float64(d)/n.rate) + time.Nanosecond
}

// power boots the machine; the lock is held, or nobody knows the node yet.
func (n *node) power() {
	n.boot++
	n.os, n.off = context.WithCancel(n.w.root)
	n.booted = n.boot == 1
	for _, p := range n.plugins {
		p.up = true
	}
	n.start()
}

// cutPower ends everything that runs on the machine; the lock is held.
func (n *node) cutPower() {
	n.kill()
	n.off()
	n.before, _ = n.kernel.Table()
	n.kernel.Reboot()
	n.w.storage.Forget(provider(n.id))
	clear(n.users)
	for _, t := range n.tasks {
		t.end()
	}
	n.tasks = map[string]*task{}
	for _, p := range n.plugins {
		n.crash(p, true)
	}
}

// crash ends a plugin's process: what it works on may have its effect, unless the power is off; the lock is held.
func (n *node) crash(p *process, off bool) {
	p.up = false
	for _, k := range sorted(n.w.busy) {
		if c := n.w.busy[k]; c.node && c.on == n.id {
			c.given, c.lost = true, c.lost || off || n.w.dice.roll("crash "+c.what).IntN(2) == 0
		}
	}
}

// kill ends the agent and nothing else; the lock is held.
func (n *node) kill() {
	if n.agent != nil {
		n.agent.die()
		n.agent = nil
	}
}

// live are the mounts of volumes at targets, in order; the lock is held.
func (n *node) live() (list []*user) {
	for _, path := range sorted(n.users) {
		if on, _ := n.kernel.IsPoint(path); on {
			list = append(list, n.users[path])
		} else {
			delete(n.users, path)
		}
	}
	return list
}

// mounted reports whether the volume of a claim is mounted; the lock is held.
func (n *node) mounted(c *api.VolumeClaim) bool {
	return slices.ContainsFunc(n.live(), func(u *user) bool { return u.key() == key(c.AllocID, c.VolumeID+c.Use) })
}

// label names a path in stories; the lock is held.
func (n *node) label(path string) string {
	if u := n.users[path]; u != nil {
		return u.key()
	}
	return filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)[:4]
}

// mayPublish asserts that the journal announces what is published, and that the volume is attached; the lock is held.
func (n *node) mayPublish(m *pb.NodePublishVolumeRequest) {
	r := n.announced(m.GetTargetPath())
	if r == nil && n.disk.spoilt > 0 {
		return
	}
	if r == nil {
		n.w.fail("%s publishes %s at a path that its journal does not announce", n.id, m.GetVolumeId())
		return
	}
	u := &user{
		alloc: r.AllocID, volume: r.VolumeID, use: r.Use, plugin: r.PluginID, external: m.GetVolumeId(),
		mode: modeOf(m.GetVolumeCapability()), writes: !m.GetReadonly(),
	}
	n.users[m.GetTargetPath()] = u
	if u.plugin == "attach" && !n.w.has(u.external, n.id) && !n.w.outcast[u.key()] {
		n.w.fail("%s shall mount %s, which is not attached", n.id, u.key())
	}
	n.w.tally.Mounts++
}

// mayUnstage asserts that nothing is unstaged under a mount; the lock is held.
func (n *node) mayUnstage(external string) {
	for _, u := range n.live() {
		if u.external == external {
			n.w.fail("%s unstages %s under the mount of %s", n.id, external, u.key())
		}
	}
}

// mayUnpublish asserts that nothing is unmounted under its task; the lock is held.
func (n *node) mayUnpublish(path string) {
	if u := n.users[path]; u != nil && n.tasks[u.alloc] != nil && !n.tasks[u.alloc].ended {
		if on, _ := n.kernel.IsPoint(path); on && n.kernel.Statfs(path) == nil {
			n.w.fail("%s unmounts %s under its task", n.id, u.key())
		}
	}
}
