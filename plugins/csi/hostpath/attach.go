package hostpath

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// publishKey is in the publish context of attached volumes.
const publishKey = "hostpath.open-nomad.dev/attached-to"

func singleNode(m pb.VolumeCapability_AccessMode_Mode) bool {
	switch m {
	case pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, pb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		return true
	}
	return false
}

// readers reports whether the attachment is in a mode for readers only.
func (a attachment) readers() bool {
	m := pb.VolumeCapability_AccessMode_Mode(a.Mode)
	return m == pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY || m == pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}

func (d *driver) unattached() error {
	return status.Error(codes.Unimplemented, "the driver runs without attach mode")
}

// ControllerPublishVolume enters a node into the volume's book.
func (d *driver) ControllerPublishVolume(ctx context.Context, r *pb.ControllerPublishVolumeRequest) (*pb.ControllerPublishVolumeResponse, error) {
	if !d.conf.Attach {
		return nil, d.unattached()
	}
	if r.GetVolumeId() == "" || r.GetNodeId() == "" || r.GetVolumeCapability() == nil {
		return nil, invalid("volume id, node id or capability is missing")
	}
	block, err := blockOf(r.GetVolumeCapability())
	if err != nil {
		return nil, err
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
	n, err := d.books.node(r.GetNodeId())
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, status.Errorf(codes.NotFound, "node %q does not exist", r.GetNodeId())
	}
	if v.Block != block {
		return nil, invalid("volume %q has the other access type", v.ID)
	}
	if _, err := optionsOf(r.GetVolumeCapability(), false); err != nil {
		return nil, err
	}
	want := attachment{ReadOnly: r.GetReadonly(), Mode: int32(r.GetVolumeCapability().GetAccessMode().GetMode()), Block: block}
	if err := d.attach(ctx, v, n, want); err != nil {
		return nil, err
	}
	return &pb.ControllerPublishVolumeResponse{PublishContext: map[string]string{publishKey: n.ID}}, nil
}

func (d *driver) attach(ctx context.Context, v *volume, n *node, want attachment) error {
	if have, ok := v.Attached[n.ID]; ok {
		if have.ReadOnly != want.ReadOnly || have.Block != want.Block || have.readers() != want.readers() {
			return status.Errorf(codes.AlreadyExists, "volume %q is attached to node %q in another way", v.ID, n.ID)
		}
		return nil
	}
	for id, have := range v.Attached {
		if singleNode(pb.VolumeCapability_AccessMode_Mode(want.Mode)) || singleNode(pb.VolumeCapability_AccessMode_Mode(have.Mode)) {
			holders := strings.Join(slices.Sorted(maps.Keys(v.Attached)), ", ")
			d.violation(ViolationDoubleAttach, v.ID, n.ID, fmt.Sprintf("the volume is attached to %s", id))
			return status.Errorf(codes.FailedPrecondition, "volume %q is attached to node %s", v.ID, holders)
		}
	}
	if n.MaxVolumes > 0 { // counted and recorded in one go
		unlock, err := d.books.lock(ctx, "")
		if err != nil {
			return err
		}
		defer unlock()
		count, err := d.attachedTo(n.ID)
		if err != nil {
			return err
		}
		if count >= n.MaxVolumes {
			return status.Errorf(codes.ResourceExhausted, "node %q has its maximum of %d volumes", n.ID, n.MaxVolumes)
		}
	}
	if v.Attached == nil {
		v.Attached = map[string]attachment{}
	}
	v.Attached[n.ID] = want
	return d.books.putVolume(v)
}

func (d *driver) attachedTo(nodeID string) (int64, error) {
	volumes, err := all[volume](d.books, "volumes")
	var n int64
	for _, v := range volumes {
		if _, ok := v.Attached[nodeID]; ok {
			n++
		}
	}
	return n, err
}

// ControllerUnpublishVolume takes a node, or all nodes, out of the volume's book.
func (d *driver) ControllerUnpublishVolume(ctx context.Context, r *pb.ControllerUnpublishVolumeRequest) (*pb.ControllerUnpublishVolumeResponse, error) {
	if !d.conf.Attach {
		return nil, d.unattached()
	}
	if r.GetVolumeId() == "" {
		return nil, invalid("volume id is missing")
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
		return &pb.ControllerUnpublishVolumeResponse{}, nil
	}
	for id := range v.Attached {
		if r.GetNodeId() != "" && r.GetNodeId() != id {
			continue
		}
		if path, ok := v.Staged[id]; ok {
			d.violation(ViolationDetachStaged, v.ID, id, "the volume is staged at "+path)
		}
		delete(v.Attached, id)
	}
	return &pb.ControllerUnpublishVolumeResponse{}, d.books.putVolume(v)
}
