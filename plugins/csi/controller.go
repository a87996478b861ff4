package csi

import (
	"context"
	"fmt"
	"maps"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// CreateVolume creates a volume; a repeated call with the same name returns the same volume.
func (c *Client) CreateVolume(ctx context.Context, r *api.ControllerCreateRequest) (*api.ControllerCreateResponse, error) {
	caps, err := c.needs(ctx, "CreateVolume", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDelete })
	if err != nil {
		return nil, err
	}
	req, err := createRequest(r, caps)
	if err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, "CreateVolume", c.controller.CreateVolume, req)
	if err != nil {
		return nil, err
	}
	v := resp.GetVolume()
	if v.GetVolumeId() == "" {
		return nil, hole("CreateVolume", "no volume id")
	}
	if v.GetCapacityBytes() < 0 {
		return nil, hole("CreateVolume", "a negative capacity")
	}
	if err := firstHole("CreateVolume", replyID(v.GetVolumeId()), replyMap(v.GetVolumeContext()), replyTopologies(v.GetAccessibleTopology())); err != nil {
		return nil, err
	}
	return &api.ControllerCreateResponse{
		ExternalID: v.GetVolumeId(), CapacityBytes: v.GetCapacityBytes(),
		Context: maps.Clone(v.GetVolumeContext()), Topologies: topologies(v.GetAccessibleTopology()),
		OtherSource: otherSource(req.VolumeContentSource, v.GetContentSource()),
	}, nil
}

// otherSource reports whether the plugin names another source for a volume than was asked for.
func otherSource(asked, reported *pb.VolumeContentSource) bool {
	return asked != nil && (asked.GetVolume().GetVolumeId() != reported.GetVolume().GetVolumeId() ||
		asked.GetSnapshot().GetSnapshotId() != reported.GetSnapshot().GetSnapshotId())
}

func createRequest(r *api.ControllerCreateRequest, caps *Capabilities) (*pb.CreateVolumeRequest, error) {
	if err := firstError(checkName("volume name", r.Name), checkMap("parameters", r.Parameters), checkSecrets(r.Secrets), checkTopologies(r.Topologies)); err != nil {
		return nil, err
	}
	wants, err := capabilities(r.Capabilities, r.MountOptions, caps.controllerModes)
	if err != nil {
		return nil, err
	}
	size, err := capacityRange(r.CapacityMinBytes, r.CapacityMaxBytes)
	if err != nil {
		return nil, err
	}
	req := &pb.CreateVolumeRequest{
		Name: r.Name, CapacityRange: size, VolumeCapabilities: wants,
		Parameters: r.Parameters, Secrets: r.Secrets,
	}
	switch {
	case r.CloneID != "" && r.SnapshotID != "":
		return nil, fault.New(fault.Invalid, "a volume is made of a clone or of a snapshot, not of both")
	case r.CloneID != "":
		if !caps.Controller.SupportsClone {
			return nil, fault.New(fault.Unimplemented, "the plugin does not clone volumes")
		}
		req.VolumeContentSource = &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Volume{
			Volume: &pb.VolumeContentSource_VolumeSource{VolumeId: r.CloneID},
		}}
	case r.SnapshotID != "":
		req.VolumeContentSource = &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Snapshot{
			Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: r.SnapshotID},
		}}
	}
	if caps.Identity.Topology {
		req.AccessibilityRequirements = requirement(r.Topologies)
	}
	return req, nil
}

func capacityRange(low, high int64) (*pb.CapacityRange, error) {
	switch {
	case low < 0 || high < 0:
		return nil, fault.New(fault.Invalid, "capacities must not be negative")
	case high != 0 && low > high:
		return nil, fault.New(fault.Invalid, "capacity minimum %d is above its maximum %d", low, high)
	case low == 0 && high == 0:
		return nil, nil
	}
	return &pb.CapacityRange{RequiredBytes: low, LimitBytes: high}, nil
}

// requirement leaves out what is empty: the specification wants no empty lists.
func requirement(t *api.TopologyRequest) *pb.TopologyRequirement {
	if t == nil {
		return nil
	}
	out := &pb.TopologyRequirement{Requisite: pbTopologies(t.Required), Preferred: pbTopologies(t.Preferred)}
	if len(out.Requisite) == 0 && len(out.Preferred) == 0 {
		return nil
	}
	return out
}

func pbTopologies(in []*api.Topology) []*pb.Topology {
	var out []*pb.Topology
	for _, t := range in {
		if t != nil && len(t.Segments) > 0 {
			out = append(out, &pb.Topology{Segments: t.Segments})
		}
	}
	return out
}

func topologies(in []*pb.Topology) []*api.Topology {
	var out []*api.Topology
	for _, t := range in {
		if len(t.GetSegments()) > 0 {
			out = append(out, &api.Topology{Segments: maps.Clone(t.GetSegments())})
		}
	}
	return out
}

// DeleteVolume deletes a volume; one that does not exist is deleted.
func (c *Client) DeleteVolume(ctx context.Context, r *api.ControllerDeleteRequest) error {
	if _, err := c.needs(ctx, "DeleteVolume", func(i *api.CSIControllerInfo) bool { return i.SupportsCreateDelete }); err != nil {
		return err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkMap("secrets", r.Secrets)); err != nil {
		return err
	}
	_, err := call(ctx, c, "DeleteVolume", c.controller.DeleteVolume,
		&pb.DeleteVolumeRequest{VolumeId: r.ExternalID, Secrets: r.Secrets})
	return err
}

// ControllerPublish attaches a volume to a node and returns what the node needs.
func (c *Client) ControllerPublish(ctx context.Context, r *api.ControllerPublishRequest) (map[string]string, error) {
	caps, err := c.needs(ctx, "ControllerPublishVolume", func(i *api.CSIControllerInfo) bool { return i.SupportsAttachDetach })
	if err != nil {
		return nil, err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkNodeID(r.ProviderNodeID), checkSecrets(r.Secrets)); err != nil {
		return nil, err
	}
	want, err := capability(r.AccessMode, r.AttachmentMode, r.MountOptions, caps.controllerModes)
	if err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, "ControllerPublishVolume", c.controller.ControllerPublishVolume, &pb.ControllerPublishVolumeRequest{
		VolumeId: r.ExternalID, NodeId: r.ProviderNodeID, VolumeCapability: want,
		Readonly: r.ReadOnly && caps.Controller.SupportsReadOnlyAttach, Secrets: r.Secrets, VolumeContext: r.Context,
	})
	if err != nil {
		return nil, err
	}
	if err := firstHole("ControllerPublishVolume", replyMap(resp.GetPublishContext())); err != nil {
		return nil, err
	}
	return maps.Clone(resp.GetPublishContext()), nil
}

// ControllerUnpublish detaches a volume from one node. NOT_FOUND is no proof of that: see [Client.Verify].
func (c *Client) ControllerUnpublish(ctx context.Context, r *api.ControllerUnpublishRequest) error {
	if _, err := c.needs(ctx, "ControllerUnpublishVolume", func(i *api.CSIControllerInfo) bool { return i.SupportsAttachDetach }); err != nil {
		return err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkNodeID(r.ProviderNodeID), checkMap("secrets", r.Secrets)); err != nil {
		return err
	}
	_, err := call(ctx, c, "ControllerUnpublishVolume", c.controller.ControllerUnpublishVolume,
		&pb.ControllerUnpublishVolumeRequest{VolumeId: r.ExternalID, NodeId: r.ProviderNodeID, Secrets: r.Secrets})
	return err
}

// ControllerExpand grows a volume and reports whether the nodes that use it must follow.
func (c *Client) ControllerExpand(ctx context.Context, r *api.ControllerExpandRequest) (*api.ControllerExpandResponse, error) {
	caps, err := c.needs(ctx, "ControllerExpandVolume", func(i *api.CSIControllerInfo) bool { return i.SupportsExpand })
	if err != nil {
		return nil, err
	}
	size, err := capacityRange(r.CapacityMinBytes, r.CapacityMaxBytes)
	if err != nil {
		return nil, err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkSecrets(r.Secrets)); err != nil {
		return nil, err
	}
	req := &pb.ControllerExpandVolumeRequest{VolumeId: r.ExternalID, CapacityRange: size, Secrets: r.Secrets}
	if v := r.Capability; v != nil {
		if req.VolumeCapability, err = capability(v.AccessMode, v.AttachmentMode, r.MountOptions, caps.controllerModes); err != nil {
			return nil, err
		}
	}
	resp, err := call(ctx, c, "ControllerExpandVolume", c.controller.ControllerExpandVolume, req)
	if err != nil {
		return nil, err
	}
	if got := resp.GetCapacityBytes(); got <= 0 || got < r.CapacityMinBytes {
		return nil, hole("ControllerExpandVolume", fmt.Sprintf("that the volume has %d bytes, of at least %d", got, max(r.CapacityMinBytes, 1)))
	}
	return &api.ControllerExpandResponse{CapacityBytes: resp.GetCapacityBytes(), NodeExpansionRequired: resp.GetNodeExpansionRequired()}, nil
}
