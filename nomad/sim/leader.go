package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// leader plays the loop of the volumes room. What it knows is lost with its term.
type leader struct {
	term     int
	inFlight map[string]int
}

func (l *leader) depose(w *World) {
	w.tell("the leader is deposed")
	l.term++
	l.inFlight = map[string]int{}
}

func (l *leader) act(w *World) {
	l.giveUpNodes(w)
	l.provision(w)
	tx := w.store.Read()
	open := slices.DeleteFunc(slices.Collect(tx.Attachments()), func(a *api.VolumeAttachment) bool {
		return a.State == api.AttachmentPublished || l.inFlight[a.ExternalID] > 0 && w.bug != BugTwoCalls
	})
	if len(open) == 0 {
		return
	}
	l.call(w, open[w.rnd.IntN(len(open))])
}

// call starts a call to the driver for an attachment.
func (l *leader) call(w *World, a *api.VolumeAttachment) {
	i, publish, term, mode := ledger.IntentOf(a), a.State == api.AttachmentPublishing, l.term, a.AccessMode
	l.inFlight[i.ExternalID]++
	what := fmt.Sprintf("%s %s on %s by %d", a.State, i.ExternalID, i.NodeID, i.Fence)
	w.tell("leader calls: %s", what)
	if w.bug == BugAnswerWithoutCall && !publish {
		l.answer(w, what, i, publish, term, true)
		return
	}
	w.send("call: "+what, func() {
		seen := i.ExternalID + " " + i.NodeID
		if w.bug == BugTwoHosts {
			seen = fmt.Sprintf("%s at host %d", seen, w.rnd.IntN(2))
		}
		if w.driver.late[i.ExternalID] || i.Fence < w.driver.fences[seen] && w.bug != BugNoFence {
			l.answer(w, what, i, publish, term, false) // busy, or too old
			return
		}
		w.driver.fences[seen] = max(w.driver.fences[seen], i.Fence)
		effect := func() { w.driver.set(w, i.ExternalID, i.NodeID, mode, publish) }
		switch {
		case w.faulty(15): // fails before the effect
			l.answer(w, what, i, publish, term, false)
		case w.faulty(15): // the answer is lost
			effect()
			l.answer(w, what, i, publish, term, false)
		case w.faulty(15): // late success
			w.driver.late[i.ExternalID] = true
			w.send("late: "+what, func() { effect(); delete(w.driver.late, i.ExternalID) })
			l.answer(w, what, i, publish, term, false)
		default:
			effect()
			l.answer(w, what, i, publish, term, true)
		}
	})
}

// answer brings the driver's answer to the leader that asked. A deposed one cannot record it, unless
// the record was under way already; a record of unknown outcome is repeated.
func (l *leader) answer(w *World, what string, i ledger.Intent, publish bool, term int, ok bool) {
	record := func() {
		_ = w.propose("record "+what, func(tx *state.Txn) error { return w.record(tx, i, publish, ok) })
	}
	w.send(fmt.Sprintf("answer %v: %s", ok, what), func() {
		switch {
		case term == l.term:
			l.inFlight[i.ExternalID]--
		case w.faulty(50):
			w.tell("the record of a deposed leader was under way already")
		default:
			return
		}
		record()
		if w.faulty(15) {
			w.send("again: record "+what, record)
		}
	})
}

func (w *World) record(tx *state.Txn, i ledger.Intent, publish, ok bool) error {
	if a := tx.Attachment(i.PluginID, i.ExternalID, i.NodeID); a != nil && w.bug == BugStaleAnswer {
		i.Fence = a.Fence
	}
	switch {
	case !ok:
		return ledger.CallFailed(tx, i, "the driver failed", 0, 1)
	case publish:
		return w.rules.PublishDone(tx, i, nil)
	}
	return w.rules.UnpublishDone(tx, i)
}

// giveUpNodes releases the claims of nodes that are down for long enough.
func (l *leader) giveUpNodes(w *World) {
	tx := w.store.Read()
	for _, c := range slices.Collect(tx.Claims()) {
		n := tx.Node(c.NodeID)
		if c.State != api.ClaimReleasing || n.Status != api.NodeStatusDown {
			continue
		}
		wait := fenceAfter
		if !c.Attach {
			wait = lease
		}
		if !c.Attach && !claim.Exclusive(c.AccessMode, c.Mode) {
			wait = 0
		}
		if w.bug == BugNoLease && !c.Attach {
			wait = 0
		}
		if w.now.Before(time.Unix(n.StatusUpdatedAt, 0).Add(wait)) {
			continue
		}
		what := fmt.Sprintf("give up %s of %s on %s", c.VolumeID, c.AllocID, c.NodeID)
		err := w.propose(what, func(tx *state.Txn) error {
			if tx.Node(c.NodeID).Status != api.NodeStatusDown {
				return fmt.Errorf("node %s has come back", c.NodeID)
			}
			if err := w.rules.Evict(tx, ledger.HoldOf(c), ledger.ProofFenced, ledger.ByLease); err != nil {
				return err
			}
			if w.bug == BugAssumedDetach {
				tx.DeleteAttachment(c.PluginID, c.ExternalID, c.NodeID)
				return w.rules.NodeChanged(tx, c.NodeID)
			}
			return nil
		})
		if err == nil {
			w.outcast[mountKey(ledger.HoldOf(c))] = true
		}
	}
}

// provision makes and deletes volumes as the state intends.
func (l *leader) provision(w *World) {
	for _, v := range slices.Collect(w.store.Read().Volumes(api.AllNamespaces)) {
		answer := commands.Answer{Namespace: v.Namespace, ID: v.ID, Intent: v.Provision.Intent}
		half := v.Provision.ExternalID == "" && v.ExternalID == ""
		switch v.Provision.State {
		case api.VolumeCreating, api.VolumeDeleting:
		default:
			continue
		}
		if w.faulty(20) {
			continue // the driver does not answer
		}
		if !half {
			l.remove(w, v, answer)
			continue
		}
		w.driver.volumes[v.Name] = true
		if w.faulty(20) {
			w.tell("the answer for %s is lost", v.ID)
			continue
		}
		_, _ = w.command("made "+v.ID, &commands.Provisioned{Answer: answer, ExternalID: "x-" + v.Name})
	}
}

// remove deletes a volume as the state intends: what uses it is looked at once more in the entry before the call,
// and the controller's host asks whether the intent is still the newest.
func (l *leader) remove(w *World, v *api.Volume, answer commands.Answer) {
	external, term := v.RemoteID(), l.term
	key := "delete " + external
	if l.inFlight[key] > 0 {
		return
	}
	if w.bug != BugSpecLocked {
		res, err := w.command("confirm the deletion of "+v.ID, &commands.ConfirmDelete{Namespace: v.Namespace, ID: v.ID, Intent: answer.Intent})
		c, ok := res.Value.(commands.Confirmation)
		if err != nil || !ok || c.Reason != "" {
			return
		}
		answer.Intent = c.Intent
	}
	l.inFlight[key]++
	w.send("call: delete "+external, func() {
		if now := w.store.Read().Volume(v.Namespace, v.ID); w.bug != BugSpecLocked && (now == nil || now.Provision.State != api.VolumeDeleting || now.Provision.Intent != answer.Intent) {
			w.tell("the intent to delete %s is not the newest", external)
		} else if !w.faulty(15) {
			w.mayDelete(external)
			w.tell("driver deletes %s", external)
			delete(w.driver.volumes, strings.TrimPrefix(external, "x-"))
		}
		if term != l.term {
			return
		}
		l.inFlight[key]--
		if w.driver.volumes[strings.TrimPrefix(external, "x-")] || w.faulty(20) {
			return
		}
		_, _ = w.command("deleted "+v.ID, &commands.EndDelete{Answer: answer})
	})
}

// mayDelete asserts that nobody uses what is deleted, by any of its specs.
func (w *World) mayDelete(external string) {
	w.eachMount(func(n *node, _ string, m mount) {
		if m.external == external && w.driver.has(external, n.id) {
			w.fail("%s is deleted under the mount of %s on %s", external, m.alloc, n.id)
		}
	})
	for c := range w.store.Read().Claims() {
		if c.ExternalID == external {
			w.fail("%s is deleted under the claim of %s on %s, %s", external, c.AllocID, c.VolumeID, c.State)
		}
	}
}
