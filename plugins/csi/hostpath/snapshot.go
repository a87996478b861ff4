package hostpath

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// readyAfterKey is the parameter of a snapshot, or of the volume that it is made of, that delays its readiness:
// a duration such as 90s. It plays storage that copies snapshots elsewhere after they were cut.
const readyAfterKey = "snapshot_ready_after"

func readyAfter(parameters ...map[string]string) (time.Duration, error) {
	for _, p := range parameters {
		text, ok := p[readyAfterKey]
		if !ok {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, invalid("parameter %s is %q: it must be a duration such as 90s", readyAfterKey, text)
		}
		return d, nil
	}
	return 0, nil
}

func noSnapshot(id string) error {
	return status.Errorf(codes.NotFound, "snapshot %q does not exist", id)
}

// CreateSnapshot copies a volume's data as it is now.
func (d *driver) CreateSnapshot(ctx context.Context, r *pb.CreateSnapshotRequest) (*pb.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, invalid("snapshot name or source volume is missing")
	}
	id := idOf("snap", r.GetName())
	unlock, err := d.lockNew(ctx, "snapshots", "snap", id)
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
	done, err := d.books.copying(ctx, r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := d.books.volume(r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(r.GetSourceVolumeId())
	}
	if v.Deleting {
		return nil, deleting(v.ID)
	}
	delay, err := readyAfter(r.GetParameters(), v.Parameters)
	if err != nil {
		return nil, err
	}
	s := &snapshot{ID: id, Name: r.GetName(), Source: v.ID, Block: v.Block, SizeBytes: v.SizeBytes, Created: time.Now()}
	if err := d.fits(s.SizeBytes); err != nil {
		return nil, status.Errorf(codes.ResourceExhausted, "a snapshot of %d bytes does not fit", s.SizeBytes)
	}
	if err := d.makeData(id, s.Block, s.SizeBytes, d.books.data(v.ID)); err != nil {
		return nil, err
	}
	if delay > 0 {
		s.Ready = time.Now().Add(delay)
	}
	return &pb.CreateSnapshotResponse{Snapshot: pbSnapshot(s)}, d.books.putSnapshot(s)
}

func pbSnapshot(s *snapshot) *pb.Snapshot {
	return &pb.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.SizeBytes,
		CreationTime: timestamppb.New(s.Created), ReadyToUse: s.ready(),
	}
}

// DeleteSnapshot removes a snapshot; volumes made of it have their own data.
func (d *driver) DeleteSnapshot(ctx context.Context, r *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, invalid("snapshot id is missing")
	}
	if err := d.markSnapshot(ctx, id); err != nil {
		return nil, err
	}
	return &pb.DeleteSnapshotResponse{}, d.endDeletion(ctx, "snapshots", "snap", id)
}

// markSnapshot has a snapshot deleted: from now on it is not copied.
func (d *driver) markSnapshot(ctx context.Context, id string) error {
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := d.books.snapshot(id)
	if err != nil || s == nil || s.Deleting {
		return err
	}
	if err := unmounted(d.books.data(id)); err != nil {
		return err
	}
	s.Deleting = true
	return d.books.putSnapshot(s)
}

// GetSnapshot describes one snapshot.
func (d *driver) GetSnapshot(_ context.Context, r *pb.GetSnapshotRequest) (*pb.GetSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, invalid("snapshot id is missing")
	}
	s, err := d.books.snapshot(r.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, noSnapshot(r.GetSnapshotId())
	}
	return &pb.GetSnapshotResponse{Snapshot: pbSnapshot(s)}, nil
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
