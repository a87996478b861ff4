package commands

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
)

// Apply stores the intent to create a volume, and returns the operation to wait for. The same intent once more
// changes nothing; one with other fields replaces a creation that has not ended well, which is undone first if it
// may have had its effect.
func (c *Intend) Apply(tx *state.Txn) (any, error) {
	spec := c.Spec
	if err := nameIsFree(tx, spec); err != nil {
		return nil, err
	}
	if err := sourceStays(tx, spec); err != nil {
		return nil, err
	}
	v, err := fresh(tx, spec)
	if err != nil {
		return nil, err
	}
	driver, err := ledger.Driver(tx, spec.PluginID)
	if err != nil {
		return nil, err
	}
	v.Provision = api.VolumeProvision{State: api.VolumeCreating, Intent: tx.Index(), Began: tx.Index(), Provider: driver}
	old := tx.Volume(spec.Namespace, spec.ID)
	switch {
	case old == nil || old.Provision.State == api.VolumeFailed && !mayExist(old):
	case old.Provision.State == api.VolumeCreating && sameCreation(&old.VolumeSpec, spec):
		return joined(tx, old, spec), nil
	case old.PluginID != spec.PluginID && (old.Provision.State == api.VolumeCreating || old.Provision.State == api.VolumeFailed):
		// The new plugin must not receive ids and secrets of the other one.
		return nil, fault.New(fault.Conflict, "volume %q is of plugin %q, which may have made it: \"%s\" cancels it, and then plugin %q can create it",
			spec.ID, old.PluginID, commandtext.Delete(spec.Namespace, spec.ID), spec.PluginID)
	case old.Provision.State == api.VolumeCreating || old.Provision.State == api.VolumeFailed:
		v.CreateTime = old.CreateTime
		afterEarlier(&v.Provision, old, spec)
	default:
		return nil, fault.New(fault.Conflict, "volume %q is %s", spec.ID, old.Provision.State)
	}
	if err := quota.VolumeAllowed(tx, v); err != nil {
		return nil, err
	}
	put(tx, v)
	return v.Provision.Operation(), nil
}

// OfName returns another volume that was created by the name of a spec, which is the driver's key of a creation, or nil.
func OfName(tx *state.Txn, spec *api.VolumeSpec) *api.Volume {
	for o := range tx.VolumesByPlugin(spec.PluginID) {
		r := o.Provision.Replaces
		used := o.Name == spec.Name && o.ExternalID == "" || r != nil && r.Name == spec.Name
		if used && (o.ID != spec.ID || o.Namespace != spec.Namespace) {
			return o
		}
	}
	return nil
}

// nameIsFree refuses a name that another volume was created by.
func nameIsFree(tx *state.Txn, spec *api.VolumeSpec) error {
	if o := OfName(tx, spec); o != nil {
		return fault.New(fault.Conflict, "volume %q: the name %q is that of volume %q in namespace %q, and the plugin would return that volume",
			spec.ID, spec.Name, o.ID, o.Namespace)
	}
	return nil
}

// sourceStays refuses to create a volume from what is being deleted.
func sourceStays(tx *state.Txn, spec *api.VolumeSpec) error {
	if spec.CloneID != "" {
		if err := ledger.Gather(tx, spec.PluginID, spec.CloneID).Deleting(); err != nil {
			return fmt.Errorf("clone of %q: %w", spec.CloneID, err)
		}
	}
	if spec.SnapshotID != "" && tx.SnapshotIntent(spec.PluginID, spec.SnapshotID, true) != nil {
		return fault.New(fault.Conflict, "volume %q: snapshot %q is being deleted; `%s` forgets that", spec.ID, spec.SnapshotID,
			commandtext.ForgetSnapshot(spec.PluginID, spec.SnapshotID))
	}
	return nil
}

// joined brings the running creation up to date in what its driver is not asked for. Other secrets count from the
// next call on; what the call that may be under way does is not known then.
func joined(tx *state.Txn, old *api.Volume, spec *api.VolumeSpec) uint64 {
	if reflect.DeepEqual(old.VolumeSpec, *spec) {
		return old.Provision.Operation()
	}
	v := *old
	v.VolumeSpec = *spec
	if !maps.Equal(old.Secrets, spec.Secrets) {
		v.Provision.Intent, v.Provision.Began, v.Provision.Uncertain = tx.Index(), old.Provision.Operation(), true
	}
	put(tx, &v)
	return v.Provision.Operation()
}

// afterEarlier lets a creation follow one of the same row that may have had its effect. One that is under way keeps
// its intent, so that its reply still counts.
func afterEarlier(p *api.VolumeProvision, old *api.Volume, spec *api.VolumeSpec) {
	p.Uncertain, p.Replaces = old.Provision.Uncertain, old.Provision.Replaces
	if old.Provision.State == api.VolumeCreating {
		p.Intent = old.Provision.Intent
	}
	if p.Replaces == nil && !sameCreation(&old.VolumeSpec, spec) {
		earlier := old.VolumeSpec
		earlier.ExternalID = ""
		p.Replaces = &earlier
	}
}

// sameCreation compares the parameters of two creations: a call of unknown outcome must be repeated with the same
// ones. Secrets are not compared: they only authenticate the caller.
func sameCreation(a, b *api.VolumeSpec) bool {
	x, y := CreateRequest(&api.Volume{VolumeSpec: *a}), CreateRequest(&api.Volume{VolumeSpec: *b})
	x.Secrets, y.Secrets = nil, nil
	return reflect.DeepEqual(x, y)
}

// answered returns the volume that a reply is about. A reply to an intent that was replaced is refused.
func (a Answer) answered(tx *state.Txn, states ...api.VolumeState) (*api.Volume, error) {
	v := tx.Volume(a.Namespace, a.ID)
	if v == nil || v.Provision.Intent != a.Intent || !slices.Contains(states, v.Provision.State) {
		return nil, fault.New(fault.Conflict, "volume %q: intent %d was replaced in the meantime", a.ID, a.Intent)
	}
	next := *v
	next.Provision.LastError, next.Provision.Uncertain = a.Reason, a.Reason != "" && a.Uncertain
	return &next, nil
}

// Apply stores what the driver created.
func (c *Provisioned) Apply(tx *state.Txn) (any, error) {
	tx.NoteCall(time.Duration(c.Answer.Took), c.Answer.Reason)
	v, err := c.Answer.answered(tx, api.VolumeCreating, api.VolumeDeleting)
	if err != nil {
		return nil, err
	}
	if v.Provision.Replaces != nil {
		c.earlier(tx, v)
		return nil, nil
	}
	if err := Answerable(tx, v.PluginID, c.ExternalID); err != nil {
		return nil, err
	}
	if o := MadeByAnotherName(tx, v, c.ExternalID); o != nil { // answered at the same time
		return nil, fault.New(fault.Conflict, "%s is volume %q in namespace %q, which was made by the name %q", c.ExternalID, o.ID, o.Namespace, o.Name)
	}
	if o := Twin(tx, v, c.ExternalID); o != nil {
		return nil, fault.New(fault.Conflict, "%s is volume %q in namespace %q, of plugin %q of the same driver", c.ExternalID, o.ID, o.Namespace, o.PluginID)
	}
	p := &v.Provision
	switch deleting := p.State == api.VolumeDeleting; {
	case c.ExternalID != "":
		c.made(tx, v)
		return nil, nil
	case c.Answer.leftNothing() && deleting:
		remove(tx, v)
		return nil, nil
	case c.Answer.Final:
		p.State, p.IntentSecrets = api.VolumeFailed, nil
	}
	put(tx, v)
	return nil, nil
}

// Answerable refuses a volume as the result of a creation when it is being deleted through another spec: the driver
// knows it by the same name, and creates a new one once it is deleted.
func Answerable(tx *state.Txn, plugin, external string) error {
	if external == "" {
		return nil
	}
	return ledger.Gather(tx, plugin, external).Deleting()
}

// MadeByAnotherName is another volume that its driver made as the external one, by another name than this one's: the name
// is the key, so that this one cannot be the same.
func MadeByAnotherName(tx *state.Txn, v *api.Volume, external string) *api.Volume {
	for o := range tx.VolumesByExternal(v.PluginID, external) {
		made := o.Provision.Created && o.ExternalID == "" && o.Provision.ExternalID == external
		if made && o.Name != v.Name && (o.ID != v.ID || o.Namespace != v.Namespace) {
			return o
		}
	}
	return nil
}

// made records the driver's yes. Other specs may name the volume already.
func (c *Provisioned) made(tx *state.Txn, v *api.Volume) {
	old := *v
	p := &v.Provision
	p.ExternalID, p.CapacityBytes, p.Context, p.Topologies = c.ExternalID, c.CapacityBytes, c.Context, c.Topologies
	p.Created = true
	if p.State == api.VolumeCreating {
		p.State = api.VolumeAvailable
	}
	ledger.Grown(tx, v)
	put(tx, v)
	ledger.Mirror(tx, v)
	placeable(tx, &old, v)
	ledger.Revive(tx, v)
}

// earlier records the result of the creation that is to be undone: the id of what it made, or that it made nothing.
func (c *Provisioned) earlier(tx *state.Txn, v *api.Volume) {
	p := &v.Provision
	switch {
	case c.ExternalID != "":
		found := *p.Replaces
		found.ExternalID = c.ExternalID
		p.Replaces, p.Intent = &found, tx.Index()
	case c.Answer.leftNothing():
		undone(tx, v, "")
		return
	case c.Answer.Final:
		p.State, p.IntentSecrets = api.VolumeFailed, nil
	}
	put(tx, v)
}

// undone continues once nothing is left of the creation that is replaced, or what is left is not ours to delete.
func undone(tx *state.Txn, v *api.Volume, reason string) {
	if v.Provision.State == api.VolumeDeleting {
		remove(tx, v)
		return
	}
	p := &v.Provision
	p.Replaces, p.Intent, p.Uncertain, p.LastError = nil, tx.Index(), false, reason
	put(tx, v)
}

// leftNothing reports whether nothing is at the provider by this reply.
func (a Answer) leftNothing() bool { return a.Final && !a.Uncertain }
