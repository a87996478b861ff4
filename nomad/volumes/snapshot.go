package volumes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/ids"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/volumes/commands"
	"github.com/open-nomad/open-nomad/nomad/volumes/commandtext"
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
	sealed, err := s.secrets.Seal(ctx, snap.Secrets)
	if err != nil {
		return nil, fmt.Errorf("snapshot of volume %q: %w", v.ID, err)
	}
	made, err := s.intend(ctx, &api.SnapshotIntent{
		PluginID: v.PluginID, Name: name, Namespace: v.Namespace, VolumeID: v.ID, ExternalID: v.RemoteID(),
		Parameters: snap.Parameters, Secrets: sealed,
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
func (s *Service) DeleteSnapshot(ctx context.Context, r *api.SnapshotDeleteRequest) (*api.SnapshotDeleteResponse, error) {
	if r.ID == "" {
		return nil, fault.New(fault.Invalid, "missing snapshot ID")
	}
	if why := ids.Wrong(r.ID); why != "" {
		return nil, fault.New(fault.Invalid, "snapshot ID %.64q: %s", r.ID, why)
	}
	if err := snapshotSizes(nil, nil, r.Secrets); err != nil {
		return nil, err
	}
	if err := s.mayUseSnapshot(ctx, r.PluginID, r.ID); err != nil {
		return nil, err
	}
	tx := s.state.Read()
	giveUp := &commands.GiveUpSnapshot{PluginID: r.PluginID, Name: r.ID, Seen: tx.Index()}
	if r.Force {
		giveUp.Forget = true
		return s.forgetSnapshot(ctx, giveUp)
	}
	sealed, err := s.secrets.Seal(ctx, r.Secrets)
	if err != nil {
		return nil, fmt.Errorf("delete snapshot %q: %w", r.ID, err)
	}
	giveUp.Secrets = sealed
	if i := tx.SnapshotIntent(r.PluginID, r.ID, false); i != nil && i.SnapshotID == "" {
		return s.giveUpSnapshot(ctx, giveUp)
	}
	if err := s.ableTo(r.PluginID, pluginview.CreateSnapshots); err != nil {
		return nil, err
	}
	if _, err := s.intend(ctx, &api.SnapshotIntent{PluginID: r.PluginID, Name: r.ID, Delete: true, Secrets: sealed}); err != nil {
		return nil, fmt.Errorf("delete snapshot %q: %w", r.ID, err)
	}
	return &api.SnapshotDeleteResponse{WriteMeta: api.WriteMeta{Index: s.state.Read().Index()}}, nil
}

// giveUpSnapshot has a snapshot that is being made, and whose id is not known yet, be looked for and deleted.
func (s *Service) giveUpSnapshot(ctx context.Context, c *commands.GiveUpSnapshot) (*api.SnapshotDeleteResponse, error) {
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	intents, _ := res.Value.([]*api.SnapshotIntent)
	given := intents[0]
	var open *api.SnapshotIntent
	patient, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	err = state.Until(patient, s.state, []state.Key{state.TableKey(state.TableSnapshots)}, func(tx *state.Txn) bool {
		if open = tx.SnapshotIntent(given.PluginID, given.Name, false); open != nil {
			return !open.Unwanted // a user wants it again
		}
		open = commands.Leaving(tx, given.PluginID, given.Name)
		return open == nil
	})
	switch {
	case open != nil && open.Unwanted:
		return nil, fault.New(fault.Unavailable, "snapshot %q is deleted when its driver reports that it made it, which is retried until then: %s; `%s` forgets it",
			given.Name, cmp.Or(open.LastError, "no reply yet"), commandtext.ForgetSnapshot(given.PluginID, given.Name))
	case err != nil:
		return nil, fault.New(fault.Timeout, "snapshot %q: %w", given.Name, err)
	case open != nil:
		return nil, fault.New(fault.Conflict, "snapshot %q was requested again in the meantime", given.Name)
	}
	if err := s.outcomes.Kept(given); err != nil {
		return nil, err
	}
	return &api.SnapshotDeleteResponse{WriteMeta: api.WriteMeta{Index: s.state.Read().Index()}}, nil
}

// forgetSnapshot forgets what is intended with a snapshot, and returns what may be left of it.
func (s *Service) forgetSnapshot(ctx context.Context, c *commands.GiveUpSnapshot) (*api.SnapshotDeleteResponse, error) {
	res, err := s.raft.Propose(ctx, c)
	if err != nil {
		return nil, err
	}
	forgotten, _ := res.Value.([]*api.SnapshotIntent)
	var left []string
	for _, i := range forgotten {
		left = append(left, leftOf(i))
		s.log.Warn("an operator forgets a snapshot", "snapshot", i.Name, "id", i.SnapshotID, "plugin", i.PluginID, "volume", i.VolumeID, "deletion", i.Delete)
	}
	return &api.SnapshotDeleteResponse{Warnings: strings.Join(left, "\n"), WriteMeta: api.WriteMeta{Index: res.Index}}, nil
}

// leftOf returns what may be at the provider for an intent that is forgotten.
func leftOf(i *api.SnapshotIntent) string {
	switch {
	case i.Delete:
		return fmt.Sprintf("Plugin %q has not reported whether snapshot %q is deleted: it may be left at the provider.", i.PluginID, i.Name)
	case i.SnapshotID != "":
		return fmt.Sprintf("Snapshot %q of volume %q is left at the provider of plugin %q, with the id %q.", i.Name, i.VolumeID, i.PluginID, i.SnapshotID)
	}
	return fmt.Sprintf("Plugin %q has not reported whether it made snapshot %q of volume %q: look for it at the provider.", i.PluginID, i.Name, i.VolumeID)
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
	if err := goesOn(r.NextToken, out.NextToken); err != nil {
		return nil, fmt.Errorf("list snapshots of plugin %q: %w", r.PluginID, err)
	}
	var page []*api.Snapshot
	for _, snap := range out.Snapshots {
		if snap == nil {
			continue
		}
		known := *snap
		known.PluginID, known.Secrets = r.PluginID, nil
		page = append(page, &known)
	}
	tx := s.state.Read()
	page = seen(ctx, tx, r.PluginID, page, func(s *api.Snapshot) string { return s.SourceVolumeID })
	list := &api.SnapshotListResponse{Snapshots: page, NextToken: out.NextToken, WriteMeta: api.WriteMeta{Index: tx.Index()}}
	if r.NextToken == "" {
		list.UnderWay = seen(ctx, tx, r.PluginID, underWay(tx, r.PluginID, ""), func(u *api.SnapshotUnderWay) string { return u.Source })
	}
	return list, nil
}

// intend writes an intent and waits for the driver's reply. While its calls fail, or the snapshot is not ready to use,
// it waits for Patience; the leader keeps trying.
func (s *Service) intend(ctx context.Context, i *api.SnapshotIntent) (*api.Snapshot, error) {
	res, err := s.raft.Propose(ctx, &commands.IntendSnapshot{Intent: i})
	if err != nil {
		return nil, err
	}
	intent := *i
	intent.CreateIndex, _ = res.Value.(uint64)
	keys := []state.Key{state.SnapshotKey(i.PluginID, i.Name, i.Delete)}
	var now *api.SnapshotIntent
	open := func(tx *state.Txn) bool {
		now = tx.SnapshotIntent(i.PluginID, i.Name, i.Delete)
		return now != nil && now.Operation() == intent.Operation()
	}
	err = state.Until(ctx, s.state, keys, func(tx *state.Txn) bool {
		return !open(tx) || now.LastError != "" || now.SnapshotID != "" || now.Unwanted
	})
	if err == nil && open(s.state.Read()) {
		patient, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		_ = state.Until(patient, s.state, keys, func(tx *state.Txn) bool { return !open(tx) || now.Unwanted })
	}
	pending := open(s.state.Read())
	made, refused, known := s.outcomes.Snapshot(ctx, &intent)
	switch {
	case pending && now.Unwanted && refused == nil:
		return nil, fault.New(fault.Conflict, "it was cancelled in the meantime")
	case known:
	case pending:
		return nil, fault.New(fault.Unavailable, "the driver has not replied yet, and is called until it does: %s; `%s` cancels it", now.LastError, commandtext.Snapshot(now))
	default:
		return nil, fault.New(fault.Unavailable, "the result went to another server: list the snapshots or retry with the same name")
	}
	return made, refused
}
