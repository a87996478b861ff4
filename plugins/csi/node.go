package csi

import (
	"context"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// NodeVolume is a volume as a node uses it. Paths are as the plugin sees them.
type NodeVolume struct {
	ExternalID string
	// StagingPath is empty when the plugin does not stage.
	StagingPath string
	// TargetPath is where it is published; not used for staging.
	TargetPath     string
	AccessMode     api.AccessMode
	AttachmentMode api.AttachmentMode
	MountOptions   *api.MountOptions
	// MountGroup is the group id that a driver with VOLUME_MOUNT_GROUP gives the mount to; others are not
	// sent it. Empty means none.
	MountGroup     string
	ReadOnly       bool
	Secrets        map[string]string
	Context        map[string]string
	PublishContext map[string]string
}

func (v *NodeVolume) capability(caps *Capabilities) (*pb.VolumeCapability, error) {
	if err := firstError(checkID("external id", v.ExternalID), checkSecrets(v.Secrets)); err != nil {
		return nil, err
	}
	out, err := capability(v.AccessMode, v.AttachmentMode, v.MountOptions, caps.nodeModes)
	if m := out.GetMount(); m != nil && caps.Node.SupportsVolumeMountGroup {
		m.VolumeMountGroup = v.MountGroup
	}
	return out, err
}

// staging is the staging path for plugins that stage.
func staging(caps *Capabilities, path string) (string, error) {
	if !caps.Node.RequiresNodeStageVolume {
		return "", nil
	}
	return path, checkPath("staging path", path)
}

// NodeStage makes the volume known at its staging path, which must exist.
func (c *Client) NodeStage(ctx context.Context, v *NodeVolume) error {
	caps, err := c.known(ctx, Services{Node: true})
	if err != nil {
		return err
	}
	if !caps.Node.RequiresNodeStageVolume {
		return fault.New(fault.Unimplemented, "NodeStageVolume: the plugin does not stage")
	}
	path, err := staging(caps, v.StagingPath)
	if err != nil {
		return err
	}
	want, err := v.capability(caps)
	if err != nil {
		return err
	}
	_, err = call(ctx, c, "NodeStageVolume", c.node.NodeStageVolume, &pb.NodeStageVolumeRequest{
		VolumeId: v.ExternalID, PublishContext: v.PublishContext, StagingTargetPath: path,
		VolumeCapability: want, Secrets: v.Secrets, VolumeContext: v.Context,
	})
	return err
}

// NodePublish makes the volume appear at its target path, of which only the parent must exist.
func (c *Client) NodePublish(ctx context.Context, v *NodeVolume) error {
	caps, err := c.known(ctx, Services{Node: true})
	if err != nil {
		return err
	}
	path, err := staging(caps, v.StagingPath)
	if err != nil {
		return err
	}
	if err := checkPath("target path", v.TargetPath); err != nil {
		return err
	}
	want, err := v.capability(caps)
	if err != nil {
		return err
	}
	_, err = call(ctx, c, "NodePublishVolume", c.node.NodePublishVolume, &pb.NodePublishVolumeRequest{
		VolumeId: v.ExternalID, PublishContext: v.PublishContext, StagingTargetPath: path, TargetPath: v.TargetPath,
		VolumeCapability: want, Readonly: v.ReadOnly, Secrets: v.Secrets, VolumeContext: v.Context,
	})
	return err
}

// NodeUnpublish unmounts the volume from its target path. NOT_FOUND has the verdict [fault.VerdictVerify]: the mount
// table shows whether the volume is unmounted.
func (c *Client) NodeUnpublish(ctx context.Context, externalID, target string) error {
	if err := firstError(checkID("external id", externalID), checkPath("target path", target)); err != nil {
		return err
	}
	_, err := call(ctx, c, "NodeUnpublishVolume", c.node.NodeUnpublishVolume,
		&pb.NodeUnpublishVolumeRequest{VolumeId: externalID, TargetPath: target})
	return err
}

// NodeUnstage undoes NodeStage. NOT_FOUND has the verdict [fault.VerdictVerify], as for NodeUnpublish.
func (c *Client) NodeUnstage(ctx context.Context, externalID, stagingPath string) error {
	if err := firstError(checkID("external id", externalID), checkPath("staging path", stagingPath)); err != nil {
		return err
	}
	_, err := call(ctx, c, "NodeUnstageVolume", c.node.NodeUnstageVolume,
		&pb.NodeUnstageVolumeRequest{VolumeId: externalID, StagingTargetPath: stagingPath})
	return err
}

// NodeExpand lets the file system of a published volume grow to the given size and returns the new one, 0 when the
// plugin does not report it. It needs no controller that expands.
func (c *Client) NodeExpand(ctx context.Context, v *NodeVolume, capacityBytes int64) (int64, error) {
	caps, err := c.known(ctx, Services{Node: true})
	if err != nil {
		return 0, err
	}
	if !caps.Node.SupportsExpand {
		return 0, fault.New(fault.Unimplemented, "NodeExpandVolume: the plugin does not offer this")
	}
	path, err := staging(caps, v.StagingPath)
	if err != nil {
		return 0, err
	}
	want, err := v.capability(caps)
	if err != nil {
		return 0, err
	}
	size, err := capacityRange(capacityBytes, 0)
	if err != nil {
		return 0, err
	}
	where := v.TargetPath
	if where == "" {
		where = path
	}
	if err := checkPath("volume path", where); err != nil {
		return 0, err
	}
	resp, err := call(ctx, c, "NodeExpandVolume", c.node.NodeExpandVolume, &pb.NodeExpandVolumeRequest{
		VolumeId: v.ExternalID, VolumePath: where, CapacityRange: size, StagingTargetPath: path, VolumeCapability: want,
		Secrets: v.Secrets,
	})
	if err != nil {
		return 0, err
	}
	if resp.GetCapacityBytes() < 0 {
		return 0, hole("NodeExpandVolume", "a negative capacity")
	}
	return resp.GetCapacityBytes(), nil
}
