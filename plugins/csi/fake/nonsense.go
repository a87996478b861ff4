package fake

import (
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Nonsense lists replies to a call that no plugin should make: empty ones, ones for another object, impossible
// numbers, enormous texts.
func Nonsense(rpc string) []proto.Message {
	huge := strings.Repeat("x", 1<<20)
	volumes := []*pb.Volume{
		nil,
		{},
		{VolumeId: "another", CapacityBytes: -1},
		{VolumeId: huge},
		{VolumeId: "v", VolumeContext: map[string]string{"k": huge}},
		{VolumeId: "v", AccessibleTopology: []*pb.Topology{nil, {}, {Segments: map[string]string{"": huge}}}},
	}
	snapshots := []*pb.Snapshot{nil, {}, {SnapshotId: "another", SizeBytes: -1}, {SnapshotId: huge}}
	var out []proto.Message
	add := func(m ...proto.Message) { out = append(out, m...) }
	switch rpc {
	case "CreateVolume":
		for _, v := range volumes {
			if v.GetVolumeId() != "v" && v.GetVolumeId() != "another" || v.GetCapacityBytes() < 0 || len(v.GetVolumeContext()) > 0 || len(v.GetAccessibleTopology()) > 0 {
				add(&pb.CreateVolumeResponse{Volume: v})
			}
		}
	case "ControllerGetVolume":
		for _, v := range volumes[:4] {
			add(&pb.ControllerGetVolumeResponse{Volume: v})
		}
	case "ControllerPublishVolume":
		add(&pb.ControllerPublishVolumeResponse{PublishContext: map[string]string{"k": huge}})
	case "ControllerExpandVolume":
		for _, n := range []int64{0, -1, 1, math.MinInt64} {
			add(&pb.ControllerExpandVolumeResponse{CapacityBytes: n})
		}
	case "NodeExpandVolume":
		add(&pb.NodeExpandVolumeResponse{CapacityBytes: -1})
	case "CreateSnapshot":
		for _, s := range []*pb.Snapshot{snapshots[0], snapshots[1], snapshots[3]} {
			add(&pb.CreateSnapshotResponse{Snapshot: s})
		}
	case "GetSnapshot":
		for _, s := range snapshots {
			add(&pb.GetSnapshotResponse{Snapshot: s})
		}
	case "NodeGetInfo":
		add(&pb.NodeGetInfoResponse{}, &pb.NodeGetInfoResponse{NodeId: huge},
			&pb.NodeGetInfoResponse{NodeId: "n", AccessibleTopology: &pb.Topology{Segments: map[string]string{"k": huge}}})
	case "GetPluginInfo":
		add(&pb.GetPluginInfoResponse{}, &pb.GetPluginInfoResponse{Name: "a\x1b[2J"}, &pb.GetPluginInfoResponse{Name: huge})
	case "ValidateVolumeCapabilities":
		add(&pb.ValidateVolumeCapabilitiesResponse{Message: "no"},
			&pb.ValidateVolumeCapabilitiesResponse{Confirmed: &pb.ValidateVolumeCapabilitiesResponse_Confirmed{
				VolumeCapabilities: []*pb.VolumeCapability{{AccessMode: &pb.VolumeCapability_AccessMode{Mode: 99}}},
			}})
	}
	return out
}
