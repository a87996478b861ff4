package hostpath

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// defaultSize is the size of a volume whose request names none.
const defaultSize = 1 << 30

// ControllerGetCapabilities returns the capabilities of the controller.
func (d *driver) ControllerGetCapabilities(context.Context, *pb.ControllerGetCapabilitiesRequest) (*pb.ControllerGetCapabilitiesResponse, error) {
	can := []pb.ControllerServiceCapability_RPC_Type{
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		pb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		pb.ControllerServiceCapability_RPC_GET_VOLUME,
		pb.ControllerServiceCapability_RPC_GET_CAPACITY,
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		pb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		pb.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		pb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		pb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		pb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.conf.Attach {
		can = append(can, pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			pb.ControllerServiceCapability_RPC_PUBLISH_READONLY, pb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	}
	out := &pb.ControllerGetCapabilitiesResponse{}
	for _, t := range can {
		out.Capabilities = append(out.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
			Rpc: &pb.ControllerServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func deleting(id string) error {
	return status.Errorf(codes.FailedPrecondition, "%q is being deleted", id)
}

func noVolume(id string) error { return status.Errorf(codes.NotFound, "volume %q does not exist", id) }

// blockOf checks capabilities and reports whether they ask for a block device.
func blockOf(caps ...*pb.VolumeCapability) (bool, error) {
	block, mount := false, false
	for _, c := range caps {
		switch {
		case c == nil:
			return false, invalid("a volume capability is missing")
		case c.GetBlock() != nil:
			block = true
		case c.GetMount() != nil:
			mount = true
		default:
			return false, invalid("a volume capability has no access type")
		}
		if c.GetAccessMode().GetMode() == pb.VolumeCapability_AccessMode_UNKNOWN {
			return false, invalid("a volume capability has no access mode")
		}
	}
	if block && mount {
		return false, invalid("a volume is a file system or a block device, not both")
	}
	return block, nil
}

// sizeOf picks a size within the range that is not below least, the size of the data that is there already.
func sizeOf(r *pb.CapacityRange, least int64) (int64, error) {
	low, high := r.GetRequiredBytes(), r.GetLimitBytes()
	switch {
	case low < 0 || high < 0:
		return 0, invalid("capacities must not be negative")
	case high > 0 && low > high:
		return 0, status.Errorf(codes.OutOfRange, "required capacity %d is above its limit %d", low, high)
	case high > 0 && least > high:
		return 0, status.Errorf(codes.OutOfRange, "there are %d bytes already and the limit is %d", least, high)
	}
	size := max(low, least)
	if size == 0 {
		size = defaultSize
		if high > 0 {
			size = min(size, high)
		}
	}
	return size, nil
}

// CreateVolume makes a volume, empty or of a source.
func (d *driver) CreateVolume(ctx context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	if r.GetName() == "" {
		return nil, invalid("volume name is missing")
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume capabilities are missing")
	}
	block, err := blockOf(r.GetVolumeCapabilities()...)
	if err == nil {
		err = checkOptions(r.GetVolumeCapabilities())
	}
	if err != nil {
		return nil, err
	}
	if _, err := readyAfter(r.GetParameters()); err != nil {
		return nil, err
	}
	id := idOf("vol", r.GetName())
	unlock, err := d.lockNew(ctx, "volumes", "vol", id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := d.books.volume(id)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return sameVolume(old, r, block)
	}
	v := &volume{
		ID: id, Name: r.GetName(), Block: block, Parameters: r.GetParameters(),
		Topologies: d.place(r.GetAccessibilityRequirements()),
	}
	if from := r.GetVolumeContentSource(); from != nil {
		done, err := d.books.copying(ctx, cmp.Or(from.GetVolume().GetVolumeId(), from.GetSnapshot().GetSnapshotId()))
		if err != nil {
			return nil, err
		}
		defer done()
	}
	source, err := d.source(r, v)
	if err != nil {
		return nil, err
	}
	if err := d.fill(ctx, v, source); err != nil {
		return nil, err
	}
	return created(v), nil
}

// sameVolume serves a repeated creation.
func sameVolume(v *volume, r *pb.CreateVolumeRequest, block bool) (*pb.CreateVolumeResponse, error) {
	low, high := r.GetCapacityRange().GetRequiredBytes(), r.GetCapacityRange().GetLimitBytes()
	if v.SizeBytes < low || high > 0 && v.SizeBytes > high || v.Block != block ||
		v.CloneOf != r.GetVolumeContentSource().GetVolume().GetVolumeId() ||
		v.SnapshotOf != r.GetVolumeContentSource().GetSnapshot().GetSnapshotId() {
		return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with other properties", v.Name)
	}
	return created(v), nil
}

func created(v *volume) *pb.CreateVolumeResponse {
	return &pb.CreateVolumeResponse{Volume: pbVolume(v)}
}

func pbVolume(v *volume) *pb.Volume {
	out := &pb.Volume{VolumeId: v.ID, CapacityBytes: v.SizeBytes, VolumeContext: map[string]string{"name": v.Name, "block": strconv.FormatBool(v.Block)}}
	for _, t := range v.Topologies {
		out.AccessibleTopology = append(out.AccessibleTopology, &pb.Topology{Segments: t})
	}
	switch {
	case v.CloneOf != "":
		out.ContentSource = &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Volume{
			Volume: &pb.VolumeContentSource_VolumeSource{VolumeId: v.CloneOf},
		}}
	case v.SnapshotOf != "":
		out.ContentSource = &pb.VolumeContentSource{Type: &pb.VolumeContentSource_Snapshot{
			Snapshot: &pb.VolumeContentSource_SnapshotSource{SnapshotId: v.SnapshotOf},
		}}
	}
	return out
}

// place picks the topology of a new volume: the first one preferred, else the first allowed, else ours.
func (d *driver) place(r *pb.TopologyRequirement) []map[string]string {
	if len(d.conf.Topology) == 0 {
		return nil
	}
	for _, t := range slices.Concat(r.GetPreferred(), r.GetRequisite()) {
		if len(t.GetSegments()) > 0 {
			return []map[string]string{t.GetSegments()}
		}
	}
	return []map[string]string{d.conf.Topology}
}

// source finds the data that a new volume starts with, and sets the size.
func (d *driver) source(r *pb.CreateVolumeRequest, v *volume) (path string, err error) {
	least := int64(0)
	sourceBlock := v.Block
	if s := r.GetVolumeContentSource(); s != nil {
		v.CloneOf, v.SnapshotOf = s.GetVolume().GetVolumeId(), s.GetSnapshot().GetSnapshotId()
		switch {
		case v.CloneOf != "":
			from, err := d.books.volume(v.CloneOf)
			if err != nil {
				return "", err
			}
			if from == nil {
				return "", noVolume(v.CloneOf)
			}
			if from.Deleting {
				return "", deleting(from.ID)
			}
			least, sourceBlock, path = from.SizeBytes, from.Block, d.books.data(from.ID)
		case v.SnapshotOf != "":
			from, err := d.books.snapshot(v.SnapshotOf)
			if err != nil {
				return "", err
			}
			if from == nil {
				return "", noSnapshot(v.SnapshotOf)
			}
			if from.Deleting {
				return "", deleting(from.ID)
			}
			if !from.ready() {
				return "", status.Errorf(codes.FailedPrecondition, "snapshot %q is not ready to use yet", from.ID)
			}
			least, sourceBlock, path = from.SizeBytes, from.Block, d.books.data(from.ID)
		default:
			return "", invalid("the content source names neither a volume nor a snapshot")
		}
	}
	if sourceBlock != v.Block {
		return "", invalid("a block volume cannot be made of a file system or the other way round")
	}
	v.SizeBytes, err = sizeOf(r.GetCapacityRange(), least)
	return path, err
}

// fill makes the data of a volume and then its record. Capacity is checked under the lock of the whole.
func (d *driver) fill(ctx context.Context, v *volume, source string) error {
	if err := d.makeData(v.ID, v.Block, v.SizeBytes, source); err != nil {
		return err
	}
	unlock, err := d.books.lock(ctx, "")
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.fits(v.SizeBytes); err != nil {
		return errors.Join(err, removeData(d.books.data(v.ID)))
	}
	return d.books.putVolume(v)
}

// fits refuses what is above the limit.
func (d *driver) fits(more int64) error {
	if d.conf.CapacityBytes == 0 {
		return nil
	}
	used, err := d.books.used()
	if err != nil {
		return err
	}
	if more > d.conf.CapacityBytes-used {
		return status.Errorf(codes.OutOfRange, "%d bytes do not fit: %d of %d are used", more, used, d.conf.CapacityBytes)
	}
	return nil
}

// DeleteVolume removes a volume that no node uses.
func (d *driver) DeleteVolume(ctx context.Context, r *pb.DeleteVolumeRequest) (*pb.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, invalid("volume id is missing")
	}
	if err := d.markVolume(ctx, id); err != nil {
		return nil, err
	}
	return &pb.DeleteVolumeResponse{}, d.endDeletion(ctx, "volumes", "vol", id)
}

// markVolume marks an unused volume as deleted: from now on it is neither used nor copied.
func (d *driver) markVolume(ctx context.Context, id string) error {
	unlock, err := d.books.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	v, err := d.books.volume(id)
	if err != nil || v == nil || v.Deleting {
		return err
	}
	if n := len(v.Attached) + len(v.Staged); n > 0 {
		d.violation(ViolationDeleteUsed, id, "", "the volume is in use")
		return status.Errorf(codes.FailedPrecondition, "volume %q is in use", id)
	}
	if err := unmounted(d.books.data(id)); err != nil {
		return err
	}
	v.Deleting = true
	return d.books.putVolume(v)
}

// ValidateVolumeCapabilities confirms what the volume can do.
func (d *driver) ValidateVolumeCapabilities(_ context.Context, r *pb.ValidateVolumeCapabilitiesRequest) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume id or capabilities are missing")
	}
	v, err := d.books.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	block, err := blockOf(r.GetVolumeCapabilities()...)
	if err != nil {
		return nil, err
	}
	if block != v.Block {
		return &pb.ValidateVolumeCapabilitiesResponse{Message: "the volume has the other access type"}, nil
	}
	if err := checkOptions(r.GetVolumeCapabilities()); err != nil {
		return &pb.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &pb.ValidateVolumeCapabilitiesResponse{Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}

// page cuts a list by a numeric token.
func page[T any](items []T, token string, most int32) ([]T, string, error) {
	start := 0
	if token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(items) {
			return nil, "", status.Errorf(codes.Aborted, "starting token %q is not one of ours", token)
		}
		start = n
	}
	items = items[start:]
	if most > 0 && int(most) < len(items) {
		return items[:most], strconv.Itoa(start + int(most)), nil
	}
	return items, "", nil
}

// ListVolumes lists volumes with the nodes that they are attached to.
func (d *driver) ListVolumes(_ context.Context, r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
	if r.GetMaxEntries() < 0 {
		return nil, invalid("max entries must not be negative")
	}
	volumes, err := all[volume](d.books, "volumes")
	if err != nil {
		return nil, err
	}
	volumes, next, err := page(volumes, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &pb.ListVolumesResponse{NextToken: next}
	for _, v := range volumes {
		out.Entries = append(out.Entries, &pb.ListVolumesResponse_Entry{
			Volume: pbVolume(v),
			Status: &pb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached))},
		})
	}
	return out, nil
}

// ControllerGetVolume describes one volume.
func (d *driver) ControllerGetVolume(_ context.Context, r *pb.ControllerGetVolumeRequest) (*pb.ControllerGetVolumeResponse, error) {
	v, err := d.books.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	return &pb.ControllerGetVolumeResponse{Volume: pbVolume(v), Status: &pb.ControllerGetVolumeResponse_VolumeStatus{
		PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached)),
	}}, nil
}

// GetCapacity returns what is left of the limit, or of the file system.
func (d *driver) GetCapacity(_ context.Context, r *pb.GetCapacityRequest) (*pb.GetCapacityResponse, error) {
	if d.conf.CapacityBytes > 0 {
		used, err := d.books.used()
		return &pb.GetCapacityResponse{AvailableCapacity: max(d.conf.CapacityBytes-used, 0)}, err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(d.books.dir, &s); err != nil {
		return nil, status.Errorf(codes.Internal, "measure state directory: %v", err)
	}
	return &pb.GetCapacityResponse{AvailableCapacity: int64(s.Bavail) * s.Bsize}, nil
}

// ControllerExpandVolume grows a volume; nodes with a loop device must follow.
func (d *driver) ControllerExpandVolume(ctx context.Context, r *pb.ControllerExpandVolumeRequest) (*pb.ControllerExpandVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
	}
	if r.GetCapacityRange() == nil {
		return nil, invalid("capacity range is missing")
	}
	unlock, err := d.books.lock(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.books.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, noVolume(r.GetVolumeId())
	}
	if v.Deleting {
		return nil, deleting(v.ID)
	}
	size, err := sizeOf(r.GetCapacityRange(), v.SizeBytes)
	if err != nil {
		return nil, err
	}
	if size > v.SizeBytes {
		if err := d.fits(size - v.SizeBytes); err != nil {
			return nil, err
		}
		if v.Block {
			if err := os.Truncate(d.books.data(v.ID), size); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, status.Errorf(codes.Internal, "grow image: %v", err)
			}
		}
		v.SizeBytes = size
		if err := d.books.putVolume(v); err != nil {
			return nil, err
		}
	}
	return &pb.ControllerExpandVolumeResponse{CapacityBytes: v.SizeBytes, NodeExpansionRequired: true}, nil
}
