package sim

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
)

// expand asks for a volume that was made to grow, through the spec that made it or a second one.
func (w *World) expand() {
	tx, n := w.store.Read(), w.rnd.IntN(3)
	for _, id := range []string{fmt.Sprintf("made-%d", n), fmt.Sprintf("other-%d", n)}[w.rnd.IntN(2):] {
		v := tx.Volume("default", id)
		if v == nil || w.bug == BugSpecLocked && v.Provision.State != api.VolumeAvailable {
			continue
		}
		size := max(v.Provision.CapacityBytes, v.RequestedCapacityMin) + 1
		if w.bug == BugSpecLocked {
			_ = w.propose(fmt.Sprintf("expand %s to %d, whatever is done by another spec", id, size), func(tx *state.Txn) error {
				next := *tx.Volume("default", id)
				next.RequestedCapacityMin = size
				next.Provision.State, next.Provision.Intent = api.VolumeExpanding, tx.Index()
				tx.PutVolume(&next)
				return nil
			})
			return
		}
		_, _ = w.command(fmt.Sprintf("expand %s to %d", id, size), &commands.BeginExpand{
			Namespace: "default", ID: id, CapacityMinBytes: size, Seen: tx.Index(),
		})
		return
	}
}

// grow expands a volume as the state intends; the controller's host asks whether the intent is still the newest.
func (l *leader) grow(w *World, v *api.Volume, answer commands.Answer) {
	external, term, size := v.RemoteID(), l.term, max(v.RequestedCapacityMin, v.Provision.CapacityBytes)
	key := "expand " + external
	if l.inFlight[key] > 0 {
		return
	}
	l.inFlight[key]++
	w.send(fmt.Sprintf("call: expand %s to %d", external, size), func() {
		now := w.store.Read().Volume(v.Namespace, v.ID)
		newest := now != nil && now.Provision.State == api.VolumeExpanding && now.Provision.Intent == answer.Intent
		done := newest && !w.faulty(15)
		if done {
			w.driver.grow(w, external, size)
		}
		if term != l.term {
			return
		}
		l.inFlight[key]--
		if !done || w.faulty(20) {
			return
		}
		_, _ = w.command("expanded "+v.ID, &commands.EndExpand{Answer: answer, CapacityBytes: w.driver.sizes[external]})
	})
}

// grow asserts that a volume is expanded for one of its specs at a time, and that it does not shrink.
func (d *driver) grow(w *World, external string, size int64) {
	if specs := w.expanding(external); len(specs) != 1 {
		w.fail("%s is expanded for %q", external, specs)
	}
	w.tell("driver expands %s from %d to %d", external, d.sizes[external], size)
	if size < d.sizes[external] && !w.disowned[external] {
		w.fail("%s has %d and is asked to have %d", external, d.sizes[external], size)
	}
	d.sizes[external] = max(d.sizes[external], size)
	w.story.Grown++
}

// ungrown is a spec that does not know how large its volume is. One that was forgotten while it was expanded takes what it
// knew with it.
func (w *World) ungrown() string {
	for v := range w.store.Read().Volumes(api.AllNamespaces) {
		size, has := w.driver.sizes[v.RemoteID()], v.Provision.CapacityBytes
		if has != 0 && has != size && !w.disowned[v.RemoteID()] {
			return fmt.Sprintf("volume %s has %d, and its spec says %d", v.ID, size, has)
		}
	}
	return ""
}

// expanding lists the specs of an external volume that are being expanded.
func (w *World) expanding(external string) (specs []string) {
	for v := range w.store.Read().Volumes(api.AllNamespaces) {
		if v.RemoteID() == external && v.Provision.State == api.VolumeExpanding {
			specs = append(specs, v.ID)
		}
	}
	return specs
}
