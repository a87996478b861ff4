package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// both is the volume whose users end before its storage cuts them off.
const both = "a2"

// existing are the volumes that are registered, not created.
func (w *World) existing() []*api.VolumeSpec {
	list := []*api.VolumeSpec{
		spec("a1", "attach", writer), spec("a2", "attach", writer), spec("a3", "attach", many),
		spec("s1", "share", shared), spec("s2", "share", many),
	}
	for _, v := range list {
		v.ExternalID = "x-" + v.ID
		if v.ID == both && w.bug != BugStorageOnly {
			v.Fence = api.FenceBoth
		}
	}
	return list
}

// rotate makes the storage want another secret.
func (w *World) rotate(external string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[external] = fmt.Sprintf("secret %d of %s", len(w.secrets[external])+w.dice.roll("rotate "+external).IntN(1000), external)
	w.storage.RequireSecrets(external, map[string]string{"key": w.secrets[external]}, false)
	w.tell("the storage wants another secret for %s", external)
}

func (w *World) credentials(external string) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return map[string]string{"key": w.secrets[external]}
}

// renew rotates the secret of a volume and, some time later, registers the volume with it, or first with a wrong one.
func (w *World) renew(v *api.VolumeSpec, right bool) {
	dice := w.dice.roll("renew " + v.ID)
	if right {
		w.rotate(v.ExternalID)
	}
	go func() {
		if !w.sleep(w.root, w.some(dice, 20*time.Second)) {
			return
		}
		if right {
			w.register(v, w.credentials(v.ExternalID))
			return
		}
		w.register(v, map[string]string{"key": "wrong"})
	}()
}

func (w *World) register(v *api.VolumeSpec, secrets map[string]string) {
	next := *v
	next.Secrets, next.Lease = secrets, w.lease
	_ = w.user(&api.VolumeRegisterRequest{Volumes: []*api.VolumeSpec{&next}}, wire.VolumeRegister.Name, &api.VolumeWriteResponse{})
}

// amend does what users do in the end about what went wrong: the right secrets, and what could not be created or
// deleted is deleted.
func (w *World) amend() {
	tx := w.truth().Read()
	for _, v := range w.existing() {
		if row := tx.Volume("default", v.ID); row == nil || !maps.Equal(row.Secrets, w.credentials(v.ExternalID)) {
			w.register(v, w.credentials(v.ExternalID))
		}
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if v.Provision.State == api.VolumeFailed {
			w.remove1(v.ID)
		}
	}
}

// spoil breaks something on a node; the lock is held.
func (w *World) spoil(n *node, r *rand.Rand) {
	p := n.plugins[r.IntN(len(n.plugins))]
	switch what := r.IntN(10); {
	case what < 4 && p.up:
		w.tell("the plugin %s of %s crashes", p.id, n.id)
		n.crash(p, false)
		if p.id == "share" && r.IntN(2) == 0 { // it served the file systems
			for _, path := range sorted(n.users) {
				if n.users[path].plugin == p.id {
					n.kernel.Kill(path)
				}
			}
		}
		w.later(r, 20*time.Second, func() { p.up = n.os.Err() == nil || p.up })
	case what < 6 && n.host && !slices.ContainsFunc(w.hosts, func(h *node) bool { return h.plugins[0].poor }):
		w.tell("the plugin %s of %s cannot attach", p.id, n.id)
		p.poor = true
		w.later(r, 20*time.Second, func() { p.poor = false })
	case what < 8 && !n.host:
		for _, path := range sorted(n.users) {
			if r.IntN(2) == 0 {
				w.tell("the mount of %s hangs on %s", n.label(path), n.id)
				n.kernel.Hang(path)
			}
		}
		w.later(r, 40*time.Second, n.kernel.Wake)
	case p.id == "attach" && !n.host && n.agent != nil && n.agent.svc != nil:
		n.replace(p)
	}
}

// later does something after a while, or at once when all faults have ceased.
func (w *World) later(r *rand.Rand, most time.Duration, do func()) {
	time.AfterFunc(w.some(r, most), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// replace puts a plugin of another type in the place of one; the lock is held.
func (n *node) replace(p *process) {
	kind := api.CSIPluginTypeMonolith
	if p.kind == kind {
		kind = api.CSIPluginTypeNode
	}
	next := n.install(p.id, kind)
	n.crash(p, false)
	next.up = true
	n.w.tell("%s runs the plugin %s as %s", n.id, p.id, kind)
	a := n.agent
	if stop := a.serving[p.alloc]; stop != nil {
		stop()
	}
	a.serve(next)
	go func() { // its allocation has ended
		if a.sleep(a.ctx, "drop "+p.alloc, time.Second) {
			a.svc.Plugins().Drop(p.alloc)
		}
	}()
}

// corrupt makes a record of the journal unreadable, now and then; the lock is held.
func (n *node) corrupt() {
	r := n.w.dice.roll("corrupt " + n.id)
	rows := n.disk.buckets["volumes"]
	keys := slices.DeleteFunc(sorted(rows), func(k string) bool { return !strings.HasPrefix(k, "stage/") })
	if r.IntN(8) > 0 || len(keys) == 0 || n.w.calm {
		return
	}
	key := keys[r.IntN(len(keys))]
	rows[key] = rows[key][:len(rows[key])/2]
	n.disk.spoilt++
	n.w.tell("%s cannot read its record %s any more", n.id, key)
}
