package csi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func dial(t *testing.T, d *fake.Driver, timeouts csi.Timeouts) *csi.Client {
	t.Helper()
	cl, _ := dialUntil(t, d, csi.Config{Timeouts: timeouts})
	return cl
}

func dialLogged(t *testing.T, d *fake.Driver, log hclog.Logger) *csi.Client {
	t.Helper()
	cl, _ := dialUntil(t, d, csi.Config{Log: log})
	return cl
}

// dialUntil also returns a function that kills the plugin: its calls are cut off.
func dialUntil(t *testing.T, d *fake.Driver, conf csi.Config) (*csi.Client, func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "csi.sock")
	ctx, kill := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Serve(ctx, socket) }()
	t.Cleanup(func() { kill(); <-done })
	conf.Socket = socket
	cl, err := csi.New(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	bound, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for {
		if _, err := cl.Probe(bound); err == nil {
			return cl, kill
		} else if bound.Err() != nil {
			t.Fatal(err)
		}
	}
}

func volume(id string) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: id, StagingPath: "/s", TargetPath: "/t",
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	}
}

func creation(name string) *api.ControllerCreateRequest {
	return &api.ControllerCreateRequest{Name: name, Capabilities: []*api.VolumeCapability{
		{AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem},
	}}
}

func TestFirstCallsMayComeTogether(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := cl.Fingerprint(t.Context(), csi.Services{Controller: true, Node: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestTopologyIsSentOnlyWhereItIsKnown(t *testing.T) {
	r := creation("a")
	r.Topologies = &api.TopologyRequest{Required: []*api.Topology{nil, {Segments: map[string]string{"zone": "a"}}}}
	d := fake.New(fake.Config{})
	if _, err := dial(t, d, csi.Timeouts{}).CreateVolume(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if v := d.Storage().Violations(); len(v) > 0 {
		t.Error(v)
	}
}

func TestReadOnlyAttachmentIsGated(t *testing.T) {
	for _, offered := range []bool{false, true} {
		d := fake.New(fake.Config{Attach: true, ReadOnlyAttach: offered})
		d.Storage().Add("v")
		_, err := dial(t, d, csi.Timeouts{}).ControllerPublish(t.Context(), &api.ControllerPublishRequest{
			ExternalID: "v", ProviderNodeID: "fake-node",
			AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem, ReadOnly: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		sent := d.Calls("ControllerPublishVolume")[0].Request.(interface{ GetReadonly() bool }).GetReadonly()
		if sent != offered {
			t.Errorf("read-only is sent: %v, offered: %v", sent, offered)
		}
	}
}

func TestStagingPathOnlyForPluginsThatStage(t *testing.T) {
	d := fake.New(fake.Config{NoStage: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	v := volume("v")
	v.TargetPath = filepath.Join(t.TempDir(), "t")
	if err := cl.NodePublish(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.NodeExpand(t.Context(), v, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := d.Storage().Violations(); len(got) > 0 {
		t.Error(got)
	}
	if err := cl.NodeStage(t.Context(), v); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("staging without the capability: %v", err)
	}
}

func TestUnofferedCallsAreNotSent(t *testing.T) {
	d := fake.New(fake.Config{})
	cl := dial(t, d, csi.Timeouts{})
	r := creation("a")
	r.CloneID = "v"
	if _, err := cl.CreateVolume(t.Context(), r); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("clone: %v", err)
	}
	if err := cl.ControllerUnpublish(t.Context(), &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: "n"}); !errors.Is(err, fault.Unimplemented) {
		t.Errorf("detach: %v", err)
	}
	if n := len(d.Calls("CreateVolume", "ControllerUnpublishVolume")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

func TestSizesAreCheckedAndSecretsNotTold(t *testing.T) {
	d := fake.New(fake.Config{})
	cl := dial(t, d, csi.Timeouts{})
	secret := strings.Repeat("s3cret", 1000)
	for what, change := range map[string]func(*api.ControllerCreateRequest){
		"long name":    func(r *api.ControllerCreateRequest) { r.Name = strings.Repeat("n", 129) },
		"no name":      func(r *api.ControllerCreateRequest) { r.Name = "" },
		"control":      func(r *api.ControllerCreateRequest) { r.Name = "a\x01" },
		"secrets":      func(r *api.ControllerCreateRequest) { r.Secrets = map[string]string{"k": secret} },
		"parameters":   func(r *api.ControllerCreateRequest) { r.Parameters = map[string]string{"k": secret} },
		"flags":        func(r *api.ControllerCreateRequest) { r.MountOptions = &api.MountOptions{MountFlags: []string{secret}} },
		"negative":     func(r *api.ControllerCreateRequest) { r.CapacityMinBytes = -1 },
		"min over max": func(r *api.ControllerCreateRequest) { r.CapacityMinBytes, r.CapacityMaxBytes = 2, 1 },
		"no mode":      func(r *api.ControllerCreateRequest) { r.Capabilities[0].AccessMode = "" },
		"nil mode":     func(r *api.ControllerCreateRequest) { r.Capabilities[0] = nil },
		"none":         func(r *api.ControllerCreateRequest) { r.Capabilities = nil },
	} {
		r := creation("a")
		change(r)
		_, err := cl.CreateVolume(t.Context(), r)
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error tells the content", what)
		}
	}
	if n := len(d.Calls("CreateVolume")); n != 0 {
		t.Errorf("%d bad requests were sent", n)
	}
}

func TestHolesInTopologiesAreLeftOut(t *testing.T) {
	cl := dial(t, fake.New(fake.Config{NilEntries: true, Topology: map[string]string{"zone": "a"}}), csi.Timeouts{})
	v, err := cl.CreateVolume(t.Context(), creation("a"))
	if err != nil || len(v.Topologies) != 1 || v.Topologies[0] == nil {
		t.Errorf("topologies %+v: %v", v, err)
	}
}

func TestProbeTellsStartingFromBroken(t *testing.T) {
	d := fake.New(fake.Config{Starting: true})
	cl := dial(t, d, csi.Timeouts{})
	if ready, err := cl.Probe(t.Context()); ready || err != nil {
		t.Errorf("a starting plugin: %v, %v", ready, err)
	}
	d.SetReady(true)
	if ready, err := cl.Probe(t.Context()); !ready || err != nil {
		t.Errorf("a ready plugin: %v, %v", ready, err)
	}
}

func TestSocketPathHasALimit(t *testing.T) {
	_, err := csi.New(csi.Config{Socket: "/" + strings.Repeat("x", csi.SocketPathMax)})
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("the error is %v", err)
	}
}
