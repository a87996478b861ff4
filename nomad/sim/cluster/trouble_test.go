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
		if w.bug != BugLossPolicy {
			v.OnNodeLoss = w.losses[v.ID]
		}
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
		row := tx.Volume(home(v.ID), v.ID)
		if row == nil || !slices.ContainsFunc(box.Plain(row.Secrets), func(s map[string]string) bool { return maps.Equal(s, w.credentials(v.ExternalID)) }) {
			w.register(v, w.credentials(v.ExternalID))
		}
	}
	for v := range tx.Volumes(api.AllNamespaces) {
		if v.Provision.State == api.VolumeFailed {
			w.remove1(v.ID)
		}
	}
	for _, id := range w.lost(tx) {
		w.forget(id)
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
	n.w.tell("%s runs the plugin %s as %s", n.id, p.id, kind)
	n.succeed(p, next)
}

// succeed has a process serve in the place of another one; the lock is held.
func (n *node) succeed(p, next *process) {
	n.crash(p, false)
	next.up = n.os.Err() == nil
	a := n.agent
	if a == nil || a.svc == nil { // the next agent serves it
		return
	}
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

// leased is a node with a task under a lease; the lock is held.
func (w *World) leased() *node {
	for _, n := range w.nodes {
		for _, t := range n.tasks {
			if t.term.Term > 0 && !t.ended {
				return n
			}
		}
	}
	return nil
}

// server does something to a server, or makes it good.
func (w *World) server(s *server) {
	r := w.rnd
	w.mu.Lock()
	leads, up, alone := w.log.leader == s, s.up, s.alone
	others := 0
	for _, o := range w.servers {
		if o != s && o.up && !o.alone && o.votes() {
			others++
		}
	}
	gone := s.gone
	w.mu.Unlock()
	switch {
	case gone:
	case !up:
		w.mu.Lock()
		w.tell("%s starts again", s.id)
		w.restart(s)
		w.mu.Unlock()
	case alone:
		w.mu.Lock()
		w.tell("%s is with the others again", s.id)
		s.alone, s.knows = false, w.log.leader
		w.catchUp(s)
		w.mu.Unlock()
	case others < 2 || r.IntN(3) == 0:
		return
	case r.IntN(4) == 0:
		w.destroy(s)
	case r.IntN(2) == 0:
		if leads {
			w.depose(r, "it is killed")
		}
		w.mu.Lock()
		w.tell("%s is killed", s.id)
		w.tally.Faults++
		s.crash()
		w.mu.Unlock()
	default:
		if leads {
			w.depose(r, "it is alone")
		}
		w.mu.Lock()
		w.tell("%s is alone", s.id)
		w.tally.Faults++
		s.alone = true
		n := w.nodes[r.IntN(len(w.nodes))]
		if holder := w.leased(); holder != nil && r.IntN(4) > 0 {
			n = holder
		}
		if r.IntN(2) == 0 && n.os.Err() == nil {
			w.tell("%s is with it", n.id)
			if n.with = s; r.IntN(2) == 0 && n.agent != nil {
				n.agent.named = []*server{s} // gossip had lost the others for a moment
			}
			for _, o := range w.servers {
				w.apart(n.id, o.id, o != s)
			}
		}
		w.mu.Unlock()
		time.AfterFunc(w.some(r, time.Second), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if s.alone {
				s.knows = nil
			}
		})
	}
}

// writeOff has an operator end a detach that fails. The operator has cut the node off by the storage's own means, and
// waits for the end of calls that the driver works on: a later attach gives the node its path back.
func (w *World) writeOff() {
	var stuck []*api.VolumeAttachment
	for a := range w.truth().Read().Attachments() {
		if a.State != api.AttachmentUnpublishing || a.LastError == "" {
			continue
		}
		w.mu.Lock()
		works := w.busy[realID(a.ExternalID)] != nil
		w.mu.Unlock()
		if works {
			return
		}
		stuck = append(stuck, a)
	}
	if len(stuck) == 0 {
		return
	}
	a := stuck[w.rnd.IntN(len(stuck))]
	r := &api.VolumeDetachRequest{PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, Force: true}
	go func() { _ = w.user(r, wire.VolumeDetach.Name, &api.VolumeDetachResponse{}) }()
}
