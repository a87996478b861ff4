package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
)

// CreateSnapshot makes a snapshot; a repeated call with the same name answers the same snapshot.
func (c *Client) CreateSnapshot(ctx context.Context, r *api.ControllerSnapshotRequest) (*api.Snapshot, error) {
	if _, err := c.needs(ctx, "CreateSnapshot", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDeleteSnapshot }); err != nil {
		return nil, err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkName("snapshot name", r.Name),
		checkMap("parameters", r.Parameters), checkMap("secrets", r.Secrets)); err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, kindMake, "CreateSnapshot", c.controller.CreateSnapshot,
		&pb.CreateSnapshotRequest{SourceVolumeId: r.ExternalID, Name: r.Name, Parameters: r.Parameters, Secrets: r.Secrets})
	if err != nil {
		return nil, err
	}
	if resp.GetSnapshot().GetSnapshotId() == "" {
		return nil, hole("CreateSnapshot", "no snapshot id")
	}
	out := snapshot(resp.GetSnapshot())
	out.Name = r.Name
	return out, nil
}

// DeleteSnapshot deletes a snapshot; one that does not exist is deleted.
func (c *Client) DeleteSnapshot(ctx context.Context, r *api.ControllerSnapshotDeleteRequest) error {
	if _, err := c.needs(ctx, "DeleteSnapshot", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDeleteSnapshot }); err != nil {
		return err
	}
	if err := firstError(checkID("snapshot id", r.ID), checkMap("secrets", r.Secrets)); err != nil {
		return err
	}
	_, err := call(ctx, c, kindUndo, "DeleteSnapshot", c.controller.DeleteSnapshot,
		&pb.DeleteSnapshotRequest{SnapshotId: r.ID, Secrets: r.Secrets})
	return ignoreDone(err)
}

// ListSnapshots reads one page of the provider's snapshots. Entries without an id are left out.
func (c *Client) ListSnapshots(ctx context.Context, r *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error) {
	if _, err := c.needs(ctx, "ListSnapshots", func(i *api.CSIControllerInfo) bool { return i.SupportsListSnapshots }); err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, kindRead, "ListSnapshots", c.controller.ListSnapshots,
		&pb.ListSnapshotsRequest{MaxEntries: max(r.MaxEntries, 0), StartingToken: r.Token, Secrets: r.Secrets})
	if err != nil {
		return nil, err
	}
	out := &api.ControllerSnapshotListResponse{NextToken: resp.GetNextToken()}
	for _, e := range resp.GetEntries() {
		if e.GetSnapshot().GetSnapshotId() != "" {
			out.Snapshots = append(out.Snapshots, snapshot(e.GetSnapshot()))
		}
	}
	return out, nil
}

func snapshot(s *pb.Snapshot) *api.Snapshot {
	return &api.Snapshot{
		ID: s.GetSnapshotId(), ExternalSourceVolumeID: s.GetSourceVolumeId(), SizeBytes: s.GetSizeBytes(),
		CreateTime: s.GetCreationTime().GetSeconds(), IsReady: s.GetReadyToUse(),
	}
}
