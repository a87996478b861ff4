package commands

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Apply forgets the volume. Claims of ended allocations stay until they are released.
func (c *Deregister) Apply(tx *state.Txn) (any, error) {
	v := tx.Volume(c.Namespace, c.ID)
	if v == nil {
		return nil, Missing(c.Namespace, c.ID)
	}
	if later(c.Seen, v.CreateIndex) {
		return nil, changed(c.ID)
	}
	held := ledger.ClaimsOf(tx, v)
	live := slices.DeleteFunc(slices.Clone(held), func(h *api.VolumeClaim) bool {
		a := tx.Alloc(h.AllocID)
		return a == nil || a.Terminal()
	})
	switch {
	case c.Force && len(live) > 0:
		return nil, fault.New(fault.Conflict, "volume in use: %q is held by %s", c.ID, ledger.Holders(tx, c.Namespace, live))
	case !c.Force && len(held) > 0:
		return nil, fault.New(fault.Conflict, "volume in use: %q is held by %s", c.ID, ledger.Holders(tx, c.Namespace, held))
	}
	if err := c.ends(tx, v); err != nil {
		return nil, err
	}
	if err := ledger.Reconcile(tx, held); err != nil {
		return nil, err
	}
	ledger.Orphan(tx, v)
	ledger.LeavePolicy(tx, v)
	remove(tx, v)
	if v.Provision.ExternalID == "" {
		return nil, nil
	}
	return nil, ledger.Reconcile(tx, ledger.ExternalOf(tx, v).Claims) // some may have waited for the end of its expansion
}

// ends refuses to forget a volume for which a call to the driver may be under way. With force it is forgotten when its
// driver has not done it so far, once no controller is left that could make the call, and when a failed creation is
// abandoned.
func (c *Deregister) ends(tx *state.Txn, v *api.Volume) error {
	reason := unfinished(v)
	if err := ledger.ExternalOf(tx, v).Deleting(); err != nil && reason == "" {
		reason = err.Error()
	}
	expands := v.Provision.State == api.VolumeExpanding
	switch {
	case reason == "" && !expands, c.Force && (v.Provision.State == api.VolumeFailed || expands):
		return nil
	case expands:
		return fault.New(fault.Conflict, "volume %q is being expanded: retry when that has ended; `%s` forgets it", c.ID, commandtext.Forget(c.Namespace, c.ID))
	case !c.Force:
		return fault.New(fault.Conflict, "%s", reason)
	}
	if where := controllers(tx, v.PluginID); where != "" && v.Provision.LastError == "" {
		return fault.New(fault.Conflict, "%s: -force forgets it once its driver has failed at it, or plugin %q has no controller left, and %s", reason, v.PluginID, where)
	}
	return nil
}

// Apply marks the volume as deleting, so that it can no longer be claimed, and returns the operation to wait for; 0
// when there was nothing to delete.
func (c *BeginDelete) Apply(tx *state.Txn) (any, error) {
	old := tx.Volume(c.Namespace, c.ID)
	if old == nil {
		return nil, Missing(c.Namespace, c.ID)
	}
	v := *old
	p := &v.Provision
	switch {
	case p.State == api.VolumeDeleting:
		return c.again(tx, &v), nil
	case later(c.Seen, old.CreateIndex, p.Intent, p.Began):
		return nil, changed(c.ID)
	case p.State == api.VolumeFailed && !mayExist(old):
		remove(tx, old)
		return uint64(0), nil
	case p.ExternalID != "":
		if err := ledger.MayDelete(tx, old); err != nil {
			return nil, err
		}
		p.Intent, p.Uncertain = tx.Index(), false
	case p.State == api.VolumeFailed:
		p.Intent = tx.Index()
	}
	// A creation that is under way keeps its intent, so that its reply still counts.
	p.State, p.Began, p.LastError, p.IntentSecrets = api.VolumeDeleting, tx.Index(), "", c.Secrets
	put(tx, &v)
	return p.Operation(), nil
}

// later reports whether one of the indexes is later than the state that was seen, where that is known.
func later(seen uint64, indexes ...uint64) bool { return seen != 0 && slices.Max(indexes) > seen }

func changed(id string) error {
	return fault.New(fault.Conflict, "volume %q changed in the meantime: check it and retry", id)
}

// again joins the running deletion. Other secrets count from the next call on.
func (c *BeginDelete) again(tx *state.Txn, v *api.Volume) uint64 {
	p := &v.Provision
	if len(c.Secrets) == 0 || maps.Equal(c.Secrets, p.IntentSecrets) {
		return p.Operation()
	}
	p.Began, p.IntentSecrets = p.Operation(), c.Secrets
	if p.ExternalID != "" {
		p.Intent = tx.Index()
	}
	put(tx, v)
	return p.Operation()
}

// Confirmation is what [ConfirmDelete] returns: the intent for the call and its reply, or why the deletion is
// cancelled.
type Confirmation struct {
	Intent uint64
	Reason string
}

// Apply confirms that what is about to be deleted is not in use. The index of the entry is the intent of the call from
// then on: replies to earlier calls are refused.
func (c *ConfirmDelete) Apply(tx *state.Txn) (any, error) {
	v, err := Answer{Namespace: c.Namespace, ID: c.ID, Intent: c.Intent}.answered(tx, api.VolumeCreating, api.VolumeDeleting)
	if err != nil {
		return nil, err
	}
	p, old := &v.Provision, tx.Volume(c.Namespace, c.ID)
	p.LastError, p.Uncertain = old.Provision.LastError, old.Provision.Uncertain
	target := Doomed(v)
	if target == nil {
		return nil, fault.New(fault.Conflict, "volume %q: the driver's id of what is to be deleted is not known yet", c.ID)
	}
	err = ledger.MayDelete(tx, target)
	switch {
	case errors.Is(err, fault.Unavailable):
		return nil, err
	case err == nil:
		p.Intent = tx.Index()
		put(tx, v)
		return Confirmation{Intent: p.Intent}, nil
	}
	if p.Replaces != nil {
		undone(tx, v, c.Kept)
	} else {
		p.State, p.LastError, p.IntentSecrets = api.VolumeAvailable, c.Kept, nil
		put(tx, v)
	}
	return Confirmation{Reason: err.Error()}, nil
}

// Kept returns why a volume, or what an earlier creation of it made, is not deleted.
func Kept(v *api.Volume, err error) string {
	if target := Doomed(v); v.Provision.Replaces != nil && target != nil {
		return fmt.Sprintf("%s, made by an earlier creation, is kept: %v", target.RemoteID(), err)
	}
	return fmt.Sprintf("not deleted: %v", err)
}

// Undeleted returns why the driver did not delete what an earlier creation made.
func Undeleted(v *api.Volume, reason string) string {
	return fmt.Sprintf("what an earlier creation made (%s) could not be deleted: %s", v.Provision.Replaces.ExternalID, reason)
}

// Doomed is the volume that is to be deleted next for a row that is being deleted, or created in the place of an
// earlier creation; nil while its driver's id is not known.
func Doomed(v *api.Volume) *api.Volume {
	target := *v
	if r := v.Provision.Replaces; r != nil {
		target.VolumeSpec = *r
		target.ID, target.Namespace = v.ID, v.Namespace
		target.Provision = api.VolumeProvision{State: v.Provision.State, ExternalID: r.ExternalID, Provider: v.Provision.Provider, Intent: v.Provision.Intent, IntentSecrets: v.CallSecrets()}
	}
	if target.Provision.ExternalID == "" {
		return nil
	}
	return &target
}

// Apply forgets the deleted volume, or gives it back when the driver refused.
func (c *EndDelete) Apply(tx *state.Txn) (any, error) {
	tx.NoteCall(time.Duration(c.Answer.Took), c.Answer.Reason)
	v, err := c.Answer.answered(tx, api.VolumeCreating, api.VolumeDeleting)
	if err != nil {
		return nil, err
	}
	gone, kept, p := c.Answer.Reason == "", c.Answer.Final, &v.Provision
	switch {
	case gone && p.Replaces != nil:
		undone(tx, v, "")
		return nil, nil
	case gone && p.State == api.VolumeDeleting:
		ledger.Orphan(tx, v)
		remove(tx, v)
		return nil, nil
	case kept && p.Replaces != nil:
		p.State = api.VolumeFailed
	case kept && p.State == api.VolumeDeleting:
		p.State, p.Uncertain, p.IntentSecrets = api.VolumeAvailable, false, nil
	}
	put(tx, v)
	return nil, nil
}
