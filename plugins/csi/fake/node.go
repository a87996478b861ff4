package fake

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// NodeGetCapabilities says what Config says.
func (d *Driver) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	can := []pb.NodeServiceCapability_RPC_Type{pb.NodeServiceCapability_RPC_EXPAND_VOLUME}
	if !d.conf.NoStage {
		can = append(can, pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	if d.conf.MountGroup {
		can = append(can, pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	}
	out := &pb.NodeGetCapabilitiesResponse{}
	for _, t := range can {
		out.Capabilities = append(out.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{
			Rpc: &pb.NodeServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

// NodeGetInfo names the node.
func (d *Driver) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &pb.NodeGetInfoResponse{NodeId: d.conf.NodeID, MaxVolumesPerNode: d.conf.MaxVolumes}
	if d.conf.Topology != nil {
		out.AccessibleTopology = &pb.Topology{Segments: d.conf.Topology}
	}
	return out, nil
}

// Rename gives the node another provider's id, as a plugin with a new configuration has.
func (d *Driver) Rename(nodeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conf.NodeID = nodeID
}

func (d *Driver) dataOf(id string) string { return filepath.Join(d.conf.DataDir, id) }

// bind mounts the data of a volume when mounts are real. What is mounted already stays.
func (d *Driver) bind(id, path string, readOnly bool) error {
	if d.conf.DataDir == "" {
		return nil
	}
	if on, err := mounts.IsPoint(path); err != nil || on {
		return err
	}
	if err := os.MkdirAll(d.dataOf(id), 0o755); err != nil {
		return err
	}
	return mounts.Bind(d.dataOf(id), path, mounts.Flags{ReadOnly: readOnly})
}

func (d *Driver) unbind(path string) error {
	if d.conf.DataDir == "" {
		return nil
	}
	return mounts.Unmount(path)
}

// NodeStageVolume stages a volume.
func (d *Driver) NodeStageVolume(_ context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	path := r.GetStagingTargetPath()
	if r.GetVolumeId() == "" || path == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("volume, staging path or capability is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if err := d.attachedLocked(v, r.GetPublishContext()); err != nil {
		return nil, err
	}
	for other := range v.staged[d.conf.NodeID] {
		if other != path {
			s.violatedLocked("volume %s is staged at %s and at %s", v.id, other, path)
		}
	}
	if v.staged[d.conf.NodeID] == nil {
		v.staged[d.conf.NodeID] = map[string]bool{}
	}
	v.staged[d.conf.NodeID][path] = true
	return &pb.NodeStageVolumeResponse{}, d.bind(v.id, path, false)
}

func (d *Driver) attachedLocked(v *volume, pc map[string]string) error {
	if !d.conf.Attach {
		return nil
	}
	if _, ok := v.attached[d.conf.NodeID]; !ok || pc["attached"] != d.conf.NodeID {
		d.store.violatedLocked("volume %s is used on %s without being attached there", v.id, d.conf.NodeID)
		return status.Errorf(codes.FailedPrecondition, "volume %q is not attached", v.id)
	}
	return nil
}

// NodePublishVolume publishes a volume.
func (d *Driver) NodePublishVolume(_ context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	target := r.GetTargetPath()
	if r.GetVolumeId() == "" || target == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("volume, target path or capability is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if err := d.attachedLocked(v, r.GetPublishContext()); err != nil {
		return nil, err
	}
	switch {
	case d.conf.NoStage && r.GetStagingTargetPath() != "":
		s.violatedLocked("a staging path was sent to a driver that does not stage")
	case !d.conf.NoStage && !v.staged[d.conf.NodeID][r.GetStagingTargetPath()]:
		s.violatedLocked("volume %s is published before it is staged", v.id)
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is not staged", v.id)
	}
	if v.published[d.conf.NodeID] == nil {
		v.published[d.conf.NodeID] = map[string]string{}
	}
	how := r.GetVolumeCapability().String()
	if r.GetReadonly() {
		how += " ro"
	}
	if have, ok := v.published[d.conf.NodeID][target]; ok && have != how {
		return nil, status.Errorf(codes.AlreadyExists, "%s is published in another way", target)
	}
	v.published[d.conf.NodeID][target] = how
	if d.conf.NoMountAtTarget {
		return &pb.NodePublishVolumeResponse{}, nil
	}
	if on, err := mounts.IsPoint(target); err != nil {
		return nil, err
	} else if !on {
		if err := os.Mkdir(target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return &pb.NodePublishVolumeResponse{}, d.bind(v.id, target, r.GetReadonly())
}

// NodeUnpublishVolume takes a volume away from a target.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetTargetPath() == "" {
		return nil, invalid("volume or target path is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if err := d.unbind(r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if delete(v.published[d.conf.NodeID], r.GetTargetPath()); len(v.published[d.conf.NodeID]) == 0 {
		delete(v.published, d.conf.NodeID)
	}
	return &pb.NodeUnpublishVolumeResponse{}, nil
}

// NodeUnstageVolume undoes staging.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" {
		return nil, invalid("volume or staging path is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if n := len(v.published[d.conf.NodeID]); n > 0 {
		s.violatedLocked("unstage of volume %s under %d published targets", v.id, n)
	}
	if err := d.unbind(r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if delete(v.staged[d.conf.NodeID], r.GetStagingTargetPath()); len(v.staged[d.conf.NodeID]) == 0 {
		delete(v.staged, d.conf.NodeID)
	}
	return &pb.NodeUnstageVolumeResponse{}, nil
}

// NodeExpandVolume answers the size.
func (d *Driver) NodeExpandVolume(_ context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetVolumePath() == "" {
		return nil, invalid("volume or path is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if d.conf.NoStage && r.GetStagingTargetPath() != "" {
		s.violatedLocked("a staging path was sent to a driver that does not stage")
	}
	return &pb.NodeExpandVolumeResponse{CapacityBytes: v.size}, nil
}
