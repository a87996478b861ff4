package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// lastRequest is the request of the only call of a method.
func lastRequest[T any](t *testing.T, d *fake.Driver, rpc string) T {
	t.Helper()
	calls := d.Calls(rpc)
	if len(calls) != 1 {
		t.Fatalf("%d calls of %s, wanted one", len(calls), rpc)
	}
	return calls[0].Request.(T)
}

func TestSecretsReachTheDriver(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	secrets := map[string]string{"key": "value"}
	if err := cl.ControllerUnpublish(t.Context(), &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: "fake-node", Secrets: secrets}); err != nil {
		t.Fatal(err)
	}
	if got := lastRequest[*pb.ControllerUnpublishVolumeRequest](t, d, "ControllerUnpublishVolume").GetSecrets(); got["key"] != "value" {
		t.Errorf("detached with %v", got)
	}
	if err := cl.DeleteSnapshot(t.Context(), &api.ControllerSnapshotDeleteRequest{ID: "s", Secrets: secrets}); err != nil {
		t.Fatal(err)
	}
	if got := lastRequest[*pb.DeleteSnapshotRequest](t, d, "DeleteSnapshot").GetSecrets(); got["key"] != "value" {
		t.Errorf("snapshot deleted with %v", got)
	}
}

func TestMountOptionsReachTheDriver(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	options := &api.MountOptions{FSType: "xfs", MountFlags: []string{"noatime"}}
	fits := func(c *pb.VolumeCapability) bool {
		m := c.GetMount()
		return m.GetFsType() == "xfs" && len(m.GetMountFlags()) == 1 && m.GetMountFlags()[0] == "noatime"
	}
	if _, err := cl.ControllerPublish(t.Context(), &api.ControllerPublishRequest{
		ExternalID: "v", ProviderNodeID: "fake-node", MountOptions: options,
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	}); err != nil {
		t.Fatal(err)
	}
	if c := lastRequest[*pb.ControllerPublishVolumeRequest](t, d, "ControllerPublishVolume").GetVolumeCapability(); !fits(c) {
		t.Errorf("attached with %v", c)
	}
	if _, err := cl.Validate(t.Context(), &api.ControllerValidateRequest{
		ExternalID: "v", MountOptions: options, Capabilities: creation("v").Capabilities,
	}); err != nil {
		t.Fatal(err)
	}
	if c := lastRequest[*pb.ValidateVolumeCapabilitiesRequest](t, d, "ValidateVolumeCapabilities").GetVolumeCapabilities(); len(c) != 1 || !fits(c[0]) {
		t.Errorf("validated with %v", c)
	}
}

func TestOfflineExpansionIsLearned(t *testing.T) {
	for _, offline := range []bool{false, true} {
		cl := dial(t, fake.New(fake.Config{OfflineExpansion: offline}), csi.Timeouts{})
		caps, err := cl.Fingerprint(t.Context(), csi.Services{Controller: true})
		if err != nil || caps.Controller.OfflineExpansion != offline {
			t.Errorf("offline %v: %+v, %v", offline, caps, err)
		}
	}
}

func TestWithoutCapacityNoRangeIsSent(t *testing.T) {
	d := fake.New(fake.Config{})
	cl := dial(t, d, csi.Timeouts{})
	if _, err := cl.CreateVolume(t.Context(), creation("a")); err != nil {
		t.Fatal(err)
	}
	if r := lastRequest[*pb.CreateVolumeRequest](t, d, "CreateVolume").GetCapacityRange(); r != nil {
		t.Errorf("the range is %v", r)
	}
}

// probed is a plugin that remembers how it was addressed.
type probed struct {
	pb.UnimplementedIdentityServer
	authority []string
}

func (p *probed) Probe(ctx context.Context, _ *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.authority = md.Get(":authority")
	return &pb.ProbeResponse{}, nil
}

// Plugins that check the authority get a valid one, not a path.
func TestAuthorityIsAHost(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "csi.sock")
	l, err := csi.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	p, server := &probed{}, grpc.NewServer()
	pb.RegisterIdentityServer(server, p)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	cl, err := csi.New(csi.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	_, err = cl.Probe(t.Context())
	cl.Close()
	server.Stop()
	<-done
	if err != nil || len(p.authority) != 1 || p.authority[0] != "localhost" {
		t.Errorf("authority %q, %v", p.authority, err)
	}
}
