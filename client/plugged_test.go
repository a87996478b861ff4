package client_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client/store"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// granting are servers that give the volume v with a lease, and remember when they were heard last.
type granting struct {
	*servers
	lease, writeBack time.Duration

	mu    sync.Mutex
	heard time.Time
	beats int
}

func (g *granting) Invoke(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case *api.NodeHeartbeatRequest:
		sent := time.Now()
		err := g.servers.Invoke(ctx, method, req, resp)
		if err == nil {
			g.mu.Lock()
			g.heard, g.beats = sent, g.beats+1
			g.mu.Unlock()
		}
		return err
	case *api.VolumeClaimRequest:
		*resp.(*api.VolumeClaimResponse) = api.VolumeClaimResponse{
			Volume: &api.Volume{VolumeSpec: api.VolumeSpec{ID: r.VolumeID, Namespace: r.Namespace, PluginID: "p"}},
			Claim: &api.VolumeClaim{
				Namespace: r.Namespace, VolumeID: r.VolumeID, AllocID: r.AllocID, NodeID: r.NodeID, Use: r.Use, PluginID: "p", ExternalID: r.VolumeID,
				Mode: api.ClaimWrite, AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem, State: api.ClaimReady,
				Lease: g.lease, WriteBack: g.writeBack,
			},
		}
		return nil
	case *api.VolumeUnpublishRequest, *api.VolumeIntentRequest:
		return nil
	}
	return g.servers.Invoke(ctx, method, req, resp)
}

// shortSetup is [setup] with directories whose names leave room for those of sockets.
func shortSetup(t *testing.T) *bench {
	t.Helper()
	b := setup(t)
	short, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	b.conf.StateDir, b.conf.AllocDir = filepath.Join(short, "client"), filepath.Join(short, "alloc")
	return b
}

// plugIn runs the plugin p on the node, with a volume v.
func plugIn(t *testing.T, b *bench, c fake.Config) *fake.Driver {
	t.Helper()
	kind := api.CSIPluginTypeMonolith
	if c.NoController {
		kind = api.CSIPluginTypeNode
	}
	plugin := job("service", "mock_driver", map[string]any{"run_for": "1h"})
	plugin.TaskGroups[0].Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: kind, HealthTimeout: time.Hour}
	b.place(alloc("plugin", plugin))
	c.DataDir = filepath.Join(filepath.Dir(b.conf.StateDir), "data")
	driver := fake.New(c)
	driver.Storage().Add("v")
	sockets := filepath.Join(b.conf.StateDir, "csi", "plugins", "plugin")
	eventually(t, "the directory of the socket", func() bool { _, err := os.Stat(sockets); return err == nil })
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- driver.Serve(ctx, filepath.Join(sockets, "csi.sock")) }()
	t.Cleanup(func() { end(); <-served })
	b.until(t, "the plugin is known", func() bool {
		n := b.nodes[b.node.ID()]
		return n != nil && n.CSINodePlugins["p"] != nil && n.CSINodePlugins["p"].Healthy
	})
	return driver
}

// Nothing ends the task of such a driver but the agent. It is killed while there is time to write its data back,
// whatever its kill_timeout.
func TestTasksOfDriversThatKeepNoLeasesEndBeforeTheTerm(t *testing.T) {
	b := shortSetup(t)
	term := api.LeaseTerm{Term: 10 * time.Second, WriteBack: 5 * time.Second}
	g := &granting{servers: b.servers, lease: term.Term, writeBack: term.WriteBack}
	b.conf.Servers = g
	b.start(t)

	driver := plugIn(t, b, fake.Config{NoController: true})
	user := job("service", "mock_driver", map[string]any{"run_for": "1h", "kill_after": "1h"})
	user.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"data": {Name: "data", Type: api.VolumeTypeCSI, Source: "v"}}
	user.TaskGroups[0].Tasks[0].KillTimeout = time.Hour
	user.TaskGroups[0].Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: "data", Destination: "data"}}
	b.place(alloc("user", user))
	b.until(t, "the user runs", func() bool { return b.status("user") == api.AllocClientStatusRunning })
	beats := func() int { g.mu.Lock(); defer g.mu.Unlock(); return g.beats }
	before := beats()
	eventually(t, "another heartbeat", func() bool { return beats() > before })
	if s := b.status("user"); s != api.AllocClientStatusRunning {
		t.Fatalf("while its node is heard it is %s", s)
	}
	b.edit(func() { b.deaf = true })
	eventually(t, "the unmount", func() bool { return len(driver.Calls("NodeUnpublishVolume")) > 0 })
	g.mu.Lock()
	heard := g.heard
	g.mu.Unlock()
	b.edit(func() { b.deaf = false })
	var ended time.Time
	b.until(t, "the end is told", func() bool {
		s := b.allocs["user"].TaskStates["t"]
		if s == nil || s.State != api.TaskStateDead {
			return false
		}
		ended = s.FinishedAt
		return true
	})
	if took := ended.Sub(heard); took >= term.Term {
		t.Errorf("the task ended %s after its node was heard, of a lease of %s", took, term.Term)
	}
}

// What a host of a controller has been asked for last is known to its next agent: late calls of before are refused.
func TestIntentsOfControllerCallsAreInTheStoreOfTheNode(t *testing.T) {
	b := shortSetup(t)
	b.conf.Servers = &granting{servers: b.servers}
	b.start(t)
	plugIn(t, b, fake.Config{Attach: true})
	_, err := call(t, b.servers, wire.ControllerPublish, &api.ControllerPublishRequest{
		ControllerCall: api.ControllerCall{PluginID: "p", Fence: 7}, ExternalID: "v", ProviderNodeID: "fake-node",
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.stop()
	db, err := store.Open(filepath.Join(b.conf.StateDir, "state.db"), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	all, err := db.Bucket("fences").All()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d intents are in the store: %v", len(all), err)
	}
	for _, raw := range all {
		var kept struct{ Intent uint64 }
		if err := json.Unmarshal(raw, &kept); err != nil || kept.Intent != 7 {
			t.Errorf("kept is %s: %v", raw, err)
		}
	}
}
