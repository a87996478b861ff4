package hostpath

import (
	"context"
	"crypto/subtle"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/plugins/csi"
)

// driver serves all three services.
type driver struct {
	pb.UnimplementedIdentityServer
	pb.UnimplementedControllerServer
	pb.UnimplementedNodeServer
	conf  Config
	books *books
}

// Run serves the driver until ctx ends. Volumes stay mounted.
func Run(ctx context.Context, c Config) error {
	c, err := c.normal()
	if err != nil {
		return err
	}
	d := &driver{conf: c}
	if d.books, err = openBooks(c.StateDir); err != nil {
		return err
	}
	if c.mounts() {
		if err := d.books.putNode(c); err != nil {
			return err
		}
	}
	socket, err := csi.SocketOf(c.Endpoint)
	if err != nil {
		return err
	}
	l, err := csi.Listen(socket)
	if err != nil {
		return err
	}
	around := []grpc.UnaryServerInterceptor{d.guard, d.admit}
	if c.Intercept != nil {
		around = append(around, c.Intercept)
	}
	s := grpc.NewServer(grpc.ChainUnaryInterceptor(around...))
	pb.RegisterIdentityServer(s, d)
	if c.controls() {
		pb.RegisterControllerServer(s, d)
	}
	if c.mounts() {
		pb.RegisterNodeServer(s, d)
	}
	c.Log.Info("serving", "driver", c.DriverName, "mode", c.Mode, "node", c.NodeID, "socket", socket, "attach", c.Attach)
	return csi.Serve(ctx, l, s)
}

// guard turns panics into errors and logs calls by their names.
func (d *driver) guard(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			d.conf.Log.Error("call panicked", "method", info.FullMethod, "panic", p, "stack", string(debug.Stack()))
			resp, err = nil, status.Errorf(codes.Internal, "the driver panicked: %v", p)
		}
		switch {
		case err != nil:
			d.conf.Log.Info("call refused", "method", info.FullMethod, "took", time.Since(begin), "error", err)
		case info.FullMethod != pb.Identity_Probe_FullMethodName:
			d.conf.Log.Debug("call", "method", info.FullMethod, "took", time.Since(begin))
		}
	}()
	return next(ctx, req)
}

// admit refuses calls on volumes and snapshots without the password.
func (d *driver) admit(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	switch r := req.(type) {
	case *pb.ValidateVolumeCapabilitiesRequest, *pb.ListSnapshotsRequest, *pb.NodeExpandVolumeRequest:
	case interface{ GetSecrets() map[string]string }:
		if subtle.ConstantTimeCompare([]byte(r.GetSecrets()["password"]), []byte(d.conf.Password)) == 0 && d.conf.Password != "" {
			return nil, status.Error(codes.Unauthenticated, "the secrets of the call do not have the password of the driver: set the item password")
		}
	}
	return next(ctx, req)
}

// GetPluginInfo names the driver.
func (d *driver) GetPluginInfo(context.Context, *pb.GetPluginInfoRequest) (*pb.GetPluginInfoResponse, error) {
	return &pb.GetPluginInfoResponse{Name: d.conf.DriverName, VendorVersion: Version}, nil
}

// GetPluginCapabilities returns the capabilities of the whole driver.
func (d *driver) GetPluginCapabilities(context.Context, *pb.GetPluginCapabilitiesRequest) (*pb.GetPluginCapabilitiesResponse, error) {
	out := &pb.GetPluginCapabilitiesResponse{}
	service := func(t pb.PluginCapability_Service_Type) {
		out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_Service_{
			Service: &pb.PluginCapability_Service{Type: t},
		}})
	}
	// All parts of a driver reply alike, so a node part announces the controller that exists elsewhere.
	if d.conf.controls() || d.conf.Attach {
		service(pb.PluginCapability_Service_CONTROLLER_SERVICE)
	}
	if len(d.conf.Topology) > 0 {
		service(pb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	out.Capabilities = append(out.Capabilities, &pb.PluginCapability{Type: &pb.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &pb.PluginCapability_VolumeExpansion{Type: pb.PluginCapability_VolumeExpansion_ONLINE},
	}})
	return out, nil
}

// Probe succeeds as long as the state directory exists.
func (d *driver) Probe(context.Context, *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	if err := d.books.check(); err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "%v", err)
	}
	return &pb.ProbeResponse{}, nil
}
