package commands

import (
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/scheduler/quota"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Apply stores new volumes and the new specs of known ones.
func (c *Register) Apply(tx *state.Txn) (any, error) {
	for i, spec := range c.Specs {
		if i < len(c.Known) && c.Known[i] != 0 {
			if v := tx.Volume(spec.Namespace, spec.ID); v == nil || v.CreateIndex != c.Known[i] {
				return nil, fault.New(fault.Conflict, "volume %q was deleted or deregistered in the meantime: register it again", spec.ID)
			}
		}
		next, err := registered(tx, spec)
		if err != nil {
			return nil, err
		}
		if i < len(c.NotValidated) {
			next.Provision.NotValidated = c.NotValidated[i]
		}
		old := tx.Volume(spec.Namespace, spec.ID)
		if err := noTwin(tx, old, next); err != nil {
			return nil, err
		}
		if err := quota.VolumeAllowed(tx, next); err != nil {
			return nil, err
		}
		put(tx, next)
		if old != nil && len(next.Provision.Topologies) > len(old.Provision.Topologies) { // reported for the first time
			ledger.Mirror(tx, next)
		}
		placeable(tx, old, next)
		ledger.Revive(tx, next)
	}
	return nil, nil
}

func registered(tx *state.Txn, spec *api.VolumeSpec) (*api.Volume, error) {
	if old := tx.Volume(spec.Namespace, spec.ID); old != nil {
		if reason := unfinished(old); reason != "" {
			return nil, fault.New(fault.Conflict, "%s", reason)
		}
		if old.Provision.State != api.VolumeFailed {
			return updated(tx, old, spec)
		}
	}
	v, err := fresh(tx, spec)
	if err != nil {
		return nil, err
	}
	driver, err := ledger.Driver(tx, spec.PluginID)
	if err != nil {
		return nil, err
	}
	v.Provision = api.VolumeProvision{State: api.VolumeAvailable, ExternalID: spec.ExternalID, Provider: driver}
	if spec.ExternalID == "" {
		v.Provision.ExternalID = spec.ID
	}
	if spec.RequestedTopologies != nil {
		v.Provision.Topologies = WithSegments(spec.RequestedTopologies.Required)
	}
	if err := ledger.ExternalOf(tx, v).Deleting(); err != nil {
		return nil, fmt.Errorf("volume %q names the same external volume: %w", v.ID, err)
	}
	ledger.Inherit(tx, v)
	ledger.Adopt(tx, v)
	return v, nil
}

// updated is a known volume with a new spec.
func updated(tx *state.Txn, old *api.Volume, spec *api.VolumeSpec) (*api.Volume, error) {
	if err := ledger.ExternalOf(tx, old).Deleting(); err != nil {
		return nil, fmt.Errorf("volume %q names the same external volume: %w", old.ID, err)
	}
	if err := ledger.FenceError(tx, spec); err != nil {
		return nil, err
	}
	next, err := Merged(old, spec, ledger.ClaimsOf(tx, old))
	if err != nil {
		return nil, err
	}
	ledger.KeepFormer(tx, old, next)
	return next, nil
}

func fresh(tx *state.Txn, spec *api.VolumeSpec) (*api.Volume, error) {
	if tx.Namespace(spec.Namespace) == nil {
		return nil, fault.New(fault.Invalid, "volume %q is in nonexistent namespace %q", spec.ID, spec.Namespace)
	}
	if err := ledger.FenceError(tx, spec); err != nil {
		return nil, err
	}
	return &api.Volume{VolumeSpec: *spec, CreateTime: tx.Now().UnixNano()}, nil
}

// put stores the volume. The first volume of a plugin id makes its driver the owner of the id.
func put(tx *state.Txn, v *api.Volume) {
	if old := tx.Volume(v.Namespace, v.ID); old != nil && old.PluginID != v.PluginID {
		remove(tx, old)
	}
	owner := ledger.Owner(tx, v.PluginID)
	v.ModifyTime = tx.Now().UnixNano()
	tx.PutVolume(v)
	ledger.OwnerChanged(tx, v.PluginID, owner)
}

// remove deletes the volume. Its plugin id is free again when it was the last one.
func remove(tx *state.Txn, v *api.Volume) {
	owner := ledger.Owner(tx, v.PluginID)
	tx.DeleteVolume(v.Namespace, v.ID)
	ledger.OwnerChanged(tx, v.PluginID, owner)
}

// unfinished returns why the row of a volume stands for something that its provider may have or may lose, and how that
// is ended; "" when it does not.
func unfinished(v *api.Volume) string {
	end := fmt.Sprintf("\"nomad volume create\" with other fields replaces the creation, \"%s\" cancels it", commandtext.Delete(v.Namespace, v.ID))
	switch s := v.Provision.State; {
	case s == api.VolumeDeleting:
		return fmt.Sprintf("volume %q is being deleted; %s", v.ID, commandtext.Unanswered(v))
	case s == api.VolumeCreating:
		return fmt.Sprintf("volume %q is being created: %s", v.ID, end)
	case s == api.VolumeFailed && mayExist(v):
		return fmt.Sprintf("volume %q could not be created, and its provider may have created it: %s", v.ID, end)
	}
	return ""
}

// mayExist reports whether a creation that failed may have had its effect.
func mayExist(v *api.Volume) bool { return v.Provision.Uncertain || v.Provision.Replaces != nil }

// controllers returns where the plugin may still have a controller; "" when neither a node nor a job has one.
func controllers(tx *state.Txn, plugin string) string {
	p := pluginview.Of(tx, plugin)
	switch {
	case p == nil:
	case p.ControllersExpected > 0:
		return "a job provides one"
	case len(p.Controllers) > 0:
		return "a node reports one"
	}
	return ""
}

// Missing is the error for a volume that does not exist.
func Missing(ns, id string) error {
	return fault.New(fault.NotFound, "volume %q in namespace %q does not exist", id, ns)
}
