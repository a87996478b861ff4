package fake

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// ControllerPublishVolume attaches a volume to a node.
func (d *Driver) ControllerPublishVolume(_ context.Context, r *pb.ControllerPublishVolumeRequest) (*pb.ControllerPublishVolumeResponse, error) {
	c := d.config()
	if err := d.offered("ControllerPublishVolume", c.Attach); err != nil {
		return nil, err
	}
	if r.GetVolumeId() == "" || r.GetNodeId() == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("volume, node or capability is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	switch {
	case v == nil:
		return nil, noVolume(r.GetVolumeId())
	case !s.nodes[r.GetNodeId()]:
		return nil, status.Errorf(codes.NotFound, "node %q does not exist", r.GetNodeId())
	}
	if r.GetReadonly() && !c.ReadOnlyAttach {
		s.violatedLocked("", "read-only attachment asked of a driver without it")
	}
	want := attachment{readOnly: r.GetReadonly(), mode: r.GetVolumeCapability().GetAccessMode().GetMode()}
	if have, ok := v.attached[r.GetNodeId()]; ok {
		if have != want {
			return nil, status.Errorf(codes.AlreadyExists, "volume %q is attached as %s", v.id, have.mode)
		}
	} else if err := s.attachableLocked(v, r.GetNodeId(), want); err != nil {
		return nil, err
	}
	v.attached[r.GetNodeId()] = want
	return &pb.ControllerPublishVolumeResponse{PublishContext: map[string]string{"attached": r.GetNodeId()}}, nil
}

// attachableLocked refuses a second node where either side is for one node only.
func (s *Storage) attachableLocked(v *volume, node string, want attachment) error {
	for _, other := range slices.Sorted(maps.Keys(v.attached)) {
		if singleNode(want.mode) || singleNode(v.attached[other].mode) {
			s.violatedLocked(other, "double attach of volume %s to %s", v.id, node)
			return status.Errorf(codes.FailedPrecondition, "volume %q is attached to %v", v.id, slices.Sorted(maps.Keys(v.attached)))
		}
	}
	return nil
}

// ControllerUnpublishVolume detaches a volume.
func (d *Driver) ControllerUnpublishVolume(_ context.Context, r *pb.ControllerUnpublishVolumeRequest) (*pb.ControllerUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
	}
	if err := d.offered("ControllerUnpublishVolume", d.config().Attach); err != nil {
		return nil, err
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.volumes[r.GetVolumeId()]; v != nil {
		for n := range v.attached {
			if r.GetNodeId() != "" && r.GetNodeId() != n {
				continue
			}
			if len(v.staged[n])+len(v.published[n]) > 0 {
				s.violatedLocked(n, "detach of volume %s from %s, where it is staged or published", v.id, n)
			}
			delete(v.attached, n)
		}
	}
	return &pb.ControllerUnpublishVolumeResponse{}, nil
}
