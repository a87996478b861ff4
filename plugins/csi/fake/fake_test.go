package fake_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func serve(t *testing.T, d *fake.Driver) (socket string, done chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "csi.sock")
	ctx, cancel := context.WithCancel(context.Background())
	done = make(chan error, 1)
	go func() { done <- d.Serve(ctx, socket); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return socket, done
}

func client(t *testing.T, socket string) *csi.Client {
	t.Helper()
	cl, err := csi.New(csi.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		if _, err := cl.Probe(ctx); err == nil {
			return cl
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestSanity(t *testing.T) {
	socket, _ := serve(t, fake.New(fake.Config{Attach: true}))
	dir := t.TempDir()
	c := sanity.NewTestConfig()
	c.Address = "unix://" + socket
	c.TargetPath, c.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = 1<<20, 2<<20
	sanity.Test(t, c)
}

func node(id, target string) *csi.NodeVolume {
	return &csi.NodeVolume{
		ExternalID: id, StagingPath: "/s", TargetPath: target,
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	}
}

func TestLateFaultDoesTheWork(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	socket, _ := serve(t, d)
	cl := client(t, socket)
	d.Script(fake.Fault{RPC: "NodeStageVolume", Times: 1, Code: codes.Unavailable, Late: true})
	if err := cl.NodeStage(t.Context(), node("v", "/t")); csi.VerdictOf(err) != fault.VerdictRetry {
		t.Errorf("late success answered %v", err)
	}
	if u := d.Storage().Use("v"); len(u.Staged) != 1 {
		t.Errorf("use %+v", u)
	}
	if err := cl.NodeStage(t.Context(), node("v", "/t")); err != nil {
		t.Error(err)
	}
}

func TestCrashEndsThePlugin(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	socket, done := serve(t, d)
	cl := client(t, socket)
	d.Script(fake.Fault{RPC: "NodeStageVolume", Crash: true})
	if err := cl.NodeStage(t.Context(), node("v", "/t")); csi.VerdictOf(err) != fault.VerdictRetrySoon {
		t.Errorf("crash answered %v", err)
	}
	if err := <-done; err != fake.ErrCrashed {
		t.Errorf("the plugin ended with %v", err)
	}
}

func TestRulesAreWatched(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	fake.New(fake.Config{Storage: d.Storage(), NodeID: "other"})
	socket, _ := serve(t, d)
	cl := client(t, socket)
	ctx := t.Context()
	steps := []func() error{
		func() error { return cl.NodeStage(ctx, node("v", "/t")) }, // not attached
		func() error {
			_, err := cl.ControllerPublish(ctx, &api.ControllerPublishRequest{
				ExternalID: "v", ProviderNodeID: "fake-node",
				AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
			})
			return err
		},
		func() error {
			_, err := cl.ControllerPublish(ctx, &api.ControllerPublishRequest{
				ExternalID: "v", ProviderNodeID: "other",
				AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
			})
			return err
		}, // double attach
	}
	want := []int{1, 1, 2}
	for i, step := range steps {
		err := step()
		if got := len(d.Storage().Violations()); got != want[i] {
			t.Errorf("step %d: %d violations, want %d: %v (%v)", i, got, want[i], d.Storage().Violations(), err)
		}
	}
}
