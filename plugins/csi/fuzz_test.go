package csi_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
)

// liar answers one call with the given bytes or with a code and the bytes as its text, and the others well.
type liar struct {
	stats stats.Handler
	rpc   string
	code  codes.Code
	reply []byte
}

func (l *liar) Invoke(ctx context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	l.stats.HandleRPC(ctx, &stats.OutHeader{Client: true})
	l.stats.HandleRPC(ctx, &stats.InTrailer{Client: true})
	switch name := method[strings.LastIndexByte(method, '/')+1:]; {
	case name == l.rpc && l.code != codes.OK:
		return status.Error(l.code, string(l.reply))
	case name == l.rpc:
		if err := proto.Unmarshal(l.reply, reply.(proto.Message)); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	case name == "ControllerGetCapabilities":
		proto.Merge(reply.(proto.Message), everyControllerCapability())
	case name == "NodeGetCapabilities":
		proto.Merge(reply.(proto.Message), &pb.NodeGetCapabilitiesResponse{Capabilities: []*pb.NodeServiceCapability{
			{Type: &pb.NodeServiceCapability_Rpc{Rpc: &pb.NodeServiceCapability_RPC{Type: pb.NodeServiceCapability_RPC_EXPAND_VOLUME}}},
			{Type: &pb.NodeServiceCapability_Rpc{Rpc: &pb.NodeServiceCapability_RPC{Type: pb.NodeServiceCapability_RPC_GET_VOLUME_STATS}}},
		}})
	case name == "NodeGetInfo":
		proto.Merge(reply.(proto.Message), &pb.NodeGetInfoResponse{NodeId: "n"})
	}
	return nil
}

func (*liar) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

func everyControllerCapability() *pb.ControllerGetCapabilitiesResponse {
	out := &pb.ControllerGetCapabilitiesResponse{}
	for n := range pb.ControllerServiceCapability_RPC_Type_name {
		out.Capabilities = append(out.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
			Rpc: &pb.ControllerServiceCapability_RPC{Type: pb.ControllerServiceCapability_RPC_Type(n)},
		}})
	}
	return out
}

const fuzzedSecret = "the-secret-of-the-volume"

// answers are the calls of a client with what must hold of each result; the secret is sent with those that have one.
var answers = []struct {
	rpc   string
	check func(context.Context, *csi.Client) (bad string, err error)
}{
	{"GetPluginInfo", func(ctx context.Context, c *csi.Client) (string, error) {
		i, err := c.PluginInfo(ctx)
		return when(err == nil && (i.Name == "" || len(i.Name) > 128), "a bad name"), err
	}},
	{"NodeGetInfo", func(ctx context.Context, c *csi.Client) (string, error) {
		i, err := c.Fingerprint(ctx, csi.Services{Node: true})
		return when(err == nil && (i.Node.ID == "" || len(i.Node.ID) > 256 || i.Node.MaxVolumes <= 0), "a bad node"), err
	}},
	{"ControllerGetCapabilities", func(ctx context.Context, c *csi.Client) (string, error) {
		i, err := c.Fingerprint(ctx, csi.Services{Controller: true})
		return when(err == nil && i.Controller == nil, "no controller"), err
	}},
	{"CreateVolume", func(ctx context.Context, c *csi.Client) (string, error) {
		r := creation("v")
		r.Secrets = map[string]string{"key": fuzzedSecret}
		v, err := c.CreateVolume(ctx, r)
		return when(err == nil && (v.ExternalID == "" || v.CapacityBytes < 0 || nilTopology(v.Topologies)), "a bad volume"), err
	}},
	{"ValidateVolumeCapabilities", func(ctx context.Context, c *csi.Client) (string, error) {
		r, err := c.Validate(ctx, &api.ControllerValidateRequest{ExternalID: "v", Capabilities: creation("v").Capabilities, Secrets: map[string]string{"key": fuzzedSecret}})
		return when(err == nil && !r.Validated && r.Message == "", "neither validated nor why"), err
	}},
	{"ControllerExpandVolume", func(ctx context.Context, c *csi.Client) (string, error) {
		v, err := c.ControllerExpand(ctx, &api.ControllerExpandRequest{ExternalID: "v", CapacityMinBytes: 7, Secrets: map[string]string{"key": fuzzedSecret}})
		return when(err == nil && v.CapacityBytes < 7, "a volume that is too small"), err
	}},
	{"ListVolumes", func(ctx context.Context, c *csi.Client) (string, error) {
		list, err := c.ListVolumes(ctx, &api.ControllerListRequest{MaxEntries: 10})
		for _, v := range orNone(list).Volumes {
			if v.ExternalID == "" {
				return "an entry without id", nil
			}
		}
		return "", err
	}},
	{"ListSnapshots", func(ctx context.Context, c *csi.Client) (string, error) {
		_, err := c.ListSnapshots(ctx, &api.ControllerSnapshotListRequest{MaxEntries: 10})
		return "", err
	}},
	{"CreateSnapshot", func(ctx context.Context, c *csi.Client) (string, error) {
		s, err := c.CreateSnapshot(ctx, &api.ControllerSnapshotRequest{ExternalID: "v", Name: "s", Secrets: map[string]string{"key": fuzzedSecret}})
		return when(err == nil && s.ID == "", "a snapshot without id"), err
	}},
	{"ControllerGetVolume", func(ctx context.Context, c *csi.Client) (string, error) {
		v, err := c.Verify(ctx, &api.ControllerVerifyRequest{ExternalID: "v", ProviderNodeID: "n"})
		return when(err == nil && v.Attached == api.KnownYes && v.Exists != api.KnownYes, "attached without being there"), err
	}},
	{"GetSnapshot", func(ctx context.Context, c *csi.Client) (string, error) {
		_, err := c.Verify(ctx, &api.ControllerVerifyRequest{ExternalID: "v", Snapshot: true})
		return "", err
	}},
	{"NodeExpandVolume", func(ctx context.Context, c *csi.Client) (string, error) {
		n, err := c.NodeExpand(ctx, volume("v"), 1)
		return when(err == nil && n < 0, "a negative size"), err
	}},
	{"GetCapacity", func(ctx context.Context, c *csi.Client) (string, error) {
		n, err := c.Capacity(ctx, nil, nil)
		return when(err == nil && n < 0, "a negative capacity"), err
	}},
}

// secretly are the calls above that carry the secret.
var secretly = map[string]bool{"CreateVolume": true, "ValidateVolumeCapabilities": true, "ControllerExpandVolume": true, "CreateSnapshot": true}

func when(bad bool, what string) string {
	if bad {
		return what
	}
	return ""
}

func orNone(l *api.ControllerListResponse) *api.ControllerListResponse {
	if l == nil {
		return &api.ControllerListResponse{}
	}
	return l
}

func nilTopology(list []*api.Topology) bool {
	for _, t := range list {
		if t == nil || len(t.Segments) == 0 {
			return true
		}
	}
	return false
}

// FuzzReplies lets a plugin answer each call with any bytes, as a message or as the text of an error.
func FuzzReplies(f *testing.F) {
	for i := range answers {
		f.Add(uint8(i), uint32(0), []byte{})
		f.Add(uint8(i), uint32(codes.Internal), []byte("login with "+fuzzedSecret+" failed\nsorry"))
	}
	f.Add(uint8(3), uint32(codes.Canceled), []byte(fuzzedSecret[:7]+"\x90"+fuzzedSecret[7:]))
	reply, _ := proto.Marshal(&pb.CreateVolumeResponse{Volume: &pb.Volume{VolumeId: "v", CapacityBytes: -1, AccessibleTopology: []*pb.Topology{nil}}})
	f.Add(uint8(3), uint32(0), reply)
	f.Fuzz(func(t *testing.T, which uint8, code uint32, reply []byte) {
		a := answers[int(which)%len(answers)]
		cl, err := csi.New(csi.Config{Socket: "liar", Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface {
			return &liar{stats: h, rpc: a.rpc, code: codes.Code(code % 20), reply: reply}
		}})
		if err != nil {
			t.Fatal(err)
		}
		bad, err := a.check(t.Context(), cl)
		if bad != "" {
			t.Errorf("%s takes %q for %s", a.rpc, reply, bad)
		}
		if err == nil {
			return
		}
		if text := err.Error(); len(text) > 16<<10 || strings.Contains(text, "\x1b") || secretly[a.rpc] && strings.Contains(text, fuzzedSecret) {
			t.Errorf("%s: the text is %q", a.rpc, text)
		}
	})
}
