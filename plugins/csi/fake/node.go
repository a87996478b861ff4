package fake

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi/mounts"
)

// NodeGetCapabilities returns the capabilities of Config.
func (d *Driver) NodeGetCapabilities(context.Context, *pb.NodeGetCapabilitiesRequest) (*pb.NodeGetCapabilitiesResponse, error) {
	c := d.config()
	out := &pb.NodeGetCapabilitiesResponse{}
	for t, on := range map[pb.NodeServiceCapability_RPC_Type]bool{
		pb.NodeServiceCapability_RPC_EXPAND_VOLUME:        true,
		pb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME: !c.NoStage,
		pb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:   c.MountGroup,
	} {
		if on {
			out.Capabilities = append(out.Capabilities, &pb.NodeServiceCapability{Type: &pb.NodeServiceCapability_Rpc{
				Rpc: &pb.NodeServiceCapability_RPC{Type: t},
			}})
		}
	}
	slices.SortFunc(out.Capabilities, func(a, b *pb.NodeServiceCapability) int { return int(a.GetRpc().GetType() - b.GetRpc().GetType()) })
	return out, nil
}

// NodeGetInfo names the node.
func (d *Driver) NodeGetInfo(context.Context, *pb.NodeGetInfoRequest) (*pb.NodeGetInfoResponse, error) {
	c := d.config()
	out := &pb.NodeGetInfoResponse{NodeId: c.NodeID}
	if c.Topology != nil {
		out.AccessibleTopology = &pb.Topology{Segments: c.Topology}
	}
	return out, nil
}

// bind mounts a directory when mounts are made. What is mounted already stays.
func (c *Config) bind(source, path string, readOnly bool) error {
	if c.DataDir == "" {
		return nil
	}
	if on, err := c.Host.IsPoint(path); err != nil || on {
		return err
	}
	if err := c.Host.MakeDir(source); err != nil {
		return err
	}
	return c.Host.Bind(source, path, mounts.Flags{ReadOnly: readOnly})
}

func (c *Config) unbind(path string) error {
	if c.DataDir == "" {
		return nil
	}
	return c.Host.Unmount(path)
}

func put(all map[string]map[string]mount, node, path string, m mount) {
	if all[node] == nil {
		all[node] = map[string]mount{}
	}
	all[node][path] = m
}

func remove(all map[string]map[string]mount, node, path string) {
	if delete(all[node], path); len(all[node]) == 0 {
		delete(all, node)
	}
}

// NodeStageVolume stages a volume.
func (d *Driver) NodeStageVolume(_ context.Context, r *pb.NodeStageVolumeRequest) (*pb.NodeStageVolumeResponse, error) {
	c, path, want := d.config(), r.GetStagingTargetPath(), mount{capability: r.GetVolumeCapability()}
	if r.GetVolumeId() == "" || path == "" || want.capability == nil {
		return nil, invalid("volume, staging path or capability is missing")
	}
	if err := d.offered("NodeStageVolume", !c.NoStage); err != nil {
		return nil, err
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.attachedLocked(v, &c, r.GetPublishContext(), want); err != nil {
		return nil, err
	}
	for other := range v.staged[c.NodeID] {
		if other != path {
			s.violatedLocked(c.NodeID, "volume %s is staged at %s and at %s", v.id, other, path)
		}
	}
	have, staged := v.staged[c.NodeID][path]
	if staged && !have.like(want) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %q is staged at %s in another way", v.id, path)
	}
	if !c.NoMountAtStaging && (!staged || !c.BelievesStaged) {
		if err := c.bind(filepath.Join(c.DataDir, v.id), path, false); err != nil {
			return nil, err
		}
	}
	put(v.staged, c.NodeID, path, want)
	return &pb.NodeStageVolumeResponse{}, nil
}

// attachedLocked wants a volume attached for what is asked.
func (s *Storage) attachedLocked(v *volume, c *Config, pc map[string]string, want mount) error {
	if !c.Attach {
		return nil
	}
	have, ok := v.attached[c.NodeID]
	if !ok || pc["attached"] != c.NodeID {
		s.violatedLocked(c.NodeID, "volume %s is used on %s without being attached there", v.id, c.NodeID)
		return status.Errorf(codes.FailedPrecondition, "volume %q is not attached", v.id)
	}
	if want.writes() && (have.readOnly || readers(have.mode)) {
		s.violatedLocked(c.NodeID, "volume %s is used for writing on %s, where it is attached for readers", v.id, c.NodeID)
		return status.Errorf(codes.FailedPrecondition, "volume %q is attached for readers", v.id)
	}
	return nil
}

// NodePublishVolume publishes a volume.
func (d *Driver) NodePublishVolume(_ context.Context, r *pb.NodePublishVolumeRequest) (*pb.NodePublishVolumeResponse, error) {
	c, target, want := d.config(), r.GetTargetPath(), mount{r.GetVolumeCapability(), r.GetReadonly()}
	if r.GetVolumeId() == "" || target == "" || want.capability == nil {
		return nil, invalid("volume, target path or capability is missing")
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.publishableLocked(v, &c, r); err != nil {
		return nil, err
	}
	if have, ok := v.published[c.NodeID][target]; ok && !have.like(want) {
		return nil, status.Errorf(codes.AlreadyExists, "%s is published in another way", target)
	}
	s.aloneLocked(v, &c, target, want)
	source := filepath.Join(c.DataDir, v.id)
	if c.PublishStaging {
		source = r.GetStagingTargetPath()
	}
	switch {
	case c.MakeNode != nil && want.capability.GetBlock() != nil:
		c.MakeNode(target)
	case !c.NoMountAtTarget:
		if err := errors.Join(c.Host.MakeDir(target), c.bind(source, target, want.readOnly)); err != nil {
			return nil, err
		}
	}
	put(v.published, c.NodeID, target, want)
	return &pb.NodePublishVolumeResponse{}, nil
}

// publishableLocked wants a volume attached and staged.
func (s *Storage) publishableLocked(v *volume, c *Config, r *pb.NodePublishVolumeRequest) error {
	want := mount{r.GetVolumeCapability(), r.GetReadonly()}
	if err := s.attachedLocked(v, c, r.GetPublishContext(), want); err != nil {
		return err
	}
	if c.NoStage {
		if r.GetStagingTargetPath() != "" {
			s.violatedLocked(c.NodeID, "a staging path was sent to a driver that does not stage")
		}
		return nil
	}
	staged, ok := v.staged[c.NodeID][r.GetStagingTargetPath()]
	if !ok {
		s.violatedLocked(c.NodeID, "volume %s is published before it is staged", v.id)
		return status.Errorf(codes.FailedPrecondition, "volume %q is not staged", v.id)
	}
	if want.writes() && readers(staged.mode()) {
		s.violatedLocked(c.NodeID, "volume %s is published for writing on %s, where it is staged for readers", v.id, c.NodeID)
	}
	return nil
}

// aloneLocked watches that a volume with a single writer has no other.
func (s *Storage) aloneLocked(v *volume, c *Config, target string, want mount) {
	if !want.writes() {
		return
	}
	for node, targets := range v.published {
		for other, m := range targets {
			if (node != c.NodeID || other != target) && m.writes() && (singleWriter(want.mode()) || singleWriter(m.mode())) && !s.excused[node] {
				s.violatedLocked(c.NodeID, "two writers of volume %s: %s:%s and %s:%s", v.id, node, other, c.NodeID, target)
			}
		}
	}
}

// NodeUnpublishVolume takes a volume away from a target.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *pb.NodeUnpublishVolumeRequest) (*pb.NodeUnpublishVolumeResponse, error) {
	c := d.config()
	if r.GetVolumeId() == "" || r.GetTargetPath() == "" {
		return nil, invalid("volume or target path is missing")
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := c.unbind(r.GetTargetPath()); err != nil {
		return nil, err
	}
	if !c.KeepTarget {
		if err := c.Host.RemoveLeaf(r.GetTargetPath()); err != nil {
			return nil, err
		}
	}
	remove(v.published, c.NodeID, r.GetTargetPath())
	return &pb.NodeUnpublishVolumeResponse{}, nil
}

// NodeUnstageVolume undoes staging.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *pb.NodeUnstageVolumeRequest) (*pb.NodeUnstageVolumeResponse, error) {
	c := d.config()
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" {
		return nil, invalid("volume or staging path is missing")
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if n := len(v.published[c.NodeID]); n > 0 {
		s.violatedLocked(c.NodeID, "unstage of volume %s under %d published targets", v.id, n)
	}
	if err := c.unbind(r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	remove(v.staged, c.NodeID, r.GetStagingTargetPath())
	return &pb.NodeUnstageVolumeResponse{}, nil
}

// NodeExpandVolume returns the size. Without expansion by the controller it makes the volume grow itself.
func (d *Driver) NodeExpandVolume(_ context.Context, r *pb.NodeExpandVolumeRequest) (*pb.NodeExpandVolumeResponse, error) {
	c := d.config()
	if r.GetVolumeId() == "" || r.GetVolumePath() == "" {
		return nil, invalid("volume or path is missing")
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if c.NoStage && r.GetStagingTargetPath() != "" {
		s.violatedLocked(c.NodeID, "a staging path was sent to a driver that does not stage")
	}
	if c.NoExpand {
		v.size = max(v.size, r.GetCapacityRange().GetRequiredBytes())
	}
	return &pb.NodeExpandVolumeResponse{CapacityBytes: v.size}, nil
}
