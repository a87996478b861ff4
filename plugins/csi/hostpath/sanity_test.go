package hostpath_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"

	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/hostpath"
)

// start runs a driver until the test ends and returns its socket. Paths are short: sockets have a limit.
func start(t *testing.T, c hostpath.Config) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if c.Endpoint == "" {
		dir, err := os.MkdirTemp("", "hp")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		c.Endpoint = "unix://" + filepath.Join(dir, "csi.sock")
	}
	if c.NodeID == "" {
		c.NodeID = "n1"
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hostpath.Run(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("driver: %v", err)
		}
	})
	socket, err := csi.SocketOf(c.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, socket)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		ready, err := cl.Probe(ctx)
		cancel()
		if ready && err == nil {
			return socket
		}
		select {
		case err := <-done:
			t.Fatalf("driver ended: %v", err)
		default:
		}
		if t.Context().Err() != nil {
			t.Fatal("driver never became ready")
		}
	}
}

func client(t *testing.T, socket string) *csi.Client {
	t.Helper()
	cl, err := csi.New(csi.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func TestSanity(t *testing.T) {
	dir, err := os.MkdirTemp("", "hps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := start(t, hostpath.Config{StateDir: filepath.Join(dir, "state"), Attach: true})
	c := sanity.NewTestConfig()
	c.Address = "unix://" + socket
	c.TargetPath, c.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
	c.TestVolumeSize, c.TestVolumeExpandSize = 1<<20, 2<<20
	sanity.Test(t, c)
}
