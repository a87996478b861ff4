package client_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/client/store"
)

func TestDevelopmentNodeEndsWithoutReplacementsAndPluginsLast(t *testing.T) {
	b := setup(t)
	b.conf.Dev = true
	short, err := os.MkdirTemp("", "end") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	b.conf.StateDir, b.conf.AllocDir = filepath.Join(short, "client"), filepath.Join(short, "alloc")
	b.start(t)
	user := job("service", "mock_driver", map[string]any{"run_for": "1h", "kill_after": "300ms"})
	user.TaskGroups[0].ShutdownDelay = time.Hour
	plugin := job("service", "mock_driver", map[string]any{"run_for": "1h"})
	plugin.TaskGroups[0].Tasks[0].CSIPluginConfig = &api.CSIPluginConfig{ID: "p", Type: api.CSIPluginTypeNode, HealthTimeout: time.Hour}
	b.place(alloc("plugin", plugin))
	b.place(alloc("user", user))
	b.until(t, "running", func() bool {
		return b.status("user") == api.AllocClientStatusRunning && b.status("plugin") == api.AllocClientStatusRunning
	})
	b.edit(func() { b.replaces = true })
	b.stop()
	if len(b.allocs) != 2 || b.status("user") != api.AllocClientStatusRunning {
		t.Errorf("the servers heard of the end and replaced something: %v", b.allocs)
	}
	db, err := store.Open(filepath.Join(b.conf.StateDir, "state.db"), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	records, err := db.Allocs()
	if err != nil || len(records) != 2 {
		t.Fatalf("%d allocations: %v", len(records), err)
	}
	ended, told := records["user"].Tasks["t"].State, records["plugin"].Tasks["t"].State
	if ended.State != api.TaskStateDead || told.State != api.TaskStateDead {
		t.Fatalf("left: user %s, plugin %s", ended.State, told.State)
	}
	for _, e := range told.Events {
		if e.Type == api.EventKilling && e.Time < ended.FinishedAt.UnixNano() {
			t.Error("the plugin was told to end before its users had ended")
		}
	}
}

func TestDevelopmentNodeUnmountsWhatIsLeft(t *testing.T) {
	b := setup(t)
	b.conf.Dev = true
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	outer := filepath.Join(b.conf.AllocDir, "left")
	tmpfs(t, outer, "size=1m")
	tmpfs(t, filepath.Join(outer, "inner"), "size=1m")
	b.stop()
	if err := unix.Rmdir(outer); err != nil {
		t.Errorf("the mount is still there: %v", err)
	}
	if err := os.Remove(b.conf.AllocDir); err != nil {
		t.Error(err)
	}
}

func TestNodeThatIsNoDevelopmentNodeLeavesEverything(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.place(alloc("a1", job("service", "mock_driver", map[string]any{"run_for": "1h"})))
	b.until(t, "running", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	left := filepath.Join(b.conf.AllocDir, "left")
	tmpfs(t, left, "size=1m")
	b.stop()
	if err := unix.Rmdir(left); err == nil {
		t.Error("a mount was taken away")
	}
	b.start(t)
	b.until(t, "running again", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
}
