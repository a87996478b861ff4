package csi

import (
	"context"
	"maps"

	"google.golang.org/grpc"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// A page that was asked for must be receivable: entries of the specification's usual sizes are below 32 KiB. Where
// they are not, a smaller page is asked for.
const (
	pageMax  = 1000
	replyMax = pageMax * (32 << 10)
)

// paged reads one page with at most so many entries, 0 for as many as the plugin likes. An entry too many is
// kept: the token is behind it.
func paged[Req, Resp any](ctx context.Context, c *Client, rpc string, entries int32, fn method[Req, Resp], req func(entries int32) Req) (*Resp, error) {
	large := func(ctx context.Context, r Req, opts ...grpc.CallOption) (*Resp, error) {
		return fn(ctx, r, append(opts, grpc.MaxCallRecvMsgSize(replyMax))...)
	}
	for {
		resp, err := call(ctx, c, rpc, large, req(entries))
		if !isTooLarge(err) || entries == 1 {
			return resp, err
		}
		if entries /= 2; entries == 0 {
			entries = pageMax
		}
	}
}

// ListVolumes reads one page of the provider's volumes. Entries without an id are left out.
func (c *Client) ListVolumes(ctx context.Context, r *api.ControllerListRequest) (*api.ControllerListResponse, error) {
	if _, err := c.needs(ctx, "ListVolumes", func(i *api.CSIControllerInfo) bool { return i.SupportsListVolumes }); err != nil {
		return nil, err
	}
	if r.MaxEntries < 0 {
		return nil, fault.New(fault.Invalid, "the number of volumes per page must not be negative")
	}
	resp, err := paged(ctx, c, "ListVolumes", r.MaxEntries, c.controller.ListVolumes, func(entries int32) *pb.ListVolumesRequest {
		return &pb.ListVolumesRequest{MaxEntries: entries, StartingToken: r.Token}
	})
	if err != nil {
		return nil, err
	}
	out := &api.ControllerListResponse{NextToken: resp.GetNextToken()}
	for _, e := range resp.GetEntries() {
		v := e.GetVolume()
		if v.GetVolumeId() == "" {
			continue
		}
		out.Volumes = append(out.Volumes, &api.VolumeExternal{
			ExternalID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(), VolumeContext: maps.Clone(v.GetVolumeContext()),
			CloneID:                  v.GetContentSource().GetVolume().GetVolumeId(),
			SnapshotID:               v.GetContentSource().GetSnapshot().GetSnapshotId(),
			PublishedExternalNodeIDs: e.GetStatus().GetPublishedNodeIds(),
		})
	}
	return out, nil
}

// ListSnapshots reads one page of the provider's snapshots, of one volume or only one snapshot when the request
// names them. Entries without an id are left out.
func (c *Client) ListSnapshots(ctx context.Context, r *api.ControllerSnapshotListRequest) (*api.ControllerSnapshotListResponse, error) {
	if _, err := c.needs(ctx, "ListSnapshots", func(i *api.CSIControllerInfo) bool { return i.SupportsListSnapshots }); err != nil {
		return nil, err
	}
	if r.MaxEntries < 0 {
		return nil, fault.New(fault.Invalid, "the number of snapshots per page must not be negative")
	}
	if err := checkSecrets(r.Secrets); err != nil {
		return nil, err
	}
	resp, err := paged(ctx, c, "ListSnapshots", r.MaxEntries, c.controller.ListSnapshots, func(entries int32) *pb.ListSnapshotsRequest {
		return &pb.ListSnapshotsRequest{
			MaxEntries: entries, StartingToken: r.Token, Secrets: r.Secrets, SnapshotId: r.ID, SourceVolumeId: r.SourceID,
		}
	})
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

// Capacity asks how many bytes are free for new volumes, in one topology when t is not nil.
func (c *Client) Capacity(ctx context.Context, parameters map[string]string, t *api.Topology) (int64, error) {
	caps, err := c.needs(ctx, "GetCapacity", func(i *api.CSIControllerInfo) bool { return i.SupportsGetCapacity })
	if err != nil {
		return 0, err
	}
	req := &pb.GetCapacityRequest{Parameters: parameters}
	if t != nil && caps.Identity.Topology {
		req.AccessibleTopology = &pb.Topology{Segments: t.Segments}
	}
	resp, err := call(ctx, c, "GetCapacity", c.controller.GetCapacity, req)
	if err != nil {
		return 0, err
	}
	if resp.GetAvailableCapacity() < 0 {
		return 0, hole("GetCapacity", "a negative capacity")
	}
	return resp.GetAvailableCapacity(), nil
}
