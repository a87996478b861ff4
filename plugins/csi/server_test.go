package csi_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi"
)

// plugin is a controller that answers with functions; those that are nil are not offered by it.
type plugin struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedControllerServer
	can      []pb.ControllerServiceCapability_RPC_Type
	create   func(*pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error)
	validate func() (*pb.ValidateVolumeCapabilitiesResponse, error)
	list     func(*pb.ListVolumesRequest) (*pb.ListVolumesResponse, error)
	snaps    func(*pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error)
	grow     func() (*pb.ControllerExpandVolumeResponse, error)
	get      func() (*pb.ControllerGetVolumeResponse, error)
}

func (s *plugin) GetPluginCapabilities(context.Context, *pb.GetPluginCapabilitiesRequest) (*pb.GetPluginCapabilitiesResponse, error) {
	return &pb.GetPluginCapabilitiesResponse{Capabilities: []*pb.PluginCapability{
		{Type: &pb.PluginCapability_Service_{Service: &pb.PluginCapability_Service{Type: pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}},
	}}, nil
}

func (s *plugin) ControllerGetCapabilities(context.Context, *pb.ControllerGetCapabilitiesRequest) (*pb.ControllerGetCapabilitiesResponse, error) {
	out := &pb.ControllerGetCapabilitiesResponse{}
	for _, t := range s.can {
		out.Capabilities = append(out.Capabilities, &pb.ControllerServiceCapability{Type: &pb.ControllerServiceCapability_Rpc{
			Rpc: &pb.ControllerServiceCapability_RPC{Type: t},
		}})
	}
	return out, nil
}

func (s *plugin) CreateVolume(_ context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	return s.create(r)
}

func (s *plugin) ValidateVolumeCapabilities(context.Context, *pb.ValidateVolumeCapabilitiesRequest) (*pb.ValidateVolumeCapabilitiesResponse, error) {
	return s.validate()
}

func (s *plugin) ListVolumes(_ context.Context, r *pb.ListVolumesRequest) (*pb.ListVolumesResponse, error) {
	return s.list(r)
}

func (s *plugin) ControllerExpandVolume(context.Context, *pb.ControllerExpandVolumeRequest) (*pb.ControllerExpandVolumeResponse, error) {
	return s.grow()
}

func (s *plugin) ControllerGetVolume(context.Context, *pb.ControllerGetVolumeRequest) (*pb.ControllerGetVolumeResponse, error) {
	return s.get()
}

// inMemory connects to a gRPC server without a socket.
func inMemory(t testing.TB, g *grpc.Server, timeouts csi.Timeouts) *csi.Client {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	cl, err := csi.New(csi.Config{
		Socket: "memory", Timeouts: timeouts,
		Dial: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func serve(t testing.TB, s *plugin) *csi.Client {
	t.Helper()
	g := grpc.NewServer()
	pb.RegisterIdentityServer(g, s)
	pb.RegisterControllerServer(g, s)
	return inMemory(t, g, csi.Timeouts{})
}

func (s *plugin) ListSnapshots(_ context.Context, r *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	return s.snaps(r)
}
