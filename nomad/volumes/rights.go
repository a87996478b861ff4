package volumes

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/access"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

// What is at a provider belongs to the namespaces in which volumes with its external id are registered: a caller who registers,
// copies or deletes it must be able to write volumes in all of them.

var (
	writeVolume   = api.Right{On: api.OnNamespace, Any: []string{"csi-write-volume"}}
	operatorRead  = api.Right{On: api.OnOperator, Any: []string{"read"}}
	operatorWrite = api.Right{On: api.OnOperator, Any: []string{"write"}}
)

// unrestricted reports whether the caller may do everything, as all do without access control.
func unrestricted(ctx context.Context) bool {
	return !access.Enabled(ctx) || access.Of(ctx).Rights.IsManagement()
}

// mayUse refuses an external volume that is registered in a namespace where the caller may not write volumes.
func mayUse(ctx context.Context, tx *state.Txn, plugin, external string) error {
	if external == "" || unrestricted(ctx) {
		return nil
	}
	for v := range tx.VolumesByExternal(plugin, external) {
		if !access.Of(ctx).Rights.Allows(writeVolume, v.Namespace) {
			return access.ErrDenied
		}
	}
	for v := range ofDriver(tx, plugin) {
		if v.RemoteID() == external && !access.Of(ctx).Rights.Allows(writeVolume, v.Namespace) {
			return access.ErrDenied
		}
	}
	return nil
}

// ofDriver lists the volumes of all plugins that have the driver of this one: they reach the same storage.
func ofDriver(tx *state.Txn, plugin string) iter.Seq[*api.Volume] {
	p := pluginview.Of(tx, plugin)
	return func(yield func(*api.Volume) bool) {
		for v := range tx.Volumes(api.AllNamespaces) {
			if p != nil && p.Provider != "" && v.Provision.Provider == p.Provider && !yield(v) {
				return
			}
		}
	}
}

// mayName refuses the name of a volume that the caller does not see, without naming that volume. The driver would return it,
// also when another plugin asks.
func (s *Service) mayName(ctx context.Context, spec *api.VolumeSpec) error {
	if unrestricted(ctx) {
		return nil
	}
	tx, rights := s.state.Read(), access.Of(ctx).Rights
	o := commands.OfName(tx, spec)
	taken := o != nil && !rights.Sees(o.Namespace)
	for v := range ofDriver(tx, spec.PluginID) {
		taken = taken || v.PluginID != spec.PluginID && v.Name == spec.Name && v.ExternalID == "" && !rights.Allows(writeVolume, v.Namespace)
	}
	if !taken {
		return nil
	}
	return fault.New(fault.Conflict, "volume %q: the driver of plugin %q has another volume with the name %q: choose another name", spec.ID, spec.PluginID, spec.Name)
}

// mayCopy refuses specs that register or copy what is at the provider for others.
func (s *Service) mayCopy(ctx context.Context, specs []*api.VolumeSpec) error {
	if unrestricted(ctx) {
		return nil
	}
	tx := s.state.Read()
	for _, spec := range specs {
		for _, external := range []string{spec.ExternalID, spec.CloneID} {
			if err := mayUse(ctx, tx, spec.PluginID, external); err != nil {
				return err
			}
		}
		if v := tx.Volume(spec.Namespace, spec.ID); spec.SnapshotID == "" || v != nil {
			continue // the copy was made before
		}
		if err := s.mayUseSnapshot(ctx, spec.PluginID, spec.SnapshotID); err != nil {
			return err
		}
	}
	return nil
}

// mayUseSnapshot refuses a snapshot of a volume that the caller may not write, or whose source is not known.
func (s *Service) mayUseSnapshot(ctx context.Context, plugin, id string) error {
	if unrestricted(ctx) {
		return nil
	}
	tx := s.state.Read()
	for i := range tx.SnapshotIntents() {
		if i.PluginID == plugin && !i.Delete && (i.SnapshotID == id || i.Name == id) {
			return mayUse(ctx, tx, plugin, i.ExternalID)
		}
	}
	if pluginview.Needs(tx, plugin, pluginview.ListSnapshots) == nil {
		out, err := s.drivers.ListSnapshots(ctx, &api.ControllerSnapshotListRequest{
			ControllerCall: api.ControllerCall{PluginID: plugin}, ID: id, MaxEntries: pageMax,
		})
		if err != nil {
			return fmt.Errorf("find the source of snapshot %q: %w", id, err)
		}
		for _, snap := range out.Snapshots {
			if snap != nil && snap.ID == id {
				return mayUse(ctx, tx, plugin, snap.SourceVolumeID)
			}
		}
	}
	return fault.New(fault.Denied, "plugin %q does not list snapshot %q, so its source is not known: only a management token may use it", plugin, id)
}

// seen leaves out rows of the provider that are registered only in namespaces without the right that the method needs.
func seen[T any](ctx context.Context, tx *state.Txn, plugin string, rows []T, external func(T) string) []T {
	if unrestricted(ctx) {
		return rows
	}
	owners := map[string][]string{}
	for v := range ofDriver(tx, plugin) {
		owners[v.RemoteID()] = append(owners[v.RemoteID()], v.Namespace)
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row T) bool {
		names := owners[external(row)]
		for v := range tx.VolumesByExternal(plugin, external(row)) {
			names = append(names, v.Namespace)
		}
		return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return access.Sees(ctx, n) })
	})
}

// seesAttachment reports whether the caller sees a row. Volumes that are not registered belong to the operators.
func seesAttachment(ctx context.Context, a *api.AttachmentStub) bool {
	if a.VolumeID != "" {
		return access.Sees(ctx, a.Namespace)
	}
	return access.Of(ctx).Rights.Allows(operatorRead, "")
}
