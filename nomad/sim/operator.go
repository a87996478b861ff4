package sim

import (
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// renew registers the specs of a volume with a secret, each of them with the given probability.
func (w *World) renew(external, secret string, percent int) {
	for v := range w.store.Read().VolumesByExternal("attach", external) {
		if v.Secrets["key"] == secret || w.rnd.IntN(100) >= percent {
			continue
		}
		next := v.VolumeSpec
		next.ExternalID, next.Secrets = external, map[string]string{"key": secret}
		_, _ = w.command("register "+v.ID+" with another secret", &commands.Register{Specs: []*api.VolumeSpec{&next}})
	}
}

// freeze puts the secrets of the first call of an attachment into the later ones.
func (w *World) freeze(c *asked) {
	if w.bug != BugFrozenSecrets {
		return
	}
	key := c.ExternalID + " " + c.NodeID
	if c.publish {
		w.frozen[key] = c.secrets[0]["key"]
		return
	}
	c.secrets = []map[string]string{{"key": w.frozen[key]}}
}

// hopeless reports whether only an operator can end an attachment: the storage does not let go, or the volume's last
// spec went with a secret that is not valid any more.
func (w *World) hopeless(a *api.VolumeAttachment) bool {
	if w.driver.stuck[a.ExternalID+" "+a.NodeID] {
		return true
	}
	for range w.store.Read().VolumesByExternal(a.PluginID, a.ExternalID) {
		return false
	}
	return w.secrets[a.ExternalID] != "" && a.Secrets["key"] != w.secrets[a.ExternalID]
}

// operate lets an operator end what does not end by itself: an attachment that the storage keeps, or one of a node
// that is down. He cuts it off with the storage's own means first.
func (w *World) operate(all bool) {
	for a := range w.store.Read().Attachments() {
		lost := w.store.Read().Node(a.NodeID).Status == api.NodeStatusDown
		if w.driver.late[a.ExternalID] || a.State != api.AttachmentUnpublishing && !lost || !w.hopeless(a) && (all || !lost) {
			continue
		}
		w.writeOff(a)
		if !all {
			return
		}
	}
	for a := range w.store.Read().WrittenOff() {
		if a.LastError != "" && w.hopeless(a) {
			w.writeOffAgain(a)
		}
	}
}

// writeOffAgain ends what was written off and its driver fails to detach.
func (w *World) writeOffAgain(a *api.VolumeAttachment) {
	delete(w.driver.stuck, a.ExternalID+" "+a.NodeID)
	w.must("the operator forgets that "+a.ExternalID+" on "+a.NodeID+" was written off", func(tx *state.Txn) error {
		return ledger.WriteOff(tx, ledger.Assertion{PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, By: "ann", Reason: "shut off"})
	})
	if w.store.Read().WrittenOffTo(a.PluginID, a.ExternalID, a.NodeID) != nil {
		w.fail("%s on %s is still there after it was written off twice", a.ExternalID, a.NodeID)
	}
}

func (w *World) writeOff(a *api.VolumeAttachment) {
	delete(w.driver.stuck, a.ExternalID+" "+a.NodeID)
	w.eachMount(func(n *node, k string, m mount) {
		if n.id == a.NodeID && m.plugin == a.PluginID && m.external == a.ExternalID {
			w.outcast[k] = true
		}
	})
	if w.driver.has(a.ExternalID, a.NodeID) {
		w.tell("the operator detaches %s from %s at the storage", a.ExternalID, a.NodeID)
		delete(w.driver.attached[a.ExternalID], a.NodeID)
	}
	was := w.store.Read()
	held := slices.DeleteFunc(ledger.Gather(was, a.PluginID, a.ExternalID).Claims, func(c *api.VolumeClaim) bool {
		return c.State == api.ClaimWaiting || c.NodeID != a.NodeID
	})
	err := w.propose("the operator writes "+a.ExternalID+" on "+a.NodeID+" off", func(tx *state.Txn) error {
		by := ledger.Assertion{PluginID: a.PluginID, ExternalID: a.ExternalID, NodeID: a.NodeID, By: "ann", Reason: "shut off"}
		if w.bug != BugBound {
			return ledger.WriteOff(tx, by)
		}
		for _, c := range held {
			if c.State == api.ClaimReleasing {
				if err := w.rules.Evict(tx, ledger.HoldOf(c), ledger.ProofAssumed, ledger.ByOperator); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		w.fail("the operator cannot write %s on %s off: %v", a.ExternalID, a.NodeID, err)
		return
	}
	tx := w.store.Read()
	if tx.WrittenOffTo(a.PluginID, a.ExternalID, a.NodeID) != nil {
		w.tell("the driver is asked to detach %s from %s all the same", a.ExternalID, a.NodeID)
	}
	if next := tx.Attachment(a.PluginID, a.ExternalID, a.NodeID); next != nil && next.CreateIndex == a.CreateIndex {
		w.fail("%s is still %s to %s after it was written off", a.ExternalID, next.State, a.NodeID)
	}
	for _, c := range held {
		if now := tx.Claim(c.Namespace, c.VolumeID, c.AllocID, c.Use); (now != nil) != ledger.Begins(was, c) {
			w.fail("the claim of %s on %s was %s, and is %+v after it was written off", c.AllocID, c.VolumeID, c.State, now)
		}
	}
}

// resolveFaults does in the end what users and operators do about what went wrong.
func (w *World) resolveFaults() {
	for external, secret := range w.secrets {
		w.renew(external, secret, 100)
	}
	w.operate(true)
}

// cutOff is since when a node reaches no server.
func (w *World) cutOff(id string) time.Time {
	for _, n := range w.nodes {
		if n.id == id {
			return n.cut
		}
	}
	return time.Time{}
}
