package volumes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// Register records volumes that exist at their provider and updates the specs of known ones, all or
// none. A larger capacity expands the volume.
func (s *Service) Register(ctx context.Context, r *api.VolumeRegisterRequest) (*api.VolumeWriteResponse, error) {
	specs, err := s.checked(r.Volumes, r.Namespace)
	if err != nil {
		return nil, err
	}
	if err := s.mayCopy(ctx, specs); err != nil {
		return nil, err
	}
	if err := s.sealSpecs(ctx, specs); err != nil {
		return nil, err
	}
	index, err := s.register(ctx, specs...)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		grown, err := s.grow(ctx, spec)
		if err != nil {
			return nil, err
		}
		index = max(index, grown)
	}
	return s.written(specs, index), nil
}

// Create creates volumes at their provider, one after the other, and waits for the driver's replies. A volume that is
// known already is updated as by Register.
func (s *Service) Create(ctx context.Context, r *api.VolumeCreateRequest) (*api.VolumeWriteResponse, error) {
	specs, err := s.checked(r.Volumes, r.Namespace)
	if err != nil {
		return nil, err
	}
	if err := s.mayCopy(ctx, specs); err != nil {
		return nil, err
	}
	if err := s.sealSpecs(ctx, specs); err != nil {
		return nil, err
	}
	var index uint64
	var errs []error
	var done []*api.VolumeSpec
	var known []string
	for _, spec := range specs {
		write := s.create
		if s.made(spec) {
			write, known = s.update, append(known, spec.ID)
		}
		at, err := uint64(0), s.mayName(ctx, spec)
		if err == nil {
			at, err = write(ctx, spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("create volume %q: %w", spec.ID, err))
			continue
		}
		index, done = max(index, at), append(done, spec)
	}
	switch {
	case len(errs) == 0:
		out := s.written(specs, index)
		out.Known = known
		return out, nil
	case len(done) > 0:
		errs = append(errs, fmt.Errorf("created: %s", names(done)))
	}
	return nil, fault.Wrap(fault.Of(errs[0]), errors.Join(errs...))
}

// checked returns copies of the specs with their defaults, or all that is wrong with them.
func (s *Service) checked(list []*api.VolumeSpec, ns string) ([]*api.VolumeSpec, error) {
	if len(list) == 0 {
		return nil, fault.New(fault.Invalid, "missing volume definition")
	}
	tx := s.state.Read()
	var specs []*api.VolumeSpec
	var errs []error
	seen := map[[2]string]bool{}
	for _, given := range list {
		if given == nil {
			return nil, fault.New(fault.Invalid, "missing volume definition")
		}
		spec := *given
		if spec.Namespace == "" {
			spec.Namespace = namespaceOf(ns)
		}
		for _, err := range []error{validate(&spec), provided(tx, &spec), once(seen, &spec)} {
			if err != nil {
				errs = append(errs, fmt.Errorf("volume %q: %w", spec.ID, err))
			}
		}
		specs = append(specs, &spec)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	return specs, nil
}

func once(seen map[[2]string]bool, spec *api.VolumeSpec) error {
	k := [2]string{spec.Namespace, spec.ID}
	if seen[k] {
		return errors.New("named twice in one request")
	}
	seen[k] = true
	return nil
}

// provided checks what the spec refers to.
func provided(tx *state.Txn, spec *api.VolumeSpec) error {
	var errs []error
	if tx.Namespace(spec.Namespace) == nil {
		errs = append(errs, fmt.Errorf("nonexistent namespace %q", spec.Namespace))
	}
	if spec.PluginID != "" && pluginview.Of(tx, spec.PluginID) == nil {
		errs = append(errs, fmt.Errorf("no CSI plugin named: %s (neither a node nor a job provides it: run its job first)", spec.PluginID))
	}
	return errors.Join(errs...)
}

// grow expands the volume if its spec asks for more than it has.
func (s *Service) grow(ctx context.Context, spec *api.VolumeSpec) (uint64, error) {
	tx := s.state.Read()
	v := tx.Volume(spec.Namespace, spec.ID)
	if v == nil {
		return 0, commands.Missing(spec.Namespace, spec.ID)
	}
	if v.CreateIndex == v.ModifyIndex {
		return 0, nil // just registered: its capacity is what it is
	}
	larger, err := commands.Grows(v, spec)
	if err != nil || !larger {
		return 0, err
	}
	if err := expandable(tx, v); err != nil {
		return 0, fmt.Errorf("expand volume %q: %w", v.ID, err)
	}
	res, err := s.raft.Propose(ctx, &commands.BeginExpand{
		Namespace: v.Namespace, ID: v.ID,
		CapacityMinBytes: spec.RequestedCapacityMin, CapacityMaxBytes: spec.RequestedCapacityMax, Seen: tx.Index(),
	})
	if err != nil {
		return 0, fmt.Errorf("expand volume %q: %w", v.ID, err)
	}
	intent, _ := res.Value.(uint64)
	v, err = s.await(ctx, v.Namespace, v.ID, intent, api.VolumeExpanding)
	switch {
	case err != nil:
		return 0, err
	case v == nil:
		return 0, commands.Missing(spec.Namespace, spec.ID)
	case v.Provision.LastError != "" && v.Provision.CapacityBytes < spec.RequestedCapacityMin:
		return 0, fmt.Errorf("expand volume %q: %w", v.ID, s.refusal(v.Namespace, v.ID, intent, v.Provision.LastError))
	}
	return v.ModifyIndex, nil
}

// expandable refuses what can be refused before anything is written.
func expandable(tx *state.Txn, v *api.Volume) error {
	if nodesOnly, err := pluginview.ExpandsOnNodesOnly(tx, v.PluginID); err != nil || nodesOnly {
		return err
	}
	if err := pluginview.Needs(tx, v.PluginID, pluginview.Expand); err != nil {
		return err
	}
	return commands.Expandable(tx, v)
}

// made reports whether there is nothing to create: the volume is known and there.
func (s *Service) made(spec *api.VolumeSpec) bool {
	old := s.state.Read().Volume(spec.Namespace, spec.ID)
	return old != nil && (old.Provision.State == api.VolumeAvailable || old.Provision.State == api.VolumeExpanding)
}

func (s *Service) create(ctx context.Context, spec *api.VolumeSpec) (uint64, error) {
	tx := s.state.Read()
	if err := pluginview.Needs(tx, spec.PluginID, pluginview.CreateDelete); err != nil {
		return 0, err
	}
	if t := spec.RequestedTopologies; t != nil && len(commands.WithSegments(t.Required)) > 0 && !pluginview.Places(tx, spec.PluginID) {
		return 0, fault.New(fault.Invalid, "topology_request requires places, and CSI plugin %q cannot be asked to create volumes in any (it does not announce VOLUME_ACCESSIBILITY_CONSTRAINTS): leave topology_request out, or use a plugin that can",
			spec.PluginID)
	}
	named(spec)
	res, err := s.raft.Propose(ctx, &commands.Intend{Spec: spec})
	if err != nil {
		return 0, err
	}
	intent, _ := res.Value.(uint64)
	v, err := s.await(ctx, spec.Namespace, spec.ID, intent, api.VolumeCreating)
	switch {
	case err != nil:
		return 0, err
	case v == nil || v.Provision.State == api.VolumeDeleting:
		return 0, fault.New(fault.Conflict, "it was deleted in the meantime")
	case v.Provision.State == api.VolumeFailed:
		return 0, s.refusal(v.Namespace, v.ID, intent, v.Provision.LastError)
	}
	s.log.Info("volume created", "volume", v.ID, "namespace", v.Namespace, "plugin", v.PluginID, "external_id", v.RemoteID())
	return v.ModifyIndex, nil
}

// named gives the volume the name that is its driver's idempotency key.
func named(spec *api.VolumeSpec) {
	switch {
	case spec.Name != "":
	case spec.Namespace == api.DefaultNamespace:
		spec.Name = spec.ID
	default:
		spec.Name = spec.Namespace + "." + spec.ID
	}
}

func (s *Service) update(ctx context.Context, spec *api.VolumeSpec) (uint64, error) {
	index, err := s.register(ctx, spec)
	if err != nil {
		return 0, err
	}
	grown, err := s.grow(ctx, spec)
	return max(index, grown), err
}

func (s *Service) written(specs []*api.VolumeSpec, index uint64) *api.VolumeWriteResponse {
	tx := s.state.Read()
	out := &api.VolumeWriteResponse{WriteMeta: api.WriteMeta{Index: index}}
	var warnings []string
	for _, spec := range specs {
		if v := tx.Volume(spec.Namespace, spec.ID); v != nil {
			out.Volumes = append(out.Volumes, detail(tx, v))
			if t := spec.RequestedTopologies; v.Provision.Created && t != nil && len(commands.WithSegments(t.Preferred)) > 0 && !pluginview.Places(tx, v.PluginID) {
				warnings = append(warnings, fmt.Sprintf("volume %q: its plugin %q ignores the preferred places of topology_request: it cannot create volumes in a given place", v.ID, v.PluginID))
			}
		}
	}
	out.Warnings = strings.Join(warnings, "\n")
	return out
}

func names(specs []*api.VolumeSpec) string {
	var list []string
	for _, spec := range specs {
		list = append(list, fmt.Sprintf("volume %q", spec.ID))
	}
	return strings.Join(list, ", ")
}
