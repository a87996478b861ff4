package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/ledger"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// register writes the specs after their drivers were asked about what is new in them.
func (s *Service) register(ctx context.Context, specs ...*api.VolumeSpec) (uint64, error) {
	c := &commands.Register{Specs: specs}
	for _, spec := range specs {
		known, old := uint64(0), s.state.Read().Volume(spec.Namespace, spec.ID)
		if old != nil && old.Provision.State != api.VolumeFailed {
			known = old.CreateIndex
		}
		open, err := s.validated(ctx, old, spec)
		if err != nil {
			return 0, err
		}
		c.NotValidated, c.Known = append(c.NotValidated, open), append(c.Known, known)
	}
	index, err := s.write(ctx, c)
	if err != nil {
		return 0, fmt.Errorf("register %s: %w", names(specs), err)
	}
	return index, nil
}

// validated asks the plugin about a volume before it is registered, and before it is to be used in a way that the
// plugin has not been asked about. If the plugin does not confirm it, open is the reason.
func (s *Service) validated(ctx context.Context, old *api.Volume, spec *api.VolumeSpec) (open string, err error) {
	tx := s.state.Read()
	if old != nil && old.Provision.State != api.VolumeFailed {
		if _, err := commands.Merged(old, spec, ledger.ClaimsOf(tx, old)); err != nil {
			return "", err
		}
		if _, err := commands.Grows(old, spec); err != nil || !asksMore(old, spec) {
			return old.Provision.NotValidated, err
		}
	} else if err := requireInstance(tx, spec); err != nil {
		return "", err
	}
	if !pluginview.HasController(tx, spec.PluginID) {
		return "", nil
	}
	driver, err := ledger.Driver(tx, spec.PluginID)
	if err != nil {
		return "", err
	}
	req := validation(driver, old, spec)
	if req.Secrets, err = s.secrets.Open(fmt.Sprintf("volume %q", spec.ID), req.Secrets); err != nil {
		return "", err
	}
	out, err := s.drivers.Validate(ctx, req)
	switch {
	case err != nil:
		return "", fmt.Errorf("validate volume %q: %w", spec.ID, err)
	case !out.Validated: // it may not know the volume at all
		return cmp.Or(out.Message, "the plugin has not confirmed the capabilities"), nil
	}
	return "", nil
}

// requireInstance refuses a new volume of a plugin without a healthy instance, because its existence cannot be checked.
func requireInstance(tx *state.Txn, spec *api.VolumeSpec) error {
	p := pluginview.Of(tx, spec.PluginID)
	if p != nil && p.ControllersHealthy+p.NodesHealthy > 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "volume %q cannot be registered: no instance of CSI plugin %q is healthy; see `nomad plugin status %s` and the status of the plugin's job",
		spec.ID, spec.PluginID, spec.PluginID)
}

func validation(driver string, old *api.Volume, spec *api.VolumeSpec) *api.ControllerValidateRequest {
	asked := &api.Volume{VolumeSpec: *spec}
	if old != nil {
		asked.Provision.ExternalID, asked.Provision.Context = old.Provision.ExternalID, old.Provision.Context
		if len(spec.Secrets) == 0 {
			asked.Secrets = old.Secrets
		}
	}
	return &api.ControllerValidateRequest{
		ControllerCall: api.ControllerCall{PluginID: spec.PluginID, Provider: driver}, ExternalID: asked.RemoteID(),
		Capabilities: spec.RequestedCapabilities, MountOptions: spec.MountOptions, Parameters: spec.Parameters,
		Secrets: asked.Secrets, Context: asked.DriverContext(),
	}
}

// asksMore reports whether a new spec has capabilities or mount options that the volume had not.
func asksMore(old *api.Volume, spec *api.VolumeSpec) bool {
	known := func(c *api.VolumeCapability) bool {
		return slices.ContainsFunc(old.RequestedCapabilities, func(o *api.VolumeCapability) bool { return *o == *c })
	}
	return !old.MountOptions.Equal(spec.MountOptions) ||
		slices.ContainsFunc(spec.RequestedCapabilities, func(c *api.VolumeCapability) bool { return !known(c) })
}
