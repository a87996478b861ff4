package cluster

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A host of controllers runs another driver under the plugin's id for a while. To that one the ids of volumes are those
// of its own ones: it says yes to everything and does nothing of what is meant. It must not be asked about what is
// known to be another driver's. Drivers are renamed, too: one plugin after the other, until an operator says so.

const (
	// driverName is what the driver that has the volumes calls itself in the beginning.
	driverName = "fake.open-nomad.dev"
	// other is the name that another driver gives itself.
	other = "other.open-nomad.dev"
)

// named is what a driver calls itself.
func (w *World) named(name string) string {
	if w.bug == BugUnnamed {
		return driverName
	}
	return name
}

// controllers are the processes that serve the controllers of the plugin that attaches; the lock is held.
func (w *World) controllers() (list []*process) {
	for _, n := range w.all() {
		for _, p := range n.plugins {
			if p.id == "attach" && p.kind != api.CSIPluginTypeNode {
				list = append(list, p)
			}
		}
	}
	return list
}

// estrange has a host run another driver for a while, where the servers know whose all volumes are: what they do not know
// is of who is there alone.
func (w *World) estrange(n *node) {
	r := w.rnd
	w.mu.Lock()
	defer w.mu.Unlock()
	tx, strange := w.newest().store.Read(), func(p *process) bool { return p.name != w.driver }
	if slices.ContainsFunc(w.controllers(), strange) || !w.owned(tx) {
		return
	}
	p := n.plugins[0]
	next := n.run(p.id, p.kind, other)
	w.tell("%s runs another driver as %s", n.id, p.id)
	w.tally.Faults++
	n.succeed(p, next)
	w.later(r, 40*time.Second, func() {
		w.tell("%s runs the former driver again", n.id)
		n.succeed(next, n.install(p.id, p.kind))
	})
}

// owned reports whether the servers know of all volumes whose they are.
func (w *World) owned(tx *state.Txn) bool {
	for v := range tx.VolumesByPlugin("attach") {
		if v.Provision.Provider != w.driver {
			return false
		}
	}
	for a := range tx.Attachments() {
		if a.PluginID == "attach" && a.Provider != w.driver {
			return false
		}
	}
	return true
}

// elsewhere is what another driver answers. It makes nothing, so that all volumes are of the driver that is played.
func (r *request) elsewhere() error {
	w := r.a.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	tx := w.newest().store.Read()
	w.tell("another driver: %s", r.what)
	if _, ok := r.args.(*pb.CreateVolumeRequest); ok {
		return status.Error(codes.InvalidArgument, "the other driver makes no volumes")
	}
	known, is := false, func(driver string) bool { return driver != "" && driver != other }
	for v := range tx.VolumesByExternal("attach", r.external) {
		if known = known || is(v.Provision.Provider); known {
			w.fail("another driver is asked: %s, of a volume of %s", r.what, v.Provision.Provider)
		}
	}
	for a := range tx.AttachmentsOf("attach", r.external) {
		if known = known || is(a.Provider); known {
			w.fail("another driver is asked: %s, attached by %s", r.what, a.Provider)
		}
	}
	if !known { // whose it is nobody knows yet
		return errGone
	}
	return nil
}

// rename gives the driver another name, on one node after the other, and has an operator say so some time later.
func (w *World) rename() {
	r := w.rnd
	w.mu.Lock()
	defer w.mu.Unlock()
	w.former = append(w.former, w.driver)
	w.driver = fmt.Sprintf("fake-%d.open-nomad.dev", len(w.former))
	w.tell("the driver is renamed to %s", w.driver)
	for _, n := range w.all() {
		w.later(r, 20*time.Second, func() { n.rename() })
	}
	wait := w.some(r, time.Minute)
	go func() {
		if w.sleep(w.root, wait) {
			w.sayRenamed(w.truth().Read())
		}
	}()
}

// rename runs the driver by its present name; the lock is held.
func (n *node) rename() {
	i := slices.IndexFunc(n.plugins, func(p *process) bool { return p.id == "attach" && p.name != other && p.name != n.w.driver })
	if i < 0 {
		return
	}
	p := n.plugins[i]
	n.w.tell("%s runs %s by its present name", n.id, p.id)
	n.succeed(p, n.install(p.id, p.kind))
}

// sayRenamed has an operator say that the driver was renamed, where something is of a former name.
func (w *World) sayRenamed(tx *state.Txn) {
	w.mu.Lock()
	former, present := append([]string{other}, w.former...), w.driver // what was not known is taken for who was there alone
	w.mu.Unlock()
	for _, name := range former {
		is := false
		for v := range tx.Volumes(api.AllNamespaces) {
			is = is || v.Provision.Provider == name
		}
		for a := range tx.Attachments() {
			is = is || a.Provider == name
		}
		for a := range tx.WrittenOff() {
			is = is || a.Provider == name
		}
		if is {
			_ = w.user(&api.PluginRenamedRequest{ID: "attach", Former: name, Present: present}, wire.PluginRenamed.Name, &api.WriteMeta{})
		}
	}
}

// writeOff has an operator end a detach that fails: He has cut
// the node off with the storage's own means then, and waits with that for the end of calls that the driver works on: an
// attach that comes later gives the node its path back (seed 6038 of 1,000 steps).
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
