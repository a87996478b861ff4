package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api/fault"
)

// effect is when a call has its effect.
type effect uint8

const (
	never effect = iota
	now
	later
)

// answers are those that a driver may give to a call that goes wrong, with every verdict that there is. One that does
// not leave the effect open comes without it.
var answers = []struct {
	verdict fault.Verdict
	effect  effect
	undo    bool // of a detach only
	make    bool // of an attach only
}{
	{verdict: fault.VerdictRetry},
	{verdict: fault.VerdictRetry, effect: now},
	{verdict: fault.VerdictRetry, effect: later},
	{verdict: fault.VerdictRetrySoon},
	{verdict: fault.VerdictRetrySoon, effect: now},
	{verdict: fault.VerdictUncertain, make: true},
	{verdict: fault.VerdictUncertain, make: true, effect: now},
	{verdict: fault.VerdictUncertain, make: true, effect: later},
	{verdict: fault.VerdictFinal, make: true},
	{verdict: fault.VerdictLimit, make: true},
	{verdict: fault.VerdictChanged},
	{verdict: fault.VerdictVerify, undo: true},
	{verdict: fault.VerdictVerify, undo: true, effect: now},
}

// late reports whether a call is kept from the driver: it is busy, or the call's intent is not the newest. Each host
// remembers what it saw, and asks the servers.
func (w *World) late(c *asked) bool {
	at := w.rnd.IntN(len(w.driver.hosts))
	if w.bug == BugForgetful {
		at = 0
	}
	host, key := w.driver.hosts[at], c.ExternalID+" "+c.NodeID
	if w.driver.late[c.ExternalID] {
		return true
	}
	if w.bug == BugNoFence {
		return false
	}
	if c.Fence < host[key] {
		w.tell("host %d has seen a newer intent", at)
		return true
	}
	host[key] = c.Fence
	tx := w.store.Read()
	a := cmp.Or(tx.Attachment(c.PluginID, c.ExternalID, c.NodeID), tx.WrittenOffTo(c.PluginID, c.ExternalID, c.NodeID))
	if asks := w.bug != BugTwoHosts && w.bug != BugForgetful; asks && (a == nil || a.Fence != c.Fence) {
		w.tell("the servers know a newer intent")
		return true
	}
	return false
}

// restart restarts a host of the controller: what it saw is on its disk.
func (w *World) restart() {
	at := w.rnd.IntN(len(w.driver.hosts))
	w.tell("host %d of the controller restarts", at)
	if w.bug == BugForgetful {
		clear(w.driver.hosts[0])
	}
}

// play is what the driver does, and says of it; empty when all is well.
func (w *World) play(c *asked) fault.Verdict {
	d := w.driver
	effect := func() { d.set(w, c.ExternalID, c.NodeID, c.as, c.publish) }
	if want := w.secrets[c.ExternalID]; want != "" && !slices.ContainsFunc(c.secrets, func(s map[string]string) bool { return s["key"] == want }) {
		w.tell("driver refuses the secrets for %s", c.ExternalID)
		return refused(c)
	}
	if pair := c.ExternalID + " " + c.NodeID; !c.publish && (d.stuck[pair] || !w.cutOff(c.NodeID).IsZero() && w.faulty(8)) {
		d.stuck[pair] = true
		w.tell("driver cannot detach %s from %s", c.ExternalID, c.NodeID)
		return refused(c)
	}
	if !w.faulty(40) {
		effect()
		return ""
	}
	a := answers[w.rnd.IntN(len(answers))]
	for a.undo && c.publish || a.make && !c.publish {
		a = answers[w.rnd.IntN(len(answers))]
	}
	switch a.effect {
	case now:
		effect()
	case later:
		d.late[c.ExternalID] = true
		w.send("late: "+c.what, func() { effect(); delete(d.late, c.ExternalID) })
	}
	return a.verdict
}

// refused is the verdict on what the driver never does: a detach is repeated all the same.
func refused(c *asked) fault.Verdict {
	if c.publish {
		return fault.VerdictFinal
	}
	return fault.VerdictRetry
}

// rotate makes the storage want another secret for a volume; its user says so to each spec some time later, first
// with a typing error now and then.
func (w *World) rotate() {
	external := []string{"x-attach-0", "x-attach-1", "x-made-0", "x-made-1"}[w.rnd.IntN(4)]
	w.next++
	w.secrets[external] = fmt.Sprintf("secret %d", w.next)
	w.tell("the storage wants another secret for %s", external)
	if w.faulty(30) {
		w.send("a wrong secret for "+external, func() { w.renew(external, "wrong", 50) })
	}
	w.send("the secret for "+external, func() { w.renew(external, w.secrets[external], 70) })
}
