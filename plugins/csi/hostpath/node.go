package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// NodeGetCapabilities returns the capabilities of the node part.
func (d *driver) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	out := &pb.NodeGetCapabilitiesResponse{}
	for _, t := range []pb.NodeServiceCapability_RPC_Type{
		pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		pb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		pb.NodeServiceCapability_RPC_EXPAND_VOLUME,
		pb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		out.Capabilities = append(out.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{
			Rpc: &pb.NodeServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

// NodeGetInfo names the node.
func (d *driver) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	out := &pb.NodeGetInfoResponse{NodeId: d.conf.NodeID, MaxVolumesPerNode: d.conf.MaxVolumes}
	if len(d.conf.Topology) > 0 {
		out.AccessibleTopology = &pb.Topology{Segments: d.conf.Topology}
	}
	return out, nil
}

// held reads a volume under its lock.
func (d *driver) held(ctx context.Context, id string) (*volume, func(), error) {
	if id == "" {
		return nil, nil, invalid("volume id is missing")
	}
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.books.volume(id)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return v, unlock, nil
}

// usable checks what stage and publish have in common.
func usable(v *volume, id string, c *pb.VolumeCapability) error {
	if v == nil {
		return noVolume(id)
	}
	if v.Deleting {
		return deleting(id)
	}
	block, err := blockOf(c)
	if err != nil {
		return err
	}
	if block != v.Block {
		return invalid("volume %q has the other access type", id)
	}
	return nil
}

// NodeStageVolume binds the volume's directory to the staging path, or gives its image a loop device.
func (d *driver) NodeStageVolume(ctx context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if path == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("staging path or capability is missing")
	}
	v, unlock, err := d.held(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := usable(v, r.GetVolumeId(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if _, err := optionsOf(r.GetVolumeCapability(), false); err != nil {
		return nil, err
	}
	if err := d.attachedHere(v, r.GetPublishContext()); err != nil {
		return nil, err
	}
	if old, ok := v.Staged[d.conf.NodeID]; ok && old != path {
		if on, err := mounts.IsPoint(old); err != nil || on {
			return nil, errors.Join(err, status.Errorf(codes.FailedPrecondition, "volume %q is staged at another path", v.ID))
		}
	}
	if v.Staged == nil {
		v.Staged = map[string]string{}
	}
	v.Staged[d.conf.NodeID] = path
	if err := d.books.putVolume(v); err != nil {
		return nil, err
	}
	if v.Block {
		_, err = d.loopOn(v)
	} else {
		err = bindOnce(d.books.data(v.ID), path, options{})
	}
	return &pb.NodeStageVolumeResponse{}, err
}

func (d *driver) attachedHere(v *volume, pc map[string]string) error {
	if !d.conf.Attach {
		return nil
	}
	if _, ok := v.Attached[d.conf.NodeID]; !ok {
		d.violation(ViolationNotAttached, v.ID, d.conf.NodeID, "the volume is not attached to this node")
		return status.Errorf(codes.FailedPrecondition, "volume %q is not attached to node %q", v.ID, d.conf.NodeID)
	}
	if pc[publishKey] != d.conf.NodeID {
		d.violation(ViolationNotAttached, v.ID, d.conf.NodeID, "the publish context is not that of this node")
		return invalid("the publish context of volume %q is not that of node %q", v.ID, d.conf.NodeID)
	}
	return nil
}

// NodePublishVolume binds the staged volume to the target path.
func (d *driver) NodePublishVolume(ctx context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if target == "" || r.GetStagingTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("target path, staging path or capability is missing")
	}
	v, unlock, err := d.held(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := usable(v, r.GetVolumeId(), r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	how, err := optionsOf(r.GetVolumeCapability(), r.GetReadonly())
	if err != nil {
		return nil, err
	}
	table, err := mounts.Table()
	if err != nil {
		return nil, err
	}
	source, err := d.staged(v, r.GetStagingTargetPath(), table)
	if err != nil {
		return nil, err
	}
	if r.GetVolumeCapability().GetAccessMode().GetMode() == pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		others, err := published(v, source, target, table)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %q is published at %s", v.ID, others[0])
		}
	}
	if err := makeTarget(target, v.Block); err != nil {
		return nil, err
	}
	if err := bindOnce(source, target, how); err != nil {
		if on, e := mounts.IsPoint(target); e == nil && !on {
			err = errors.Join(err, os.Remove(target))
		}
		return nil, err
	}
	return &pb.NodePublishVolumeResponse{}, nil
}

// staged returns what to publish: the staging path, or the loop device.
func (d *driver) staged(v *volume, path string, table mounts.List) (string, error) {
	if v.Block {
		device, err := findLoop(d.books.image(d.conf.NodeID, v.ID))
		if err == nil && device == "" {
			err = status.Errorf(codes.FailedPrecondition, "volume %q has no loop device: it is not staged", v.ID)
		}
		return device, err
	}
	want, err := table.Of(d.books.data(v.ID))
	if err != nil {
		return "", err
	}
	if have := table.At(path); have == nil || !have.Same(want) {
		return "", status.Errorf(codes.FailedPrecondition, "volume %q is not staged at %s", v.ID, path)
	}
	return path, nil
}

// published lists where the volume is mounted, except its staging paths and one target.
func published(v *volume, source, target string, table mounts.List) ([]string, error) {
	want, err := table.Of(source)
	if err != nil {
		return nil, err
	}
	staged := map[string]bool{}
	for _, path := range v.Staged {
		if e := table.At(path); e != nil {
			staged[e.Point] = true
		}
	}
	self := target
	if e := table.At(target); e != nil {
		self = e.Point
	}
	var out []string
	for _, e := range table {
		if e.Same(want) && !staged[e.Point] && e.Point != self && e.Point != source {
			out = append(out, e.Point)
		}
	}
	return out, nil
}

// makeTarget makes the directory or file to mount on. One that is mounted on already stays as it is.
func makeTarget(target string, block bool) error {
	if on, err := mounts.IsPoint(target); err != nil || on {
		return err
	}
	if !block {
		if err := os.Mkdir(target, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make target: %w", err)
		}
		return nil
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make target: %w", err)
	}
	return f.Close()
}

// NodeUnpublishVolume unmounts the target path and removes it.
func (d *driver) NodeUnpublishVolume(ctx context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if target == "" {
		return nil, invalid("target path is missing")
	}
	v, unlock, err := d.held(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	on, err := mounts.IsPoint(target)
	if err != nil {
		return nil, err
	}
	if v == nil && !on {
		return nil, noVolume(r.GetVolumeId())
	}
	return &pb.NodeUnpublishVolumeResponse{}, unmountAndRemove(target)
}

func unmountAndRemove(target string) error {
	if err := mounts.Unmount(target); err != nil {
		return status.Errorf(codes.Internal, "%v", err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(codes.Internal, "remove target: %v", err)
	}
	return nil
}

// NodeUnstageVolume undoes staging; it refuses while the volume is published.
func (d *driver) NodeUnstageVolume(ctx context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if path == "" {
		return nil, invalid("staging path is missing")
	}
	v, unlock, err := d.held(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if err := d.unused(v, path); err != nil {
		return nil, err
	}
	if v.Block {
		err = d.loopOff(v)
	} else {
		err = mounts.Unmount(path)
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "%v", err)
	}
	delete(v.Staged, d.conf.NodeID)
	return &pb.NodeUnstageVolumeResponse{}, d.books.putVolume(v)
}

// unused refuses to unstage under a published target, when this node has it staged.
func (d *driver) unused(v *volume, path string) error {
	source := path
	if v.Block {
		device, err := findLoop(d.books.image(d.conf.NodeID, v.ID))
		if err != nil || device == "" {
			return err
		}
		source = device
	} else if on, err := mounts.IsPoint(path); err != nil || !on || len(v.Staged) > 1 {
		// Nodes on one machine share a mount table: the node of a target cannot be determined.
		return err
	}
	table, err := mounts.Table()
	if err != nil {
		return err
	}
	others, err := published(v, source, path, table)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		d.violation(ViolationUnstageUsed, v.ID, d.conf.NodeID, "the volume is published at "+others[0])
		return status.Errorf(codes.FailedPrecondition, "volume %q is published at %s", v.ID, others[0])
	}
	return nil
}

// NodeGetVolumeStats measures the file system or device below a path.
func (d *driver) NodeGetVolumeStats(_ context.Context, r *pb.NodeGetVolumeStatsRequest) (*pb.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumeId() == "" || r.GetVolumePath() == "" {
		return nil, invalid("volume id or path is missing")
	}
	v, err := d.mountedAt(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	out := &pb.NodeGetVolumeStatsResponse{}
	if v.Block {
		out.Usage = []*pb.VolumeUsage{{Total: v.SizeBytes, Unit: pb.VolumeUsage_BYTES}}
		return out, nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &s); err != nil {
		return nil, status.Errorf(codes.Internal, "measure %s: %v", r.GetVolumePath(), err)
	}
	size := func(blocks uint64) int64 { return int64(blocks) * s.Bsize }
	out.Usage = []*pb.VolumeUsage{
		{Total: size(s.Blocks), Available: size(s.Bavail), Used: size(s.Blocks - s.Bfree), Unit: pb.VolumeUsage_BYTES},
		{Total: int64(s.Files), Available: int64(s.Ffree), Used: int64(s.Files - s.Ffree), Unit: pb.VolumeUsage_INODES},
	}
	return out, nil
}

func (d *driver) mountedAt(id, path string) (*volume, error) {
	v, err := d.books.volume(id)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(id)
	}
	on, err := mounts.IsPoint(path)
	if err != nil {
		return nil, err
	}
	if !on && !(v.Block && v.Staged[d.conf.NodeID] == path) {
		return nil, status.Errorf(codes.NotFound, "volume %q is not at %s", id, path)
	}
	return v, nil
}

// NodeExpandVolume makes the loop device use the new size of its image.
func (d *driver) NodeExpandVolume(ctx context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetVolumePath() == "" {
		return nil, invalid("volume id or path is missing")
	}
	v, err := d.mountedAt(r.GetVolumeId(), r.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if low := r.GetCapacityRange().GetRequiredBytes(); low > v.SizeBytes {
		return nil, status.Errorf(codes.OutOfRange, "volume %q has %d bytes: the controller must expand it first", v.ID, v.SizeBytes)
	}
	if v.Block {
		if err := growLoop(d.books.image(d.conf.NodeID, v.ID)); err != nil {
			return nil, status.Errorf(codes.Internal, "%v", err)
		}
	}
	return &pb.NodeExpandVolumeResponse{CapacityBytes: v.SizeBytes}, nil
}
