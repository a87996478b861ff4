package volumes

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

// idForm keeps ids usable in URLs, file names and per_alloc sources.
var idForm = regexp.MustCompile(`^[A-Za-z0-9\-_.\[\]]{1,128}$`)

const (
	textMax = 128  // bytes of a string towards a driver
	mapsMax = 4096 // bytes of a map towards a driver
)

// validate lists everything that is wrong with a spec by itself.
func validate(v *api.VolumeSpec) error {
	if v == nil {
		return fault.New(fault.Invalid, "missing volume definition")
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch {
	case v.ID == "":
		wrong("missing volume ID")
	case !idForm.MatchString(v.ID) || strings.Contains(v.ID, ".."):
		wrong("volume ID %q must be 1 to 128 letters, digits, '-', '_', '.', '[' or ']', without '..'", v.ID)
	}
	switch {
	case v.PluginID == "":
		wrong("missing plugin ID")
	case !idForm.MatchString(v.PluginID) || strings.Contains(v.PluginID, ".."):
		wrong("plugin ID %q must be 1 to 128 letters, digits, '-', '_' or '.', without '..'", v.PluginID)
	}
	if v.SnapshotID != "" && v.CloneID != "" {
		wrong("clone_id and snapshot_id exclude each other")
	}
	if len(v.RequestedCapabilities) == 0 {
		wrong("at least one capability block is needed")
	}
	for i, c := range v.RequestedCapabilities {
		errs = append(errs, capabilityErrors(i, c)...)
	}
	if t := v.RequestedTopologies; t != nil {
		errs = append(errs, topologyErrors("required", t.Required)...)
		errs = append(errs, topologyErrors("preferred", t.Preferred)...)
	}
	if v.RequestedCapacityMin < 0 || v.RequestedCapacityMax < 0 {
		wrong("capacity_min and capacity_max must not be negative")
	}
	if v.RequestedCapacityMax > 0 && v.RequestedCapacityMin > v.RequestedCapacityMax {
		wrong("capacity_min (%d bytes) is larger than capacity_max (%d bytes)", v.RequestedCapacityMin, v.RequestedCapacityMax)
	}
	errs = append(append(errs, ownerErrors(v)...), lossErrors(v)...)
	errs = append(errs, sizeErrors(v)...)
	return errors.Join(errs...)
}

func capabilityErrors(i int, c *api.VolumeCapability) (errs []error) {
	if c == nil {
		return []error{fmt.Errorf("capability %d is empty", i+1)}
	}
	if !claim.Known(c.AccessMode) {
		errs = append(errs, fmt.Errorf("capability %d: unknown access_mode %q", i+1, c.AccessMode))
	}
	if c.AttachmentMode != api.AttachmentFileSystem && c.AttachmentMode != api.AttachmentBlock {
		errs = append(errs, fmt.Errorf("capability %d: unknown attachment_mode %q", i+1, c.AttachmentMode))
	}
	return errs
}

func topologyErrors(kind string, list []*api.Topology) (errs []error) {
	for i, t := range list {
		if t == nil || len(t.Segments) == 0 {
			errs = append(errs, fmt.Errorf("%s topology %d has no segments", kind, i+1))
		}
	}
	return errs
}

// sizeErrors checks what drivers must not be sent.
func sizeErrors(v *api.VolumeSpec) (errs []error) {
	for name, text := range map[string]string{"name": v.Name, "external_id": v.ExternalID, "clone_id": v.CloneID, "snapshot_id": v.SnapshotID} {
		if len(text) > textMax {
			errs = append(errs, fmt.Errorf("%s is longer than %d bytes", name, textMax))
		}
	}
	for name, m := range map[string]map[string]string{"secrets": v.Secrets, "parameters": v.Parameters, "context": v.Context} {
		size := 0
		for k, value := range m {
			size += len(k) + len(value)
		}
		if size > mapsMax {
			errs = append(errs, fmt.Errorf("%s hold more than %d bytes", name, mapsMax))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// merged is a known volume with a new spec. It lists all fields that cannot change any more. What the
// driver said stays; capacity is left to expansions.
func merged(old *api.Volume, spec *api.VolumeSpec, held []*api.VolumeClaim) (*api.Volume, error) {
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
	if spec.RequestedTopologies != nil && len(old.Provision.Topologies) > 0 &&
		!reflect.DeepEqual(spec.RequestedTopologies, old.RequestedTopologies) {
		errs = append(errs, errors.New("topology_request cannot change"))
	}
	errs = append(errs, inUse(old, spec, held)...)
	if len(errs) > 0 {
		return nil, fault.New(fault.Invalid, "volume %q: %w", old.ID, errors.Join(errs...))
	}
	next.RequestedCapabilities = spec.RequestedCapabilities
	next.MountOptions = spec.MountOptions
	next.Owner, next.OnMountDead = spec.Owner, spec.OnMountDead
	next.OnNodeLoss, next.FenceAfter, next.Lease = spec.OnNodeLoss, spec.FenceAfter, spec.Lease
	if low, high := spec.RequestedCapacityMin, spec.RequestedCapacityMax; (low != 0 || high != 0) && low <= old.Provision.CapacityBytes {
		next.RequestedCapacityMin, next.RequestedCapacityMax = low, high
	}
	if len(spec.Secrets) > 0 {
		next.Secrets = spec.Secrets
	}
	if len(spec.Context) > 0 {
		next.Context = spec.Context
	}
	return &next, nil
}

// inUse lists what cannot change while somebody uses the volume.
func inUse(old *api.Volume, spec *api.VolumeSpec, held []*api.VolumeClaim) (errs []error) {
	if len(held) == 0 {
		return nil
	}
	if !sameMount(old.MountOptions, spec.MountOptions) {
		errs = append(errs, errors.New("mount_options cannot change while the volume is claimed"))
	}
	next := &api.Volume{VolumeSpec: *spec}
	for _, c := range held {
		if _, ok := claim.Capable(next, claim.Request{AccessMode: c.AccessMode, AttachmentMode: c.AttachmentMode}); !ok {
			errs = append(errs, fmt.Errorf("capability %s %s is in use by allocation %s", c.AccessMode, c.AttachmentMode, c.AllocID))
		}
	}
	return errs
}

func sameMount(a, b *api.MountOptions) bool {
	var x, y api.MountOptions
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return x.FSType == y.FSType &&
		slices.Equal(slices.Sorted(slices.Values(x.MountFlags)), slices.Sorted(slices.Values(y.MountFlags)))
}

// grows reports whether a spec asks for more than the volume has.
func grows(old *api.Volume, spec *api.VolumeSpec) (bool, error) {
	low, high := spec.RequestedCapacityMin, spec.RequestedCapacityMax
	has := old.Provision.CapacityBytes
	if low == 0 && high == 0 || low == old.RequestedCapacityMin && high == old.RequestedCapacityMax && (low <= has || has == 0) {
		return false, nil
	}
	if high > 0 && high < has {
		return false, fault.New(fault.Invalid, "volume %q: capacity_max (%d bytes) is smaller than the volume (%d bytes)", old.ID, high, has)
	}
	return low > has, nil
}

// known drops topologies that say nothing.
func known(list []*api.Topology) []*api.Topology {
	var kept []*api.Topology
	for _, t := range list {
		if t != nil && len(t.Segments) > 0 {
			kept = append(kept, t)
		}
	}
	return kept
}
