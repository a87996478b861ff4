package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// pageMax bounds one page of a provider's list.
const pageMax = 1000

// ListExternal lists a page of a provider's volumes.
func (s *Service) ListExternal(ctx context.Context, r *api.VolumeExternalListRequest) (*api.VolumeListExternalResponse, error) {
	if err := s.ableTo(r.PluginID, "LIST_VOLUMES", func(c *api.CSIControllerInfo) bool { return c.SupportsListVolumes }); err != nil {
		return nil, err
	}
	out, err := call(ctx, s, wire.ControllerList, r.PluginID, s.limits.ListTimeout, &api.ControllerListRequest{
		ControllerCall: api.ControllerCall{PluginID: r.PluginID}, MaxEntries: entries(r.PerPage), Token: r.NextToken,
	})
	if err != nil {
		return nil, fmt.Errorf("list volumes of plugin %q: %w", r.PluginID, err)
	}
	return &api.VolumeListExternalResponse{Volumes: page(out.Volumes, r.PerPage), NextToken: out.NextToken}, nil
}

func entries(perPage int32) int32 {
	if perPage <= 0 || perPage > pageMax {
		return pageMax
	}
	return perPage
}

// page cuts what a driver answered beyond the page that it was asked for.
func page[T any](list []T, perPage int32) []T {
	if perPage > 0 && len(list) > int(perPage) {
		return list[:perPage]
	}
	return list
}

// ableTo checks that the plugin exists and that its controllers can do what is asked.
func (s *Service) ableTo(plugin, what string, can func(*api.CSIControllerInfo) bool) error {
	if plugin == "" {
		return fault.New(fault.Invalid, "missing plugin ID")
	}
	tx := s.state.Read()
	if pluginOf(tx, plugin) == nil {
		return fault.New(fault.NotFound, "no CSI plugin named: %s", plugin)
	}
	return needs(tx, plugin, what, can)
}

// CreateSnapshots makes snapshots of registered volumes.
func (s *Service) CreateSnapshots(ctx context.Context, r *api.SnapshotCreateRequest) (*api.SnapshotListResponse, error) {
	if len(r.Snapshots) == 0 {
		return nil, fault.New(fault.Invalid, "missing snapshot definition")
	}
	out := &api.SnapshotListResponse{}
	var errs []error
	for _, snap := range r.Snapshots {
		made, err := s.snapshot(ctx, namespaceOf(r.Namespace), snap)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Snapshots = append(out.Snapshots, made)
	}
	if len(errs) > 0 {
		return nil, fault.Wrap(fault.Of(errs[0]), errors.Join(errs...))
	}
	return out, nil
}

func (s *Service) snapshot(ctx context.Context, ns string, snap *api.Snapshot) (*api.Snapshot, error) {
	if snap == nil || snap.SourceVolumeID == "" {
		return nil, fault.New(fault.Invalid, "missing source volume ID of the snapshot")
	}
	v := s.state.Read().Volume(ns, snap.SourceVolumeID)
	switch {
	case v == nil:
		return nil, missing(ns, snap.SourceVolumeID)
	case snap.PluginID != "" && snap.PluginID != v.PluginID:
		return nil, fault.New(fault.Invalid, "volume %q is of plugin %q, not %q", v.ID, v.PluginID, snap.PluginID)
	case v.Provision.ExternalID == "":
		return nil, fault.New(fault.Conflict, "volume %q is %s", v.ID, v.Provision.State)
	}
	if err := s.ableTo(v.PluginID, "CREATE_DELETE_SNAPSHOT", func(c *api.CSIControllerInfo) bool { return c.SupportsCreateDeleteSnapshot }); err != nil {
		return nil, err
	}
	name := snap.Name
	if name == "" {
		name = "snapshot-" + uuid.NewString()
	}
	made, err := s.intend(ctx, &api.SnapshotIntent{
		PluginID: v.PluginID, Name: name, Namespace: v.Namespace, VolumeID: v.ID, ExternalID: v.RemoteID(),
		Parameters: snap.Parameters, Secrets: overlaid(v.Secrets, snap.Secrets),
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot of volume %q: %w", v.ID, err)
	}
	answer := *made
	answer.SourceVolumeID, answer.PluginID, answer.Name, answer.Secrets = v.ID, v.PluginID, name, nil
	return &answer, nil
}

func overlaid(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	all := map[string]string{}
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}

// DeleteSnapshot deletes a snapshot at its provider.
func (s *Service) DeleteSnapshot(ctx context.Context, r *api.SnapshotDeleteRequest) (*api.WriteMeta, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing snapshot ID")
	}
	if err := s.ableTo(r.PluginID, "CREATE_DELETE_SNAPSHOT", func(c *api.CSIControllerInfo) bool { return c.SupportsCreateDeleteSnapshot }); err != nil {
		return nil, err
	}
	if _, err := s.intend(ctx, &api.SnapshotIntent{PluginID: r.PluginID, Name: r.ID, Delete: true, Secrets: r.Secrets}); err != nil {
		return nil, fmt.Errorf("delete snapshot %q: %w", r.ID, err)
	}
	return &api.WriteMeta{Index: s.state.Read().Index()}, nil
}

// ListSnapshots lists a page of a provider's snapshots.
func (s *Service) ListSnapshots(ctx context.Context, r *api.SnapshotListRequest) (*api.SnapshotListResponse, error) {
	if err := s.ableTo(r.PluginID, "LIST_SNAPSHOTS", func(c *api.CSIControllerInfo) bool { return c.SupportsListSnapshots }); err != nil {
		return nil, err
	}
	out, err := call(ctx, s, wire.ControllerSnapshotList, r.PluginID, s.limits.ListTimeout, &api.ControllerSnapshotListRequest{
		ControllerCall: api.ControllerCall{PluginID: r.PluginID}, MaxEntries: entries(r.PerPage), Token: r.NextToken, Secrets: r.Secrets,
	})
	if err != nil {
		return nil, fmt.Errorf("list snapshots of plugin %q: %w", r.PluginID, err)
	}
	list := page(out.Snapshots, r.PerPage)
	for i, snap := range list {
		known := *snap
		known.PluginID, known.Secrets = r.PluginID, nil
		list[i] = &known
	}
	return &api.SnapshotListResponse{Snapshots: list, NextToken: out.NextToken, WriteMeta: api.WriteMeta{Index: s.state.Read().Index()}}, nil
}
