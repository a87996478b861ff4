package volumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/pluginview"
)

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
	if err := snapshotSizes(map[string]string{"name": snap.Name}, snap.Parameters, snap.Secrets); err != nil {
		return nil, err
	}
	v := s.state.Read().Volume(ns, snap.SourceVolumeID)
	switch {
	case v == nil:
		return nil, commands.Missing(ns, snap.SourceVolumeID)
	case snap.PluginID != "" && snap.PluginID != v.PluginID:
		return nil, fault.New(fault.Invalid, "volume %q is of plugin %q, not %q", v.ID, v.PluginID, snap.PluginID)
	case v.Provision.ExternalID == "":
		return nil, fault.New(fault.Conflict, "volume %q is %s", v.ID, v.Provision.State)
	}
	if err := s.ableTo(v.PluginID, pluginview.CreateSnapshots); err != nil {
		return nil, err
	}
	name := snap.Name
	if name == "" {
		name = "snapshot-" + uuid.NewString()
	}
	made, err := s.intend(ctx, &api.SnapshotIntent{
		PluginID: v.PluginID, Name: name, Namespace: v.Namespace, VolumeID: v.ID, ExternalID: v.RemoteID(),
		Parameters: snap.Parameters, Secrets: snap.Secrets,
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot of volume %q: %w", v.ID, err)
	}
	answer := *made
	answer.SourceVolumeID, answer.PluginID, answer.Name, answer.Secrets = v.ID, v.PluginID, name, nil
	return &answer, nil
}

// snapshotSizes refuses what drivers must not be sent before it is in the log.
func snapshotSizes(texts, parameters, secrets map[string]string) error {
	if errs := tooLarge(texts, map[string]map[string]string{"parameters": parameters, "secrets": secrets}); len(errs) > 0 {
		return fault.Wrap(fault.Invalid, fmt.Errorf("snapshot: %w", errors.Join(errs...)))
	}
	return nil
}

// DeleteSnapshot deletes a snapshot at its provider.
func (s *Service) DeleteSnapshot(ctx context.Context, r *api.SnapshotDeleteRequest) (*api.WriteMeta, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing snapshot ID")
	}
	if err := snapshotSizes(nil, nil, r.Secrets); err != nil {
		return nil, err
	}
	if err := s.ableTo(r.PluginID, pluginview.CreateSnapshots); err != nil {
		return nil, err
	}
	if _, err := s.intend(ctx, &api.SnapshotIntent{PluginID: r.PluginID, Name: r.ID, Delete: true, Secrets: r.Secrets}); err != nil {
		return nil, fmt.Errorf("delete snapshot %q: %w", r.ID, err)
	}
	return &api.WriteMeta{Index: s.state.Read().Index()}, nil
}

// ListSnapshots lists a page of a provider's snapshots.
func (s *Service) ListSnapshots(ctx context.Context, r *api.SnapshotListRequest) (*api.SnapshotListResponse, error) {
	if err := s.ableTo(r.PluginID, pluginview.ListSnapshots); err != nil {
		return nil, err
	}
	out, err := s.drivers.ListSnapshots(ctx, &api.ControllerSnapshotListRequest{
		ControllerCall: api.ControllerCall{PluginID: r.PluginID}, MaxEntries: entries(r.PerPage), Token: r.NextToken, Secrets: r.Secrets,
	})
	if err != nil {
		return nil, fmt.Errorf("list snapshots of plugin %q: %w", r.PluginID, err)
	}
	for i, snap := range out.Snapshots {
		known := *snap
		known.PluginID, known.Secrets = r.PluginID, nil
		out.Snapshots[i] = &known
	}
	return &api.SnapshotListResponse{Snapshots: out.Snapshots, NextToken: out.NextToken, WriteMeta: api.WriteMeta{Index: s.state.Read().Index()}}, nil
}

// intend writes an intent and waits for the driver's answer. While its calls fail, or the snapshot is not ready
// to use, it waits for Patience; the leader goes on trying.
func (s *Service) intend(ctx context.Context, i *api.SnapshotIntent) (*api.Snapshot, error) {
	res, err := s.raft.Propose(ctx, &commands.IntendSnapshot{Intent: i})
	if err != nil {
		return nil, err
	}
	intent, _ := res.Value.(uint64)
	keys := []state.Key{state.SnapshotKey(i.PluginID, i.Name, i.Delete)}
	var now *api.SnapshotIntent
	open := func(tx *state.Txn) bool {
		now = tx.SnapshotIntent(i.PluginID, i.Name, i.Delete)
		return now != nil && now.CreateIndex == intent
	}
	err = state.Until(ctx, s.state, keys, func(tx *state.Txn) bool { return !open(tx) || now.LastError != "" || now.SnapshotID != "" })
	if err == nil && open(s.state.Read()) {
		patient, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		_ = state.Until(patient, s.state, keys, func(tx *state.Txn) bool { return !open(tx) || now.Unwanted })
	}
	pending := open(s.state.Read())
	made, refused, known := s.outcomes.Snapshot(intent)
	switch {
	case known:
	case pending:
		return nil, fault.New(fault.Unavailable, "the driver has not answered yet, it is asked again until it does: %s", now.LastError)
	default:
		return nil, fault.New(fault.Unavailable, "the driver answered another server: list the snapshots, or ask again with the same name")
	}
	return made, refused
}
