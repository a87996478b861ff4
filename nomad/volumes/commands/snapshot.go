package commands

import (
	"maps"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Kind implements [fsm.Command].
func (*IntendSnapshot) Kind() fsm.Kind { return fsm.KindSnapshotIntent }

// Kind implements [fsm.Command].
func (*SnapshotAnswer) Kind() fsm.Kind { return fsm.KindSnapshotAnswer }

// Kind implements [fsm.Command].
func (*GiveUpSnapshot) Kind() fsm.Kind { return fsm.KindSnapshotGiveUp }

// Apply writes the intent, or joins the same one. Nothing is cut from a volume that is being deleted.
func (c *IntendSnapshot) Apply(tx *state.Txn) (any, error) {
	if c.Intent.Delete {
		if err := ledger.NotCopied(tx, c.Intent.PluginID, "snapshot", c.Intent.Name, func(s *api.VolumeSpec) string { return s.SnapshotID }); err != nil {
			return nil, err
		}
		return c.remove(tx)
	}
	if err := ledger.Gather(tx, c.Intent.PluginID, c.Intent.ExternalID).Deleting(); err != nil {
		return nil, err
	}
	old := tx.SnapshotIntent(c.Intent.PluginID, c.Intent.Name, false)
	switch {
	case old == nil:
		driver, err := ledger.Driver(tx, c.Intent.PluginID)
		if err != nil {
			return nil, err
		}
		next := *c.Intent
		next.Since, next.Provider = tx.Now().UnixNano(), driver
		tx.PutSnapshotIntent(&next)
		return tx.Index(), nil
	case old.Unwanted && old.ExternalID == c.Intent.ExternalID:
		// Wanted again, as something new to wait for.
		next := *c.Intent
		next.Uncertain, next.Since, next.Provider = old.Uncertain, old.Since, old.Provider
		tx.DeleteSnapshotIntent(old.PluginID, old.Name, old.Delete)
		tx.PutSnapshotIntent(&next)
		return tx.Index(), nil
	case old.ExternalID != c.Intent.ExternalID:
		return nil, fault.New(fault.Conflict, "snapshot %q of volume %q is being made under the same name", old.Name, old.VolumeID)
	case !maps.Equal(old.Parameters, c.Intent.Parameters):
		return nil, fault.New(fault.Conflict, "snapshot %q of volume %q is being made with other parameters", old.Name, old.VolumeID)
	}
	return old.Operation(), nil
}

// remove intends a deletion. If the leader had intended it already, it becomes the user's, who gets the driver's
// refusal; other secrets count from the next call on.
func (c *IntendSnapshot) remove(tx *state.Txn) (any, error) {
	next := *c.Intent
	driver, err := ledger.Driver(tx, next.PluginID)
	next.Provider = driver
	switch old := tx.SnapshotIntent(next.PluginID, next.Name, true); {
	case old == nil && err != nil:
		return nil, err
	case old != nil:
		next = *old
		next.Unwanted, next.Forgotten = false, false
		if len(c.Intent.Secrets) > 0 {
			next.Secrets = c.Intent.Secrets
		}
	}
	if made := Following(tx, next.PluginID, next.Name); made != nil {
		unwanted := *made
		unwanted.Unwanted, next.CutAs, next.Provider = true, made.Name, made.Provider
		tx.PutSnapshotIntent(&unwanted)
	}
	tx.PutSnapshotIntent(&next)
	return tx.SnapshotIntent(next.PluginID, next.Name, true).Operation(), nil
}

// Apply returns the intents that are forgotten, or the one that continues until what it made is found.
func (c *GiveUpSnapshot) Apply(tx *state.Txn) (any, error) {
	switch {
	case c.Made != nil:
		return nil, c.undo(tx)
	case c.Forget:
		return c.forget(tx)
	}
	made := tx.SnapshotIntent(c.PluginID, c.Name, false)
	if made == nil || made.SnapshotID != "" || made.CreateIndex > c.Seen {
		return nil, fault.New(fault.Conflict, "snapshot %q is no longer being made: retry to delete the snapshot with that id", c.Name)
	}
	next := *made
	next.Unwanted = true
	if len(c.Secrets) > 0 {
		next.Secrets = c.Secrets
	}
	tx.PutSnapshotIntent(&next)
	return []*api.SnapshotIntent{tx.SnapshotIntent(c.PluginID, c.Name, false)}, nil
}

func (c *GiveUpSnapshot) forget(tx *state.Txn) (any, error) {
	var gone []*api.SnapshotIntent
	for i := range tx.SnapshotIntents() {
		if i.PluginID == c.PluginID && i.CreateIndex <= c.Seen && (i.Name == c.Name || i.SnapshotID == c.Name || i.CutAs == c.Name) {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return nil, fault.New(fault.NotFound, "nothing is under way with a snapshot %q of plugin %q", c.Name, c.PluginID)
	}
	for _, i := range gone {
		leave(tx, i)
	}
	return gone, nil
}

// leave forgets an intent. A deletion continues without a caller that waits for it: a call may be under way, and what
// it deletes must not be used. It ends with the driver's reply, or by another override once it has failed again.
func leave(tx *state.Txn, i *api.SnapshotIntent) {
	if i.Forgotten && i.LastError == "" {
		return
	}
	tx.DeleteSnapshotIntent(i.PluginID, i.Name, i.Delete)
	if i.Delete && !i.Forgotten {
		next := *i
		next.Forgotten, next.Unwanted, next.Began, next.LastError = true, true, 0, ""
		tx.PutSnapshotIntent(&next)
	}
}

// undo intends to delete what was cut after it had been forgotten. Where it was requested again in the meantime, or is being
// deleted, that sees to it.
func (c *GiveUpSnapshot) undo(tx *state.Txn) error {
	next := *c.Made
	if tx.SnapshotIntent(next.PluginID, next.CutAs, false) != nil || tx.SnapshotIntent(next.PluginID, next.Name, true) != nil {
		return fault.New(fault.Conflict, "snapshot %q was requested again", next.CutAs)
	}
	next.Delete, next.Unwanted, next.SnapshotID = true, true, ""
	tx.PutSnapshotIntent(&next)
	return nil
}

// Following is the intent to make a snapshot that was cut, has this id and is not ready yet; nil when there is none.
func Following(tx *state.Txn, plugin, id string) *api.SnapshotIntent {
	for i := range tx.SnapshotIntents() {
		if !i.Delete && i.PluginID == plugin && i.SnapshotID == id {
			return i
		}
	}
	return nil
}

// SnapshotAnswerable refuses a snapshot as the result of an intent when it is being deleted: its driver knows it by
// the same name, and creates a new one once it is deleted. A snapshot that was cut for the intent is its result until
// it is ready.
func SnapshotAnswerable(tx *state.Txn, i *api.SnapshotIntent, id string) error {
	if i.SnapshotID == id || tx.SnapshotIntent(i.PluginID, id, true) == nil {
		return nil
	}
	return fault.New(fault.Conflict, "snapshot %q is being deleted", id)
}

// Leaving is the intent to delete what was cut under a name; nil when there is none that a caller waits for.
func Leaving(tx *state.Txn, plugin, name string) *api.SnapshotIntent {
	for i := range tx.SnapshotIntents() {
		if i.Delete && !i.Forgotten && i.PluginID == plugin && i.CutAs == name {
			return i
		}
	}
	return nil
}

// Apply ends the intent, or notes why it is tried again.
func (c *SnapshotAnswer) Apply(tx *state.Txn) (any, error) {
	tx.NoteCall(time.Duration(c.Took), c.Reason)
	old := tx.SnapshotIntent(c.PluginID, c.Name, c.Delete)
	if old == nil || old.Operation() != c.Intent {
		return nil, fault.New(fault.Conflict, "snapshot %q: intent %d has ended", c.Name, c.Intent)
	}
	if c.Made && old.Unwanted && old.SnapshotID == "" { // it is asked for once more, to be deleted
		return nil, fault.New(fault.Conflict, "snapshot %q was cancelled in the meantime", c.Name)
	}
	if !c.Ended {
		next := *old
		next.LastError, next.Uncertain, next.Unwanted = c.Reason, c.Uncertain, old.Unwanted || c.Unwanted
		if c.SnapshotID != "" {
			next.SnapshotID = c.SnapshotID
		}
		tx.PutSnapshotIntent(&next)
		return nil, nil
	}
	tx.DeleteSnapshotIntent(c.PluginID, c.Name, c.Delete)
	if c.SnapshotID != "" && tx.SnapshotIntent(c.PluginID, c.SnapshotID, true) == nil {
		tx.PutSnapshotIntent(&api.SnapshotIntent{
			PluginID: c.PluginID, Name: c.SnapshotID, Delete: true, Unwanted: true, CutAs: old.Name, Namespace: old.Namespace,
			VolumeID: old.VolumeID, ExternalID: old.ExternalID, Secrets: old.Secrets, Provider: old.Provider,
		})
	}
	return nil, nil
}
