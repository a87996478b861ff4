package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/client"
)

// bench is a node with its servers.
type bench struct {
	*servers
	conf client.Config
	node *client.Client
	stop func()
	// broken is set when the disk cannot take what the client has left to write at its end.
	broken bool
}

func setup(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{servers: newServers(), conf: client.Default()}
	b.conf.Name, b.conf.Mock, b.conf.Servers = "node-1", true, b.servers
	b.conf.StateDir, b.conf.AllocDir = filepath.Join(dir, "client"), filepath.Join(dir, "alloc")
	b.conf.NetworkInterface = "lo"
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(b.conf.StateDir, "csi"), unix.MNT_DETACH) })
	b.conf.Log = hclog.NewNullLogger()
	if os.Getenv("TEST_LOG") != "" {
		b.conf.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug})
	}
	return b
}

// start runs a new agent process on the same directories.
func (b *bench) start(t *testing.T) {
	t.Helper()
	node, err := client.New(b.conf)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	b.node, b.stop = node, func() {
		cancel()
		if err := <-done; err != nil && !b.broken {
			t.Errorf("client ended with %v", err)
		}
		b.stop = func() {}
	}
	t.Cleanup(func() { b.stop() })
}

func job(kind, driver string, config map[string]any) *api.Job {
	return &api.Job{ID: "j", Name: "j", Type: kind, TaskGroups: []*api.TaskGroup{{Name: "g", Tasks: []*api.Task{{
		Name: "t", Driver: driver, Config: config, KillTimeout: time.Second, LogConfig: &api.LogConfig{MaxFiles: 2, MaxFileSizeMB: 1},
	}}}}}
}

func alloc(id string, j *api.Job) api.Allocation {
	return api.Allocation{ID: id, JobID: j.ID, Job: j, TaskGroup: "g", Name: "j.g[0]", Namespace: "default", DesiredStatus: api.AllocDesiredStatusRun}
}

func stopped(a api.Allocation) api.Allocation {
	a.DesiredStatus = api.AllocDesiredStatusStop
	return a
}

func TestMockTaskRunsFromAssignmentToItsEnd(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := setup(t)
	b.start(t)
	a, long := alloc("a1", job("batch", "mock_driver", map[string]any{"run_for": "50ms"})), alloc("a2", job("service", "mock_driver", map[string]any{"run_for": "1h"}))
	b.place(a)
	b.place(long)
	b.until(t, "batch is complete", func() bool { return b.status("a1") == api.AllocClientStatusComplete })
	b.until(t, "service runs", func() bool { return b.status("a2") == api.AllocClientStatusRunning })
	b.until(t, "node with its drivers", func() bool {
		n := b.nodes[b.node.ID()]
		return n != nil && n.Status == api.NodeStatusReady && n.Drivers["mock_driver"].Healthy && n.Attributes["kernel.name"] == "linux" && n.SecretID != ""
	})
	b.place(stopped(long))
	b.until(t, "service is stopped", func() bool { return b.status("a2") == api.AllocClientStatusComplete })
	b.edit(func() { clear(b.allocs) })
	eventually(t, "files of a2 are removed", func() bool {
		_, err := os.Stat(filepath.Join(b.conf.AllocDir, "a2"))
		return errors.Is(err, os.ErrNotExist)
	})
	b.stop()
}

func TestAllocationsThatAreOverNeedOnlyAnAnswer(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.place(stopped(alloc("never-had", job("service", "mock_driver", nil))))
	done := alloc("done", job("batch", "mock_driver", nil))
	done.ClientStatus = api.AllocClientStatusComplete
	b.edit(func() { b.allocs["done"] = &done })
	bad := alloc("../evil", job("batch", "mock_driver", nil))
	b.place(bad)
	noGroup := alloc("no-group", &api.Job{ID: "j"})
	b.place(noGroup)
	b.place(alloc("no-driver", job("batch", "none", nil)))
	b.until(t, "answers", func() bool {
		return b.status("never-had") == api.AllocClientStatusComplete && b.status("../evil") == api.AllocClientStatusFailed &&
			b.status("no-group") == api.AllocClientStatusFailed && b.status("no-driver") == api.AllocClientStatusFailed
	})
	if _, err := os.Stat(filepath.Join(b.conf.AllocDir, "done")); err == nil {
		t.Error("an allocation that is over was started")
	}
}

func TestPurgedNodeRegistersAgain(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	b.edit(func() { clear(b.nodes) })
	b.until(t, "registered again", func() bool { return b.nodes[b.node.ID()] != nil })
}

// Servers that went back to an older state believe a registration that was built after that, and the node proves it.
func TestNodeProvesThatItRegistersAfterARestore(t *testing.T) {
	b := setup(t)
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	for mark := range int64(2) {
		b.edit(func() { clear(b.nodes); b.rollback = 100 + mark })
		b.until(t, "registered again", func() bool { return b.nodes[b.node.ID()] != nil })
	}
	b.edit(func() {
		if !slices.Equal(b.marks, []int64{api.RollbackUnseen, 100, 101}) {
			t.Errorf("it registered with the marks %v", b.marks)
		}
	})
}

func TestToldServersSurviveARestart(t *testing.T) {
	b := setup(t)
	b.tell = []string{"10.0.0.2:4647", "10.0.0.1:4647"}
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	eventually(t, "a file", func() bool {
		_, err := os.Stat(filepath.Join(b.conf.StateDir, "servers"))
		return err == nil
	})
	b.edit(func() { b.tell = []string{"10.0.0.3:4647"} })
	eventually(t, "the fresh list", func() bool {
		body, err := os.ReadFile(filepath.Join(b.conf.StateDir, "servers"))
		return err == nil && string(body) == "10.0.0.3:4647\n"
	})
	b.stop()
	b.start(t)
	if want := []string{"10.0.0.3:4647"}; !slices.Equal(b.remembered, want) {
		t.Errorf("remembered %q", b.remembered)
	}
}

func TestNodeKeepsItsIdentity(t *testing.T) {
	b := setup(t)
	b.start(t)
	id := b.node.ID()
	if _, err := client.New(b.conf); !errors.Is(err, fault.Conflict) {
		t.Errorf("two agents on one directory: %v", err)
	}
	b.stop()
	b.start(t)
	if b.node.ID() != id {
		t.Error("node has a new id")
	}
	b.stop()
	if err := os.WriteFile(filepath.Join(b.conf.StateDir, "client-id"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.New(b.conf); !errors.Is(err, fault.Invalid) {
		t.Errorf("nonsense as id: %v", err)
	}
	if _, err := client.New(client.Config{}); !errors.Is(err, fault.Invalid) {
		t.Errorf("empty configuration: %v", err)
	}
}

func TestEndedAllocationsAreCollected(t *testing.T) {
	b := setup(t)
	b.conf.GC.MaxAllocs, b.conf.GCInterval = 2, time.Hour
	b.start(t)
	for i := range 6 {
		b.place(alloc(fmt.Sprint("a", i), job("batch", "mock_driver", map[string]any{"run_for": "1ms"})))
	}
	b.until(t, "all complete", func() bool {
		for id := range b.allocs {
			if b.status(id) != api.AllocClientStatusComplete {
				return false
			}
		}
		return true
	})
	eventually(t, "two are left", func() bool {
		left, _ := filepath.Glob(filepath.Join(b.conf.AllocDir, "a*"))
		return len(left) <= 2
	})
	if _, err := call(t, b.servers, wire.ClientNodeGC, &api.NodeRequest{}); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.conf.AllocDir, "a*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	b.place(stopped(*b.allocs["a0"]))
	b.place(alloc("b1", job("batch", "mock_driver", map[string]any{"run_for": "1ms"})))
	b.until(t, "next one", func() bool { return b.status("b1") == api.AllocClientStatusComplete })
}

func TestWhatUsersAskOfANode(t *testing.T) {
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	b.conf.Dev = true
	b.start(t)
	b.place(alloc("a1", job("service", "raw_exec", map[string]any{
		"command": "/bin/sh", "args": []any{"-c", "echo hello $NOMAD_ALLOC_ID; echo data > $NOMAD_TASK_DIR/file; exec sleep 1000"},
	})))
	b.until(t, "running", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	out, err := call(t, b.servers, wire.ClientAllocLogs, &api.AllocLogsRequest{AllocID: "a1", Task: "t", Kind: "stdout", Wait: 10 * time.Second})
	if err != nil || string(out.Data) != "hello a1\n" || out.Ended {
		t.Errorf("logs: %+v %v", out, err)
	}
	var text string
	eventually(t, "file after the greeting", func() bool {
		f, err := call(t, b.servers, wire.ClientAllocFileRead, &api.AllocFileRequest{AllocID: "a1", Path: "t/local/file"})
		if err == nil {
			text = string(f.Data)
		} else if !errors.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return text != ""
	})
	if text != "data\n" {
		t.Errorf("file: %q", text)
	}
	if l, err := call(t, b.servers, wire.ClientAllocFileList, &api.AllocFileRequest{AllocID: "a1", Path: "/"}); err != nil || len(l.Files) != 2 {
		t.Errorf("list: %v %v", l, err)
	}
	if f, err := call(t, b.servers, wire.ClientAllocFileStat, &api.AllocFileRequest{AllocID: "a1", Path: "t/local/file"}); err != nil || f.Info.Size != 5 {
		t.Errorf("stat: %v %v", f, err)
	}
	if s, err := call(t, b.servers, wire.ClientAllocStats, &api.AllocRequest{AllocID: "a1"}); err != nil || s.Stats.Tasks["t"] == nil {
		t.Errorf("stats: %+v %v", s, err)
	}
	if s, err := call(t, b.servers, wire.ClientAllocChecks, &api.AllocRequest{AllocID: "a1"}); err != nil || len(s.Checks) != 0 {
		t.Errorf("checks: %+v %v", s, err)
	}
	if s, err := call(t, b.servers, wire.ClientNodeStats, &api.NodeRequest{}); err != nil || s.Stats.Memory.Total == 0 {
		t.Errorf("node stats: %+v %v", s, err)
	}
	if _, err := call(t, b.servers, wire.ClientAllocGC, &api.AllocRequest{AllocID: "a1"}); !errors.Is(err, fault.Conflict) {
		t.Errorf("gc of a running allocation: %v", err)
	}
	if _, err := call(t, b.servers, wire.ClientAllocRestart, &api.AllocRestartRequest{AllocID: "a1"}); err != nil {
		t.Errorf("restart: %v", err)
	}
	b.until(t, "restarted", func() bool {
		s := b.allocs["a1"].TaskStates["t"]
		return s.Restarts == 1 && s.State == api.TaskStateRunning
	})
	if _, err := call(t, b.servers, wire.ClientAllocSignal, &api.AllocSignalRequest{AllocID: "a1", Signal: "SIGTERM"}); err != nil {
		t.Errorf("signal: %v", err)
	}
	b.until(t, "ended by the signal", func() bool {
		for _, e := range b.allocs["a1"].TaskStates["t"].Events {
			if e.Type == api.EventTerminated && e.Signal == 15 {
				return true
			}
		}
		return false
	})
	if _, err := call(t, b.servers, wire.ClientAllocStats, &api.AllocRequest{AllocID: "none"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("unknown allocation: %v", err)
	}
}

func TestTasksOutliveTheAgent(t *testing.T) {
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	b.start(t)
	a := alloc("a1", job("service", "raw_exec", map[string]any{"command": "/bin/sleep", "args": []any{"1000"}}))
	b.place(a)
	b.until(t, "running", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	b.stop()
	b.edit(func() { b.deaf = true })
	b.start(t) // adopted while no server answers
	eventually(t, "adopted task", func() bool {
		s, err := call(t, b.servers, wire.ClientAllocStats, &api.AllocRequest{AllocID: "a1"})
		return err == nil && s.Stats.Tasks["t"] != nil
	})
	b.edit(func() { b.deaf = false })
	b.place(stopped(a))
	b.until(t, "complete", func() bool { return b.status("a1") == api.AllocClientStatusComplete })
	states := b.allocs["a1"].TaskStates["t"]
	if states.Restarts != 0 {
		t.Errorf("task was restarted: %+v", states)
	}
	var kinds []string
	for _, e := range states.Events {
		kinds = append(kinds, e.Type)
	}
	if got := strings.Join(kinds, ", "); got != "Received, Task Setup, Started, Killing, Terminated, Killed" {
		t.Errorf("events: %s", got)
	}
}

func TestGroupThatMustNotRunWithoutServersIsStopped(t *testing.T) {
	b := setup(t)
	b.start(t)
	j := job("service", "mock_driver", map[string]any{"run_for": "1h"})
	j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{StopOnClientAfter: time.Millisecond}
	b.place(alloc("a1", j))
	b.place(alloc("a2", job("service", "mock_driver", map[string]any{"run_for": "1h"})))
	b.until(t, "running", func() bool {
		return b.status("a1") == api.AllocClientStatusRunning && b.status("a2") == api.AllocClientStatusRunning
	})
	b.edit(func() { b.deaf = true })
	eventually(t, "no task of a1", func() bool {
		s, err := call(t, b.servers, wire.ClientAllocStats, &api.AllocRequest{AllocID: "a1"})
		if err != nil {
			t.Fatal(err)
		}
		return len(s.Stats.Tasks) == 0
	})
	b.edit(func() { b.deaf = false })
	b.until(t, "stopped, the other runs", func() bool {
		return b.status("a1") == api.AllocClientStatusComplete && b.status("a2") == api.AllocClientStatusRunning
	})
}

func TestHostVolumeIsMountedIntoTheTask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	dir := t.TempDir()
	b.conf.HostVolumes = map[string]*api.HostVolumeInfo{"shared": {Path: dir}}
	b.start(t)
	j := job("batch", "raw_exec", map[string]any{"command": "/bin/sh", "args": []any{"-c", "echo written > mnt/file"}})
	j.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: "host", Source: "shared"}}
	j.TaskGroups[0].Tasks[0].VolumeMounts = []*api.VolumeMount{{Volume: "v", Destination: "mnt"}}
	b.place(alloc("a1", j))
	none := job("batch", "raw_exec", nil)
	none.TaskGroups[0].Volumes = map[string]*api.VolumeRequest{"v": {Name: "v", Type: "host", Source: "none"}}
	b.place(alloc("a2", none))
	b.until(t, "both ended", func() bool {
		return b.status("a1") == api.AllocClientStatusComplete && b.status("a2") == api.AllocClientStatusFailed
	})
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "written\n" {
		t.Errorf("%q %v", text, err)
	}
}

func TestDriversCanBeDenied(t *testing.T) {
	b := setup(t)
	b.conf.Options = map[string]string{"driver.denylist": "mock_driver, x"}
	b.start(t)
	b.until(t, "registered", func() bool { return b.nodes[b.node.ID()] != nil })
	b.place(alloc("a1", job("batch", "mock_driver", nil)))
	b.until(t, "failed", func() bool { return b.status("a1") == api.AllocClientStatusFailed })
	if n := b.nodes[b.node.ID()]; n.Drivers["mock_driver"] != nil || n.Drivers["raw_exec"] == nil {
		t.Errorf("drivers %v", n.Drivers)
	}
}

func TestDamagedStateIsNoEndOfTheNode(t *testing.T) {
	b := setup(t)
	b.start(t)
	id := b.node.ID()
	b.stop()
	if err := os.WriteFile(filepath.Join(b.conf.StateDir, "state.db"), []byte(strings.Repeat("x", 1<<16)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	b.place(alloc("a1", job("batch", "mock_driver", map[string]any{"run_for": "1ms"})))
	b.until(t, "complete", func() bool { return b.status("a1") == api.AllocClientStatusComplete })
	if b.node.ID() != id {
		t.Error("the node has a new id")
	}
}

func TestTasksThatNobodyKnowsAreEnded(t *testing.T) {
	b := setup(t)
	b.conf.RawExec.Enabled, b.conf.RawExec.NoCgroups = true, true
	pidFile := filepath.Join(t.TempDir(), "pid")
	b.start(t)
	a := alloc("a1", job("service", "raw_exec", map[string]any{"command": "/bin/sh", "args": []any{"-c", "echo $$ >> " + pidFile + "; exec sleep 1000"}}))
	b.place(a)
	b.until(t, "running", func() bool { return b.status("a1") == api.AllocClientStatusRunning })
	var first string
	eventually(t, "pid of the first task", func() bool {
		text, _ := os.ReadFile(pidFile)
		first = string(text)
		return strings.HasSuffix(first, "\n")
	})
	b.stop()
	if err := os.Remove(filepath.Join(b.conf.StateDir, "state.db")); err != nil {
		t.Fatal(err)
	}
	b.start(t) // the servers still want it: it is started anew, after the old one is ended
	eventually(t, "second task", func() bool {
		text, _ := os.ReadFile(pidFile)
		return strings.Count(string(text), "\n") == 2
	})
	if _, err := os.Stat("/proc/" + strings.TrimSpace(first)); err == nil {
		t.Error("the first task still runs beside the second")
	}
	b.place(stopped(a))
	b.until(t, "complete", func() bool { return b.status("a1") == api.AllocClientStatusComplete })
}
