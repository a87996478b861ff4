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

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func dial(t *testing.T, d *fake.Driver, timeouts csi.Timeouts) *csi.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Serve(ctx, socket) }()
	t.Cleanup(func() { cancel(); <-done })
	cl, err := csi.New(csi.Config{Socket: socket, Timeouts: timeouts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	bound, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	for {
		if _, err := cl.Probe(bound); err == nil {
			return cl
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

func TestCodesMeanActions(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	stage := func() error { return cl.NodeStage(t.Context(), volume("v")) }
	unstage := func() error { return cl.NodeUnstage(t.Context(), "v", "/s") }
	attach := func() error {
		_, err := cl.ControllerPublish(t.Context(), &api.ControllerPublishRequest{
			ExternalID: "v", ProviderNodeID: "fake-node",
			AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
		})
		return err
	}
	for _, c := range []struct {
		rpc    string
		call   func() error
		code   codes.Code
		action csi.Action
		class  fault.Class
	}{
		{"NodeStageVolume", stage, codes.Unavailable, csi.Retry, fault.Unavailable},
		{"NodeStageVolume", stage, codes.Aborted, csi.Retry, fault.Unavailable},
		{"NodeStageVolume", stage, codes.DeadlineExceeded, csi.Retry, fault.Timeout},
		{"NodeStageVolume", stage, codes.Internal, csi.RetryFew, fault.Internal},
		{"NodeStageVolume", stage, codes.InvalidArgument, csi.Final, fault.Invalid},
		{"NodeStageVolume", stage, codes.FailedPrecondition, csi.Final, fault.Conflict},
		{"NodeStageVolume", stage, codes.ResourceExhausted, csi.Exhausted, fault.Exhausted},
		{"NodeStageVolume", stage, codes.Unimplemented, csi.Final, fault.Unimplemented},
		{"NodeStageVolume", stage, codes.Unauthenticated, csi.Final, fault.Denied},
		{"NodeStageVolume", stage, codes.NotFound, csi.RetryFew, fault.NotFound},
		{"NodeUnstageVolume", unstage, codes.Internal, csi.Retry, fault.Internal},
		{"NodeUnstageVolume", unstage, codes.FailedPrecondition, csi.Retry, fault.Conflict},
		{"ControllerPublishVolume", attach, codes.FailedPrecondition, csi.Retry, fault.Conflict},
		{"ControllerPublishVolume", attach, codes.Code(77), csi.RetryFew, fault.Internal},
	} {
		d.Heal()
		d.Script(fake.Fault{RPC: c.rpc, Code: c.code, Text: "why"})
		err := c.call()
		if got := csi.ActionOf(err); got != c.action || !errors.Is(err, c.class) || !strings.Contains(err.Error(), "why") {
			t.Errorf("%s %s: %s, %v", c.rpc, c.code, got, err)
		}
	}
	d.Heal()
	d.Script(fake.Fault{RPC: "NodeUnstageVolume", Code: codes.NotFound})
	if err := unstage(); err != nil {
		t.Errorf("unstaging what is not there: %v", err)
	}
}

func TestC2EveryCallHasADeadline(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{Change: 50 * time.Millisecond})
	d.Script(fake.Fault{RPC: "NodeStageVolume", Hang: true})
	err := cl.NodeStage(t.Context(), volume("v"))
	var e *csi.Error
	if !errors.As(err, &e) || !e.Uncertain || e.Action != csi.Retry {
		t.Errorf("a hung call answers %v", err)
	}
}

func TestC32FirstCallsMayComeTogether(t *testing.T) {
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

func TestP1TopologyIsSentOnlyWhereItIsKnown(t *testing.T) {
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

func TestP2ReadOnlyAttachmentIsGated(t *testing.T) {
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

func TestP8UnofferedCallsAreNotSent(t *testing.T) {
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

func TestP10SizesAreCheckedAndSecretsNotTold(t *testing.T) {
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

func TestS38HolesInTopologiesAreLeftOut(t *testing.T) {
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

func TestC31SocketPathHasALimit(t *testing.T) {
	_, err := csi.New(csi.Config{Socket: "/" + strings.Repeat("x", csi.SocketPathMax)})
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("the error is %v", err)
	}
}

func TestDoRepeatsWhatPasses(t *testing.T) {
	quick := csi.Backoff{First: time.Millisecond, Max: time.Millisecond}
	tries := func(err error, until int) (int, error) {
		n := 0
		got := csi.Do(t.Context(), quick, func(context.Context) error {
			if n++; n == until {
				return nil
			}
			return err
		})
		return n, got
	}
	if n, err := tries(fault.New(fault.Unavailable, "x"), 20); n != 20 || err != nil {
		t.Errorf("unavailable: %d tries, %v", n, err)
	}
	if n, err := tries(fault.New(fault.Invalid, "x"), 20); n != 1 || err == nil {
		t.Errorf("invalid: %d tries, %v", n, err)
	}
	if n, err := tries(&csi.Error{RPC: "X", Action: csi.RetryFew}, 20); n != 3 || err == nil {
		t.Errorf("internal: %d tries, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := csi.Do(ctx, quick, func(context.Context) error { cancel(); return fault.New(fault.Unavailable, "last words") })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "last words") {
		t.Errorf("a cancelled retry answers %v", err)
	}
}
