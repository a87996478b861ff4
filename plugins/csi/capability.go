package csi

import (
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

// confirmed checks a plugin's answer against what was asked: parts that old plugins leave out are taken as
// agreed, contradictions are not.
func confirmed(asked []*pb.VolumeCapability, r *pb.ValidateVolumeCapabilitiesResponse) error {
	yes := r.GetConfirmed()
	if yes == nil {
		if m := r.GetMessage(); m != "" {
			return fault.New(fault.Invalid, "the plugin refuses the requested capabilities: %s", m)
		}
		return nil
	}
	if len(yes.GetVolumeCapabilities()) == 0 {
		return nil
	}
	for _, a := range asked {
		if !slices.ContainsFunc(yes.GetVolumeCapabilities(), func(c *pb.VolumeCapability) bool { return agrees(a, c) }) {
			return fault.New(fault.Invalid, "the plugin does not confirm access mode %s of %s: %s",
				a.GetAccessMode().GetMode(), typeName(a), orText(r.GetMessage(), "no reason given"))
		}
	}
	return nil
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

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
