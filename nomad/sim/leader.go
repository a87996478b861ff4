package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// leader plays the loop of the reconciler. What it knows is lost with its term.
type leader struct {
	term     int
	inFlight map[string]int
	// tries counts how often an intent failed with a verdict; refused are attachments that a publish was refused for.
	tries   map[string]int
	refused map[string]bool
}

func newLeader(term int) *leader {
	return &leader{term: term, inFlight: map[string]int{}, tries: map[string]int{}, refused: map[string]bool{}}
}

func (l *leader) depose(w *World) {
	w.tell("the leader is deposed")
	*l = *newLeader(l.term + 1)
}

func (l *leader) act(w *World) {
	l.giveUpNodes(w)
	l.provision(w)
	if w.rnd.IntN(8) == 0 {
		w.must("limits expire", func(tx *state.Txn) error { ledger.ExpireLimits(tx); return nil })
	}
	tx := w.store.Read()
	open := slices.DeleteFunc(slices.AppendSeq(slices.Collect(tx.Attachments()), tx.WrittenOff()), func(a *api.VolumeAttachment) bool {
		return a.State == api.AttachmentPublished || a.Refused != 0 || l.inFlight[a.ExternalID] > 0 && w.bug != BugTwoCalls
	})
	if len(open) == 0 {
		return
	}
	l.call(w, open[w.rnd.IntN(len(open))])
}

// asked is a call of a leader to the driver for an attachment.
type asked struct {
	ledger.Intent
	what    string
	publish bool
	as      api.VolumeCapability
	secrets []map[string]string
	term    int
}

// call starts a call to the driver for an attachment.
func (l *leader) call(w *World, a *api.VolumeAttachment) {
	c := &asked{
		Intent: ledger.IntentOf(a), publish: a.State == api.AttachmentPublishing, term: l.term,
		as: api.VolumeCapability{AccessMode: a.AccessMode, AttachmentMode: a.AttachmentMode}, secrets: ledger.Secrets(w.store.Read(), a),
	}
	c.what = fmt.Sprintf("%s %s on %s by %d", a.State, c.ExternalID, c.NodeID, c.Fence)
	w.freeze(c)
	l.inFlight[c.ExternalID]++
	w.tell("leader calls: %s", c.what)
	switch {
	case w.bug == BugAnswerWithoutCall && !c.publish, w.bug == BugNotUndone && !c.publish && l.refused[c.ExternalID+" "+c.NodeID]:
		l.answer(w, c, "")
		return
	}
	w.send("call: "+c.what, func() {
		if w.late(c) {
			l.answer(w, c, fault.VerdictRetry)
			return
		}
		l.answer(w, c, w.play(c))
	})
}

// answer brings the driver's answer to the leader that asked. A deposed one cannot record it, unless
// the record was under way already; a record of unknown outcome is repeated.
func (l *leader) answer(w *World, c *asked, v fault.Verdict) {
	w.send(fmt.Sprintf("answer %q: %s", v, c.what), func() {
		switch {
		case c.term == l.term:
			l.inFlight[c.ExternalID]--
		case w.faulty(50):
			w.tell("the record of a deposed leader was under way already")
		default:
			return
		}
		v := l.judge(w, c, v)
		record := func() {
			_ = w.propose(fmt.Sprintf("record %q of %s", v, c.what), func(tx *state.Txn) error { return w.record(tx, c, v) })
		}
		record()
		if w.faulty(15) {
			w.send("again: record "+c.what, record)
		}
	})
}

// few is how often a call is repeated that has no point after some tries.
const few = 3

// judge is what becomes of an answer: what undoes something is repeated until it is proven, what makes something
// ends when its repetition has no point.
func (l *leader) judge(w *World, c *asked, v fault.Verdict) fault.Verdict {
	if !c.publish {
		if v == fault.VerdictVerify && (w.bug == BugNotFound || !w.driver.has(c.ExternalID, c.NodeID) && !w.driver.late[c.ExternalID]) {
			return ""
		}
		return v
	}
	key := fmt.Sprintf("%s %s", c.what, v)
	l.tries[key]++
	switch v {
	case fault.VerdictUncertain, fault.VerdictLimit:
		if l.tries[key] < few {
			return v
		}
		v = fault.VerdictFinal
	}
	if v == fault.VerdictFinal {
		l.refused[c.ExternalID+" "+c.NodeID] = true
	}
	return v
}

func (w *World) record(tx *state.Txn, c *asked, v fault.Verdict) error {
	i := c.Intent
	if a := tx.Attachment(i.PluginID, i.ExternalID, i.NodeID); a != nil && w.bug == BugStaleAnswer {
		i.Fence = a.Fence
	}
	if v == fault.VerdictLimit && c.publish {
		ledger.LearnLimit(tx, i.PluginID, i.ExternalID, i.NodeID, w.now.Add(ledger.LimitExpiry).UnixNano())
	}
	switch {
	case v == fault.VerdictFinal && c.publish:
		return ledger.PublishRefused(tx, i, "the driver refused", uint8(fault.Conflict), few)
	case v != "":
		return ledger.CallFailed(tx, i, "the driver failed", 0, 1)
	case c.publish:
		ledger.LiftLimit(tx, i.PluginID, i.NodeID)
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
		if !c.Attach && c.Lease == 0 {
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
			if w.bug == BugUnasked && c.Attach {
				return ledger.WriteOff(tx, ledger.Assertion{PluginID: c.PluginID, ExternalID: c.ExternalID, NodeID: c.NodeID})
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

// provision makes, expands and deletes volumes as the state intends.
func (l *leader) provision(w *World) {
	for _, v := range slices.Collect(w.store.Read().Volumes(api.AllNamespaces)) {
		answer := commands.Answer{Namespace: v.Namespace, ID: v.ID, Intent: v.Provision.Intent}
		half := v.Provision.ExternalID == "" && v.ExternalID == ""
		switch v.Provision.State {
		case api.VolumeCreating, api.VolumeDeleting:
		case api.VolumeExpanding:
			l.grow(w, v, answer)
			continue
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
			delete(w.driver.sizes, external)
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
	if specs := w.expanding(external); len(specs) > 0 {
		w.fail("%s is deleted while it is expanded for %q", external, specs)
	}
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
