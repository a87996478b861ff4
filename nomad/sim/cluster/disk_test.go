package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/csiplugins"
	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// disk is what a node keeps over restarts of its agent and boots. It is guarded by World.mu.
type disk struct {
	buckets map[string]map[string][]byte
	// known are the allocations that the node knows, by id.
	known map[string]*kept
	// spoilt are the records that cannot be read any more.
	spoilt int
	// voters are those among the servers that a leader told last.
	voters *api.Voters
}

// kept is what the node remembers of an allocation.
type kept struct {
	alloc *api.Allocation
	// stopped is set when it was told to stop, ended when its tasks have ended.
	stopped, ended bool
	// status is how they ended.
	status string
}

func newDisk() *disk {
	return &disk{buckets: map[string]map[string][]byte{}, known: map[string]*kept{}}
}

// bucket is a [csiplugins.Bucket] of one agent. An agent that has died writes nothing any more, and each write is
// a moment at which it may die.
type bucket struct {
	a    *agent
	name string
}

var (
	_ csiplugins.Bucket = bucket{}
	_ mounts.Host       = hands{}
)

func (b bucket) values() map[string][]byte {
	d := b.a.n.disk
	if d.buckets[b.name] == nil {
		d.buckets[b.name] = map[string][]byte{}
	}
	return d.buckets[b.name]
}

// Get implements [csiplugins.Bucket].
func (b bucket) Get(key string) ([]byte, error) {
	b.a.n.w.mu.Lock()
	defer b.a.n.w.mu.Unlock()
	return b.values()[key], nil
}

// All implements [csiplugins.Bucket].
func (b bucket) All() (map[string][]byte, error) {
	b.a.n.w.mu.Lock()
	defer b.a.n.w.mu.Unlock()
	if b.name == "fences" && b.a.n.w.bug == BugForgetful {
		return nil, nil
	}
	return maps.Clone(b.values()), nil
}

// Put implements [csiplugins.Bucket].
func (b bucket) Put(key string, value []byte) error {
	return b.change(key, func(all map[string][]byte) { all[key] = value })
}

// Delete implements [csiplugins.Bucket].
func (b bucket) Delete(key string) error {
	return b.change(key, func(all map[string][]byte) { delete(all, key) })
}

func (b bucket) change(key string, do func(map[string][]byte)) error {
	w := b.a.n.w
	if b.a.dies("before writing "+b.name+" "+key) || !b.a.sleep(b.a.ctx, b.a.n.id+" flushes "+b.name+" "+key, 2*time.Millisecond) {
		return errDead
	}
	w.mu.Lock()
	if b.a.ctx.Err() != nil {
		w.mu.Unlock()
		return errDead
	}
	do(b.values())
	if *messages {
		w.tell("%s writes %s %s", b.a.n.id, b.name, key)
	}
	w.mu.Unlock()
	if b.a.dies("after writing " + b.name + " " + key) {
		return errDead
	}
	return nil
}

var errDead = fmt.Errorf("the agent is dead")

// hands are the kernel as one agent reaches it: a dead one changes nothing any more.
type hands struct {
	mounts.Host
	a *agent
}

// BootID implements [mounts.Host].
func (h hands) BootID() string {
	if h.a.n.w.bug == BugBootIgnored {
		return "always the same"
	}
	return h.Host.BootID()
}

// At implements [mounts.Host].
func (h hands) At(path string) (*mounts.Entry, error) {
	at, err := h.Host.At(path)
	if h.a.n.w.bug == BugBootIgnored && at == nil {
		h.a.n.w.mu.Lock()
		defer h.a.n.w.mu.Unlock()
		at = h.a.n.before.AtExactly(path)
	}
	return at, err
}

// Bind implements [mounts.Host].
func (h hands) Bind(source, target string, f mounts.Flags) error {
	if h.a.ctx.Err() != nil {
		return errDead
	}
	return h.Host.Bind(source, target, f)
}

// Remove implements [mounts.Host].
func (h hands) Remove(m *mounts.Entry) error {
	n := h.a.n
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if h.a.ctx.Err() != nil {
		return errDead
	}
	n.mayUnpublish(m.Point)
	n.w.tell("%s unmounts %s itself", n.id, n.label(m.Point))
	return h.Host.Remove(m)
}

// Detach implements [mounts.Host].
func (h hands) Detach(m *mounts.Entry) error {
	n := h.a.n
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if h.a.ctx.Err() != nil {
		return errDead
	}
	n.mayUnpublish(m.Point)
	n.w.tell("%s detaches %s", n.id, n.label(m.Point))
	return h.Host.Detach(m)
}

// Restrict implements [mounts.Host].
func (h hands) Restrict(path string, f mounts.Flags) error {
	if h.a.ctx.Err() != nil {
		return errDead
	}
	return h.Host.Restrict(path, f)
}

// Abort implements [mounts.Host].
func (h hands) Abort(m *mounts.Entry) error {
	if h.a.ctx.Err() != nil {
		return errDead
	}
	return h.Host.Abort(m)
}

// MakeDir implements [mounts.Host].
func (h hands) MakeDir(path string) error {
	if h.a.ctx.Err() != nil {
		return errDead
	}
	return h.Host.MakeDir(path)
}

// RemoveLeaf implements [mounts.Host].
func (h hands) RemoveLeaf(path string) error {
	if h.a.ctx.Err() != nil {
		return errDead
	}
	return h.Host.RemoveLeaf(path)
}

// record is what the simulation reads of a row of the journal.
type record struct {
	State, AllocID, VolumeID, PluginID, ExternalID, Use string
	Target                                              struct{ Host string }
}

// announced is the row of the journal that announces a mount at the path; the lock is held.
func (n *node) announced(path string) *record {
	for _, raw := range n.disk.buckets["volumes"] {
		r := &record{}
		if json.Unmarshal(raw, r) == nil && r.Target.Host == path {
			return r
		}
	}
	return nil
}
