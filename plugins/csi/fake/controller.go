package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

func boolValue(b bool) *wrapperspb.BoolValue { return wrapperspb.Bool(b) }

func invalid(text string) error { return status.Error(codes.InvalidArgument, text) }

func noVolume(id string) error { return status.Errorf(codes.NotFound, "volume %q does not exist", id) }

// ControllerGetCapabilities returns the capabilities of Config.
func (d *Driver) ControllerGetCapabilities(context.Context, *pb.ControllerGetCapabilitiesRequest) (*pb.ControllerGetCapabilitiesResponse, error) {
	c := d.config()
	out := &pb.ControllerGetCapabilitiesResponse{}
	for t, on := range map[pb.ControllerServiceCapability_RPC_Type]bool{
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:         true,
		pb.ControllerServiceCapability_RPC_LIST_VOLUMES:                 !c.NoLists,
		pb.ControllerServiceCapability_RPC_EXPAND_VOLUME:                !c.NoExpand,
		pb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:       true,
		pb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS:               !c.NoLists,
		pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME:     c.Attach,
		pb.ControllerServiceCapability_RPC_PUBLISH_READONLY:             c.ReadOnlyAttach,
		pb.ControllerServiceCapability_RPC_GET_VOLUME:                   c.GetVolume,
		pb.ControllerServiceCapability_RPC_GET_SNAPSHOT:                 c.GetSnapshot,
		pb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES: c.ListPublished,
	} {
		if on {
			out.Capabilities = append(out.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
				Rpc: &pb.ControllerServiceCapability_RPC{Type: t},
			}})
		}
	}
	slices.SortFunc(out.Capabilities, func(a, b *pb.ControllerServiceCapability) int {
		return int(a.GetRpc().GetType() - b.GetRpc().GetType())
	})
	return out, nil
}

// CreateVolume makes a volume; the same name returns the same volume.
func (d *Driver) CreateVolume(_ context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	c := d.config()
	if r.GetName() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("name or capabilities are missing")
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.GetAccessibilityRequirements() != nil && len(c.Topology) == 0 {
		s.violatedLocked("", "topology was sent to a driver without topologies")
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
			return &pb.CreateVolumeResponse{Volume: pbVolume(v, c)}, nil
		}
	}
	s.next++
	v := s.addLocked(fmt.Sprintf("fake-%d", s.next), r.GetName(), size, block)
	v.source = r.GetVolumeContentSource()
	return &pb.CreateVolumeResponse{Volume: pbVolume(v, c)}, nil
}

func pbVolume(v *volume, c Config) *pb.Volume {
	out := &pb.Volume{VolumeId: v.id, CapacityBytes: v.size, VolumeContext: map[string]string{"name": v.name}, ContentSource: v.source}
	if c.Topology != nil {
		out.AccessibleTopology = []*pb.Topology{{Segments: c.Topology}}
	}
	if c.NilEntries {
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
		if v.usedLocked() {
			s.violatedLocked("", "delete of volume %s, which is in use", v.id)
			return nil, status.Errorf(codes.FailedPrecondition, "volume %q is in use", v.id)
		}
		delete(s.volumes, v.id)
	}
	return &pb.DeleteVolumeResponse{}, nil
}

func (v *volume) usedLocked() bool { return len(v.attached)+len(v.staged)+len(v.published) > 0 }

// offered refuses calls that the driver does not offer, which callers should have known.
func (d *Driver) offered(rpc string, on bool) error {
	if on {
		return nil
	}
	return status.Errorf(codes.Unimplemented, "%s is not offered", rpc)
}

// ValidateVolumeCapabilities confirms everything of existing volumes.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, r *pb.ValidateVolumeCapabilitiesRequest) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	if r.GetVolumeId() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, invalid("volume id or capabilities are missing")
	}
	s, _, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
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

// ListVolumes lists volumes, with nil entries when Config asks for them.
func (d *Driver) ListVolumes(_ context.Context, r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
	c := d.config()
	if err := d.offered("ListVolumes", !c.NoLists); err != nil {
		return nil, err
	}
	s := d.store
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, next, err := page(slices.Sorted(maps.Keys(s.volumes)), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &pb.ListVolumesResponse{NextToken: next}
	if c.NilEntries {
		out.Entries = append(out.Entries, &pb.ListVolumesResponse_Entry{})
	}
	for _, id := range ids {
		e := &pb.ListVolumesResponse_Entry{Volume: pbVolume(s.volumes[id], c)}
		if c.ListPublished {
			e.Status = &pb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: slices.Sorted(maps.Keys(s.volumes[id].attached))}
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

// ControllerGetVolume describes one volume.
func (d *Driver) ControllerGetVolume(_ context.Context, r *pb.ControllerGetVolumeRequest) (*pb.ControllerGetVolumeResponse, error) {
	c := d.config()
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
	}
	if err := d.offered("ControllerGetVolume", c.GetVolume); err != nil {
		return nil, err
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &pb.ControllerGetVolumeResponse{Volume: pbVolume(v, c), Status: &pb.ControllerGetVolumeResponse_VolumeStatus{}}
	if c.ListPublished {
		out.Status.PublishedNodeIds = slices.Sorted(maps.Keys(v.attached))
	}
	return out, nil
}

// ControllerExpandVolume grows a volume; nodes must follow.
func (d *Driver) ControllerExpandVolume(_ context.Context, r *pb.ControllerExpandVolumeRequest) (*pb.ControllerExpandVolumeResponse, error) {
	c := d.config()
	if r.GetVolumeId() == "" || r.GetCapacityRange() == nil {
		return nil, invalid("volume id or capacity is missing")
	}
	if err := d.offered("ControllerExpandVolume", !c.NoExpand); err != nil {
		return nil, err
	}
	s, v, err := d.lock(r)
	defer s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if c.OfflineExpansion && v.usedLocked() {
		s.violatedLocked("", "expansion of volume %s, which is in use, by a driver that expands offline", v.id)
		return nil, status.Errorf(codes.FailedPrecondition, "volume %q is in use", v.id)
	}
	v.size = max(v.size, r.GetCapacityRange().GetRequiredBytes())
	return &pb.ControllerExpandVolumeResponse{CapacityBytes: v.size, NodeExpansionRequired: true}, nil
}
