package csi

import (
	"cmp"
	"context"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

var modes = map[api.AccessMode]pb.VolumeCapability_AccessMode_Mode{
	api.AccessSingleNodeReader:      pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	api.AccessSingleNodeWriter:      pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	api.AccessSingleNodeSingle:      pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	api.AccessSingleNodeMulti:       pb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	api.AccessMultiNodeReader:       pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	api.AccessMultiNodeSingleWriter: pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	api.AccessMultiNodeMultiWriter:  pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
}

// capability translates one way of use. Plugins that do not know the two newer single-node modes get the
// older one, which promises them less; what the newer ones add is kept by us.
func capability(access api.AccessMode, attach api.AttachmentMode, o *api.MountOptions, newModes bool) (*pb.VolumeCapability, error) {
	mode, ok := modes[access]
	if !ok {
		return nil, fault.New(fault.Invalid, "access mode %q is unknown", access)
	}
	if !newModes && (access == api.AccessSingleNodeSingle || access == api.AccessSingleNodeMulti) {
		mode = pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	}
	out := &pb.VolumeCapability{AccessMode: &pb.VolumeCapability_AccessMode{Mode: mode}}
	switch attach {
	case api.AttachmentBlock:
		out.AccessType = &pb.VolumeCapability_Block{Block: &pb.VolumeCapability_BlockVolume{}}
	case api.AttachmentFileSystem:
		mount := &pb.VolumeCapability_MountVolume{}
		if o != nil {
			if err := checkOptions(o); err != nil {
				return nil, err
			}
			mount.FsType, mount.MountFlags = o.FSType, o.MountFlags
		}
		out.AccessType = &pb.VolumeCapability_Mount{Mount: mount}
	default:
		return nil, fault.New(fault.Invalid, "attachment mode %q is unknown", attach)
	}
	return out, nil
}

func capabilities(list []*api.VolumeCapability, o *api.MountOptions, newModes bool) ([]*pb.VolumeCapability, error) {
	if len(list) == 0 {
		return nil, fault.New(fault.Invalid, "at least one capability is required")
	}
	out := make([]*pb.VolumeCapability, 0, len(list))
	for _, c := range list {
		if c == nil {
			return nil, fault.New(fault.Invalid, "a capability is null")
		}
		one, err := capability(c.AccessMode, c.AttachmentMode, o, newModes)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// Validate asks whether the volume exists and has the capabilities. A plugin that neither confirms nor refuses
// them leaves them not validated, which is no error.
func (c *Client) Validate(ctx context.Context, r *api.ControllerValidateRequest) (*api.ControllerValidateResponse, error) {
	caps, err := c.needs(ctx, "ValidateVolumeCapabilities", nil)
	if err != nil {
		return nil, err
	}
	if err := firstError(checkID("external id", r.ExternalID), checkSecrets(r.Secrets), checkMap("parameters", r.Parameters)); err != nil {
		return nil, err
	}
	wants, err := capabilities(r.Capabilities, r.MountOptions, caps.controllerModes)
	if err != nil {
		return nil, err
	}
	resp, err := call(ctx, c, "ValidateVolumeCapabilities", c.controller.ValidateVolumeCapabilities, &pb.ValidateVolumeCapabilitiesRequest{
		VolumeId: r.ExternalID, VolumeContext: r.Context, VolumeCapabilities: wants, Parameters: r.Parameters, Secrets: r.Secrets,
	})
	if err != nil {
		return nil, err
	}
	return c.confirmed(wants, resp)
}

// confirmed checks a plugin's reply against the request. A capability is confirmed when its mode is; parts that old
// plugins leave out count as confirmed, contradictions do not.
func (c *Client) confirmed(asked []*pb.VolumeCapability, r *pb.ValidateVolumeCapabilitiesResponse) (*api.ControllerValidateResponse, error) {
	message := c.plain(r.GetMessage())
	yes := r.GetConfirmed().GetVolumeCapabilities()
	if len(yes) == 0 {
		if message != "" {
			return nil, fault.New(fault.Invalid, "the plugin refuses the requested capabilities: %s", message)
		}
		return &api.ControllerValidateResponse{Message: "the plugin neither confirms nor refuses the requested capabilities"}, nil
	}
	for _, a := range asked {
		if !slices.ContainsFunc(yes, func(got *pb.VolumeCapability) bool { return agrees(a, got) }) {
			return nil, fault.New(fault.Invalid, "the plugin does not confirm access mode %s of %s: %s",
				a.GetAccessMode().GetMode(), typeName(a), cmp.Or(message, "no reason given"))
		}
	}
	return &api.ControllerValidateResponse{Validated: true}, nil
}

func agrees(asked, got *pb.VolumeCapability) bool {
	if m := got.GetAccessMode().GetMode(); m != pb.VolumeCapability_AccessMode_UNKNOWN && m != asked.GetAccessMode().GetMode() {
		return false
	}
	if got.GetAccessType() == nil {
		return true
	}
	if (asked.GetBlock() != nil) != (got.GetBlock() != nil) {
		return false
	}
	a, g := asked.GetMount(), got.GetMount()
	if a == nil || g == nil {
		return true
	}
	if g.GetFsType() != "" && a.GetFsType() != "" && g.GetFsType() != a.GetFsType() {
		return false
	}
	if len(g.GetMountFlags()) == 0 {
		return true
	}
	for _, f := range a.GetMountFlags() {
		if !slices.Contains(g.GetMountFlags(), f) {
			return false
		}
	}
	return true
}

func typeName(c *pb.VolumeCapability) string {
	if c.GetBlock() != nil {
		return string(api.AttachmentBlock)
	}
	return string(api.AttachmentFileSystem)
}
