package csi

import (
	"context"
	"errors"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// CreateSnapshot makes a snapshot; a repeated call with the same name returns the same snapshot. It may not be
// ready to use yet: the call is repeated until it is.
func (c *Client) CreateSnapshot(ctx context.Context, r *api.ControllerSnapshotRequest) (*api.Snapshot, error) {
	if _, err := c.needs(ctx, "CreateSnapshot", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDeleteSnapshot }); err != nil {
		return nil, err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkName("snapshot name", r.Name),
		checkMap("parameters", r.Parameters), checkSecrets(r.Secrets)); err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, "CreateSnapshot", c.controller.CreateSnapshot,
		&pb.CreateSnapshotRequest{SourceVolumeId: r.ExternalID, Name: r.Name, Parameters: r.Parameters, Secrets: r.Secrets})
	if err != nil {
		return nil, err
	}
	if err := firstHole("CreateSnapshot", replyID(resp.GetSnapshot().GetSnapshotId())); err != nil {
		return nil, err
	}
	out := snapshot(resp.GetSnapshot())
	out.Name = r.Name
	return out, nil
}

// DeleteSnapshot deletes a snapshot; one that does not exist is deleted. One that is known to be part of a group
// snapshot is refused, for it is deleted with the group only.
func (c *Client) DeleteSnapshot(ctx context.Context, r *api.ControllerSnapshotDeleteRequest) error {
	if _, err := c.needs(ctx, "DeleteSnapshot", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDeleteSnapshot }); err != nil {
		return err
	}
	if err := firstError(checkID("snapshot id", r.ID), checkMap("secrets", r.Secrets)); err != nil {
		return err
	}
	// What cannot be found out is left to the plugin, which refuses it too.
	if s, _, err := c.findSnapshot(ctx, r.ID, "", r.Secrets); err == nil && s != nil && s.GroupID != "" {
		return fault.New(fault.Conflict, "snapshot %q is part of the group snapshot %q and is deleted with it only", r.ID, s.GroupID)
	}
	_, err := call(ctx, c, "DeleteSnapshot", c.controller.DeleteSnapshot,
		&pb.DeleteSnapshotRequest{SnapshotId: r.ID, Secrets: r.Secrets})
	return err
}

// errNoCall is that a plugin has no call for what is asked.
var errNoCall = fault.New(fault.Unimplemented, "the plugin has no RPC that reports it")

// findSnapshot asks for one snapshot and names the call. It returns nil for one that does not exist.
func (c *Client) findSnapshot(ctx context.Context, id, source string, secrets map[string]string) (*api.Snapshot, string, error) {
	caps, err := c.needs(ctx, "GetSnapshot", nil)
	if err != nil {
		return nil, "", err
	}
	if caps.Controller.SupportsGetSnapshot {
		s, err := c.getSnapshot(ctx, id, secrets)
		if VerdictOf(err) != fault.VerdictChanged {
			return s, "GetSnapshot", err
		}
	}
	if !caps.Controller.SupportsListSnapshots {
		return nil, "", errNoCall
	}
	r, seen := &api.ControllerSnapshotListRequest{ID: id, SourceID: source, Secrets: secrets}, pages{}
	for range verifyPages {
		list, err := c.ListSnapshots(ctx, r)
		if errors.Is(err, fault.NotFound) {
			return nil, "ListSnapshots", nil
		}
		if err != nil {
			return nil, "", err
		}
		for _, s := range list.Snapshots { // plugins may ignore the filter
			if s.ID == id {
				return s, "ListSnapshots", nil
			}
		}
		if r.Token = list.NextToken; r.Token == "" {
			return nil, "ListSnapshots", nil
		}
		if err := seen.next("ListSnapshots", r.Token); err != nil {
			return nil, "", err
		}
	}
	return nil, "", errNoCall
}

func (c *Client) getSnapshot(ctx context.Context, id string, secrets map[string]string) (*api.Snapshot, error) {
	resp, err := call(ctx, c, "GetSnapshot", c.controller.GetSnapshot, &pb.GetSnapshotRequest{SnapshotId: id, Secrets: secrets})
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if resp.GetSnapshot().GetSnapshotId() != id {
		return nil, hole("GetSnapshot", "another snapshot")
	}
	return snapshot(resp.GetSnapshot()), nil
}

func snapshot(s *pb.Snapshot) *api.Snapshot {
	return &api.Snapshot{
		ID: s.GetSnapshotId(), ExternalSourceVolumeID: s.GetSourceVolumeId(), SizeBytes: s.GetSizeBytes(),
		CreateTime: s.GetCreationTime().GetSeconds(), IsReady: s.GetReadyToUse(), GroupID: s.GetGroupSnapshotId(),
	}
}
