package volumes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/internal/lazy"
)

// idForm keeps ids usable in URLs, file names and per_alloc sources.
var idForm = lazy.Regexp(`^[A-Za-z0-9\-_.\[\]]{1,128}$`)

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
	case !idForm().MatchString(v.ID) || strings.Contains(v.ID, ".."):
		wrong("volume ID %q must be 1 to 128 letters, digits, '-', '_', '.', '[' or ']', without '..'", v.ID)
	}
	switch {
	case v.PluginID == "":
		wrong("missing plugin ID")
	case !idForm().MatchString(v.PluginID) || strings.Contains(v.PluginID, ".."):
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
	if v.SecretsFrom != "" && len(v.Secrets) > 0 {
		wrong("secrets and secrets_from exclude each other: keep one of them")
	}
	if _, empty := v.Secrets[""]; empty {
		wrong("a key of secrets is empty: name it")
	}
	errs = append(append(errs, ownerErrors(v)...), lossErrors(v)...)
	errs = append(errs, sizeErrors(v)...)
	return errors.Join(errs...)
}

func capabilityErrors(i int, c *api.VolumeCapability) (errs []error) {
	if c == nil {
		return []error{fmt.Errorf("capability %d is empty", i+1)}
	}
	if !c.AccessMode.Known() {
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
	return tooLarge(
		map[string]string{"name": v.Name, "secrets_from": v.SecretsFrom, "external_id": v.ExternalID, "clone_id": v.CloneID, "snapshot_id": v.SnapshotID},
		map[string]map[string]string{"secrets": v.Secrets, "parameters": v.Parameters, "context": v.Context})
}

// tooLarge names texts and maps that are larger than CSI allows.
func tooLarge(texts map[string]string, maps map[string]map[string]string) (errs []error) {
	for name, text := range texts {
		if len(text) > textMax {
			errs = append(errs, fmt.Errorf("%s is longer than %d bytes", name, textMax))
		} else if err := ids.CheckText(name, text); err != nil {
			errs = append(errs, err)
		}
	}
	for name, m := range maps {
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
