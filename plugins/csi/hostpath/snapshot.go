package hostpath

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// CreateSnapshot copies a volume's data as it is now.
func (d *driver) CreateSnapshot(ctx context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, invalid("snapshot name or source volume is missing")
	}
	id := idOf("snap", r.GetName())
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := d.books.snapshot(id)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if old.Source != r.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists of another volume", old.Name)
		}
		return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(old)}, nil
	}
	v, err := d.books.volume(r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(r.GetSourceVolumeId())
	}
	s := &snapshot{ID: id, Name: r.GetName(), Source: v.ID, Block: v.Block, SizeBytes: v.SizeBytes, Created: time.Now()}
	if err := d.room(s.SizeBytes); err != nil {
		return nil, status.Errorf(codes.ResourceExhausted, "no room for a snapshot of %d bytes", s.SizeBytes)
	}
	if err := d.makeData(id, s.Block, s.SizeBytes, d.books.data(v.ID)); err != nil {
		return nil, err
	}
	return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(s)}, d.books.putSnapshot(s)
}

func pbSnapshot(s *snapshot) *pb.Snapshot {
	return &pb.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.SizeBytes,
		CreationTime: timestamppb.New(s.Created), ReadyToUse: true,
	}
}

// DeleteSnapshot removes a snapshot; volumes made of it have their own data.
func (d *driver) DeleteSnapshot(ctx context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, invalid("snapshot id is missing")
	}
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := d.books.snapshot(id)
	if err != nil || s == nil {
		return &pb.DeleteSnapshotResponse{}, err
	}
	if err := d.books.drop("snapshots", id); err != nil {
		return nil, err
	}
	return &pb.DeleteSnapshotResponse{}, os.RemoveAll(d.books.data(id))
}

// ListSnapshots lists snapshots, all or those of a volume, or one by its id.
func (d *driver) ListSnapshots(_ context.Context, r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	if r.GetMaxEntries() < 0 {
		return nil, invalid("max entries must not be negative")
	}
	snapshots, err := all[snapshot](d.books, "snapshots")
	if err != nil {
		return nil, err
	}
	var match []*snapshot
	for _, s := range snapshots {
		if (r.GetSnapshotId() == "" || r.GetSnapshotId() == s.ID) && (r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.Source) {
			match = append(match, s)
		}
	}
	match, next, err := page(match, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &pb.ListSnapshotsResponse{NextToken: next}
	for _, s := range match {
		out.Entries = append(out.Entries, &pb.ListSnapshotsResponse_Entry{Snapshot: pbSnapshot(s)})
	}
	return out, nil
}
