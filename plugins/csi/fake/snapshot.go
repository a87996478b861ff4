package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// CreateSnapshot makes a snapshot; the same name returns the same snapshot.
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
	n := &snapshot{id: fmt.Sprintf("fake-snap-%d", s.next), name: r.GetName(), source: v.id, size: v.size, cut: time.Now()}
	s.snapshots[n.id] = n
	return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(n)}, nil
}

func pbSnapshot(s *snapshot) *pb.Snapshot {
	return &pb.Snapshot{
		SnapshotId: s.id, SourceVolumeId: s.source, SizeBytes: s.size, GroupSnapshotId: s.group,
		ReadyToUse: true, CreationTime: timestamppb.New(s.cut),
	}
}

// DeleteSnapshot removes a snapshot.
func (d *Driver) DeleteSnapshot(_ context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, invalid("snapshot id is missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.snapshots[r.GetSnapshotId()]; n != nil && n.group != "" {
		s.violatedLocked("", "snapshot %s is deleted without its group %s", n.id, n.group)
		return nil, invalid("the snapshot is part of a group")
	}
	delete(s.snapshots, r.GetSnapshotId())
	return &pb.DeleteSnapshotResponse{}, nil
}

// GetSnapshot describes one snapshot.
func (d *Driver) GetSnapshot(_ context.Context, r *pb.GetSnapshotRequest) (*pb.GetSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, invalid("snapshot id is missing")
	}
	if err := d.offered("GetSnapshot", d.config().GetSnapshot); err != nil {
		return nil, err
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.snapshots[r.GetSnapshotId()]
	if n == nil {
		return nil, status.Errorf(codes.NotFound, "snapshot %q does not exist", r.GetSnapshotId())
	}
	return &pb.GetSnapshotResponse{Snapshot: pbSnapshot(n)}, nil
}

// ListSnapshots lists snapshots.
func (d *Driver) ListSnapshots(_ context.Context, r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	c := d.config()
	if err := d.offered("ListSnapshots", !c.NoLists); err != nil {
		return nil, err
	}
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
	if c.NilEntries {
		out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{})
	}
	for _, n := range match {
		out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{Snapshot: pbSnapshot(n)})
	}
	return out, nil
}
