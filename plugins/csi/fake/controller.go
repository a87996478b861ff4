package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

func boolValue(b bool) *wrapperspb.BoolValue { return wrapperspb.Bool(b) }

func invalid(text string) error { return status.Error(codes.InvalidArgument, text) }

func noVolume(id string) error { return status.Errorf(codes.NotFound, "volume %q does not exist", id) }

// ControllerGetCapabilities says what Config says.
func (d *Driver) ControllerGetCapabilities(context.Context, *pb.ControllerGetCapabilitiesRequest) (*pb.ControllerGetCapabilitiesResponse, error) {
	can := []pb.ControllerServiceCapability_RPC_Type{
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, pb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		pb.ControllerServiceCapability_RPC_EXPAND_VOLUME, pb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		pb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	}
	if d.conf.Attach {
		can = append(can, pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if d.conf.ReadOnlyAttach {
		can = append(can, pb.ControllerServiceCapability_RPC_PUBLISH_READONLY)
	}
	out := &pb.ControllerGetCapabilitiesResponse{}
	for _, t := range can {
		out.Capabilities = append(out.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
			Rpc: &pb.ControllerServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

// CreateVolume makes a volume; the same name answers the same volume.
func (d *Driver) CreateVolume(_ context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	if r.GetName() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("name or capabilities are missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetAccessibilityRequirements() != nil && len(d.conf.Topology) == 0 {
		s.violatedLocked("topology was sent to a driver without topologies")
	}
	size := max(r.GetCapacityRange().GetRequiredBytes(), 1)
	block := r.GetVolumeCapabilities()[0].GetBlock() != nil
	source := r.GetVolumeContentSource().GetSnapshot().GetSnapshotId()
	if id := r.GetVolumeContentSource().GetVolume().GetVolumeId(); id != "" && s.volumes[id] == nil {
		return nil, noVolume(id)
	}
	if source != "" && s.snapshots[source] == nil {
		return nil, status.Errorf(codes.NotFound, "snapshot %q does not exist", source)
	}
	for _, v := range s.volumes {
		if v.name == r.GetName() {
			if v.size != size || v.block != block {
				return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with other properties", v.name)
			}
			return &pb.CreateVolumeResponse{Volume: d.pb(v)}, nil
		}
	}
	s.next++
	v := s.addLocked(fmt.Sprintf("fake-%d", s.next), r.GetName(), size, block)
	v.source = source
	return &pb.CreateVolumeResponse{Volume: d.pb(v)}, nil
}

func (d *Driver) pb(v *volume) *pb.Volume {
	out := &pb.Volume{VolumeId: v.id, CapacityBytes: v.size, VolumeContext: map[string]string{"name": v.name}}
	if v.source != "" {
		out.ContentSource = &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Snapshot{
			Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: v.source},
		}}
	}
	if d.conf.Topology != nil {
		out.AccessibleTopology = []*pb.Topology{{Segments: d.conf.Topology}}
	}
	if d.conf.NilEntries {
		out.AccessibleTopology = append([]*pb.Topology{{}}, out.AccessibleTopology...)
	}
	return out
}

// DeleteVolume removes a volume that is not in use.
func (d *Driver) DeleteVolume(_ context.Context, r *pb.DeleteVolumeRequest) (*pb.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.volumes[r.GetVolumeId()]; v != nil {
		if n := len(v.attached) + len(v.staged) + len(v.published); n > 0 {
			s.violatedLocked("delete of volume %s, which is in use", v.id)
			return nil, status.Errorf(codes.FailedPrecondition, "volume %q is in use", v.id)
		}
		delete(s.volumes, v.id)
	}
	return &pb.DeleteVolumeResponse{}, nil
}

// ControllerPublishVolume attaches a volume to a node.
func (d *Driver) ControllerPublishVolume(_ context.Context, r *pb.ControllerPublishVolumeRequest) (*pb.ControllerPublishVolumeResponse, error) {
	if !d.conf.Attach {
		return nil, status.Error(codes.Unimplemented, "no attaching")
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
	case s.nodes[r.GetNodeId()] == nil:
		return nil, status.Errorf(codes.NotFound, "node %q does not exist", r.GetNodeId())
	}
	if r.GetReadonly() && !d.conf.ReadOnlyAttach {
		s.violatedLocked("read-only attachment asked of a driver without it")
	}
	want := attachment{r.GetReadonly(), r.GetVolumeCapability().GetAccessMode().GetMode()}
	if have, ok := v.attached[r.GetNodeId()]; ok {
		if have.readOnly != want.readOnly {
			return nil, status.Error(codes.AlreadyExists, "attached in another way")
		}
	} else if len(v.attached) > 0 && singleNode(want.mode) {
		s.violatedLocked("double attach of volume %s to %s", v.id, r.GetNodeId())
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is attached to %v", v.id, slices.Sorted(maps.Keys(v.attached)))
	}
	v.attached[r.GetNodeId()] = want
	return &pb.ControllerPublishVolumeResponse{PublishContext: map[string]string{"attached": r.GetNodeId()}}, nil
}

func singleNode(m pb.VolumeCapability_AccessMode_Mode) bool {
	switch m {
	case pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return false
	}
	return true
}

// ControllerUnpublishVolume detaches a volume.
func (d *Driver) ControllerUnpublishVolume(_ context.Context, r *pb.ControllerUnpublishVolumeRequest) (*pb.ControllerUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
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
				s.violatedLocked("detach of volume %s from %s, where it is staged or published", v.id, n)
			}
			delete(v.attached, n)
		}
	}
	return &pb.ControllerUnpublishVolumeResponse{}, nil
}

// ValidateVolumeCapabilities confirms everything of existing volumes.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, r *pb.ValidateVolumeCapabilitiesRequest) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume id or capabilities are missing")
	}
	if !d.store.Exists(r.GetVolumeId()) {
		return nil, noVolume(r.GetVolumeId())
	}
	return &pb.ValidateVolumeCapabilitiesResponse{Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: r.GetVolumeCapabilities(),
	}}, nil
}

func page[T any](items []T, token string, most int32) ([]T, string, error) {
	start := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(items) {
			return nil, "", status.Error(codes.Aborted, "unknown starting token")
		}
		start = n
	}
	items = items[start:]
	if most > 0 && int(most) < len(items) {
		return items[:most], strconv.Itoa(start + int(most)), nil
	}
	return items, "", nil
}

// ListVolumes lists volumes, with holes when Config says so.
func (d *Driver) ListVolumes(_ context.Context, r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, next, err := page(slices.Sorted(maps.Keys(s.volumes)), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &pb.ListVolumesResponse{NextToken: next}
	if d.conf.NilEntries {
		out.Entries = append(out.Entries, &pb.ListVolumesResponse_Entry{})
	}
	for _, id := range ids {
		out.Entries = append(out.Entries, &pb.ListVolumesResponse_Entry{Volume: d.pb(s.volumes[id])})
	}
	return out, nil
}

// ControllerExpandVolume grows a volume; nodes must follow.
func (d *Driver) ControllerExpandVolume(_ context.Context, r *pb.ControllerExpandVolumeRequest) (*pb.ControllerExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetCapacityRange() == nil {
		return nil, invalid("volume id or capacity is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumes[r.GetVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	v.size = max(v.size, r.GetCapacityRange().GetRequiredBytes())
	return &pb.ControllerExpandVolumeResponse{CapacityBytes: v.size, NodeExpansionRequired: true}, nil
}

// CreateSnapshot makes a snapshot; the same name answers the same snapshot.
func (d *Driver) CreateSnapshot(_ context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, invalid("name or source is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.snapshots {
		if have.name == r.GetName() {
			if have.source != r.GetSourceVolumeId() {
				return nil, status.Error(codes.AlreadyExists, "the snapshot is of another volume")
			}
			return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(have)}, nil
		}
	}
	v := s.volumes[r.GetSourceVolumeId()]
	if v == nil {
		return nil, noVolume(r.GetSourceVolumeId())
	}
	s.next++
	n := &snapshot{id: fmt.Sprintf("fake-snap-%d", s.next), name: r.GetName(), source: v.id, size: v.size}
	s.snapshots[n.id] = n
	return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(n)}, nil
}

func pbSnapshot(s *snapshot) *pb.Snapshot {
	return &pb.Snapshot{SnapshotId: s.id, SourceVolumeId: s.source, SizeBytes: s.size, ReadyToUse: true, CreationTime: timestamppb.Now()}
}

// DeleteSnapshot removes a snapshot.
func (d *Driver) DeleteSnapshot(_ context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, invalid("snapshot id is missing")
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	delete(d.store.snapshots, r.GetSnapshotId())
	return &pb.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists snapshots.
func (d *Driver) ListSnapshots(_ context.Context, r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	var match []*snapshot
	for _, id := range slices.Sorted(maps.Keys(s.snapshots)) {
		n := s.snapshots[id]
		if (r.GetSnapshotId() == "" || r.GetSnapshotId() == id) && (r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == n.source) {
			match = append(match, n)
		}
	}
	match, next, err := page(match, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &pb.ListSnapshotsResponse{NextToken: next}
	if d.conf.NilEntries {
		out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{})
	}
	for _, n := range match {
		out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{Snapshot: pbSnapshot(n)})
	}
	return out, nil
}
