package commands

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
)

// Merged is a known volume with a new spec. It lists all fields that cannot change any more. The driver's reports
// stay; capacity is left to expansions. held are the claims of the volume.
func Merged(old *api.Volume, spec *api.VolumeSpec, held []*api.VolumeClaim) (*api.Volume, error) {
	next := *old
	var errs []error
	fixed := func(field string, was, is string) {
		if is != "" && is != was {
			errs = append(errs, fmt.Errorf("%s cannot change from %q to %q", field, was, is))
		}
	}
	fixed("plugin_id", old.PluginID, spec.PluginID)
	fixed("external_id", old.RemoteID(), spec.ExternalID)
	fixed("clone_id", old.CloneID, spec.CloneID)
	fixed("snapshot_id", old.SnapshotID, spec.SnapshotID)
	if old.Name != "" {
		fixed("name", old.Name, spec.Name)
	} else {
		next.Name = spec.Name
	}
	if len(spec.Parameters) > 0 && !maps.Equal(spec.Parameters, old.Parameters) {
		errs = append(errs, errors.New("parameters cannot change"))
	}
	if spec.RequestedTopologies != nil && !sameTopologies(spec.RequestedTopologies, old.RequestedTopologies) {
		switch names := namesTopology(spec.RequestedTopologies); {
		case len(old.Provision.Topologies) > 0:
			errs = append(errs, fmt.Errorf("topology_request cannot change: if the driver reports another topology now, `%s` and register the volume again, with its external_id %q and its context",
				commandtext.Deregister(old.Namespace, old.ID), old.RemoteID()))
		case old.Provision.Created && (names || namesTopology(old.RequestedTopologies)):
			errs = append(errs, errors.New("topology_request cannot change: the volume was created, and its driver reported that it can be used anywhere"))
		default:
			next.RequestedTopologies = spec.RequestedTopologies
			next.Provision.Topologies = WithSegments(spec.RequestedTopologies.Required)
		}
	}
	errs = append(errs, inUse(old, spec, held)...)
	if len(errs) > 0 {
		return nil, fault.New(fault.Invalid, "volume %q: %w", old.ID, errors.Join(errs...))
	}
	next.RequestedCapabilities = spec.RequestedCapabilities
	next.MountOptions = spec.MountOptions
	next.Owner, next.OnMountDead = spec.Owner, spec.OnMountDead
	next.OnNodeLoss, next.FenceAfter, next.Lease = spec.OnNodeLoss, spec.FenceAfter, spec.Lease
	next.Fence, next.WriteBack = spec.Fence, spec.WriteBack
	if low, high := spec.RequestedCapacityMin, spec.RequestedCapacityMax; (low != 0 || high != 0) && low <= old.Provision.CapacityBytes {
		next.RequestedCapacityMin, next.RequestedCapacityMax = low, high
	}
	if len(spec.Secrets) > 0 {
		next.Secrets, next.SecretsFrom = spec.Secrets, spec.SecretsFrom
	}
	if len(spec.Context) > 0 {
		next.Context = spec.Context
	}
	return &next, nil
}

// sameTopologies compares two requests: an empty list equals none.
func sameTopologies(a, b *api.TopologyRequest) bool {
	lists := func(r *api.TopologyRequest) (l [2][]*api.Topology) {
		if r != nil {
			l = [2][]*api.Topology{WithSegments(r.Required), WithSegments(r.Preferred)}
		}
		return l
	}
	return reflect.DeepEqual(lists(a), lists(b))
}

// namesTopology reports whether a request names any topology.
func namesTopology(r *api.TopologyRequest) bool {
	return r != nil && len(WithSegments(r.Required))+len(WithSegments(r.Preferred)) > 0
}

// inUse lists what cannot change while the volume is in use.
func inUse(old *api.Volume, spec *api.VolumeSpec, held []*api.VolumeClaim) (errs []error) {
	if len(held) == 0 {
		return nil
	}
	if !old.MountOptions.Equal(spec.MountOptions) {
		errs = append(errs, errors.New("mount_options cannot change while the volume is claimed"))
	}
	next := &api.Volume{VolumeSpec: *spec}
	for _, c := range held {
		if claim.Capability(next, claim.Request{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}) == nil {
			user := "allocation " + c.AllocID
			if c.Namespace != old.Namespace {
				user = "an allocation of another namespace" // see [claim.Holder]
			}
			errs = append(errs, fmt.Errorf("capability %s %s is in use by %s", c.AccessMode, c.AttachmentMode, user))
		}
	}
	return errs
}

// Grows reports whether a spec asks for more than the volume has.
func Grows(old *api.Volume, spec *api.VolumeSpec) (bool, error) {
	low, high := spec.RequestedCapacityMin, spec.RequestedCapacityMax
	has := old.Provision.CapacityBytes
	if low == 0 && high == 0 || low == old.RequestedCapacityMin && high == old.RequestedCapacityMax && (low <= has || has == 0 && old.Provision.LastError == "") && !old.Provision.NotGrown {
		return false, nil
	}
	if high > 0 && high < has {
		return false, fault.New(fault.Invalid, "volume %q: capacity_max (%d bytes) is smaller than the volume (%d bytes)", old.ID, high, has)
	}
	return low > has || old.Provision.NotGrown, nil
}

// WithSegments drops topologies without segments.
func WithSegments(list []*api.Topology) []*api.Topology {
	var kept []*api.Topology
	for _, t := range list {
		if t != nil && len(t.Segments) > 0 {
			kept = append(kept, t)
		}
	}
	return kept
}

// CreateRequest is what the driver is asked for next of a creation: the earlier one of the row while that is to be
// undone, for only so the driver's id of what it made, if anything, is learned.
func CreateRequest(v *api.Volume) *api.ControllerCreateRequest {
	s := &v.VolumeSpec
	if v.Provision.Replaces != nil {
		s = v.Provision.Replaces
	}
	return &api.ControllerCreateRequest{
		ControllerCall: api.ControllerCall{PluginID: s.PluginID, Fence: v.Provision.Intent},
		Name:           s.Name, CapacityMinBytes: s.RequestedCapacityMin, CapacityMaxBytes: s.RequestedCapacityMax,
		Capabilities: s.RequestedCapabilities, MountOptions: s.MountOptions, Parameters: s.Parameters,
		Secrets: v.CallSecrets(), CloneID: s.CloneID, SnapshotID: s.SnapshotID, Topologies: s.RequestedTopologies,
	}
}
