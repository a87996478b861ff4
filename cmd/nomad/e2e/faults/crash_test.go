package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// drivers are the faulty driver's processes on a host.
func drivers(h *kit.Host) []int { return h.Commands(driverBinary) }

// starts is how many instances wrote on the volume.
func (b *bed) starts(volume string) int { return strings.Count(b.journal(volume), "start ") }

// status waits until the server gives the host's node a status.
func (b *bed) status(h *kit.Host, want string) time.Duration {
	b.t.Helper()
	return b.Until(30*time.Second, h.Name+" to be "+want, func() error {
		if got := h.NodeStatus(b.Host); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

func TestFault02AgentKilledAndBackSoon(t *testing.T) {
	t.Parallel()
	// A grace that a busy machine does not exceed.
	b := layout{nodes: 2, attach: true, times: "heartbeat_grace = \"30s\""}.bed(t)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	h := b.host(alloc)
	calls, mounts, shells, plugins := len(b.calls("")), h.VolumeMounts(), h.Shells(), drivers(h)

	h.Kill9()
	h.Restart()
	began := time.Now()
	b.reaches(alloc.ID)
	b.status(h, "ready")
	b.PluginOn("hp", 2)
	b.beats("v1", alloc.ID)
	ready := time.Since(began)
	if now := b.Running("w", 1); now.ID != alloc.ID {
		t.Errorf("the allocation was replaced: %s", b.tell("w"))
	}
	if now := h.VolumeMounts(); !slices.Equal(now, mounts) {
		t.Errorf("mounts were %q and are %q", mounts, now)
	}
	if now := h.Shells(); !slices.Equal(now, shells) {
		t.Errorf("tasks were %v and are %v", shells, now)
	}
	if now := drivers(h); !slices.Equal(now, plugins) {
		t.Errorf("plugins were %v and are %v", plugins, now)
	}
	more := b.calls("")[calls:]
	for _, c := range more {
		t.Errorf("the driver was called: %s", c.RPC)
	}
	b.Stop("w", false)
	b.clean()
	b.within("being ready", ready, 3*time.Second)
	b.row(2, "agent kill -9, back before node down", fmt.Sprintf("ready after %s, %d driver calls, %d starts", short(ready), len(more), b.starts("v1")),
		"nothing restarts, no driver calls, ready <= 3 s")
}

func TestFault02AgentKilledAndBackAfterNodeDown(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", map[string]any{"FenceAfter": 2 * time.Second})
	b.Register(on(writer("w", "v1"), b.nodes[0]))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	h := b.host(alloc)
	b.allowed = []string{"detach-while-staged " + h.Name}
	h.Kill9()
	b.status(h, "down")
	h.Restart()
	began := time.Now()
	b.status(h, "ready")
	b.PluginOn("hp", 2)
	ready := time.Since(began)
	// The job may be here only, so it runs again, in its old or in a new instance.
	now := b.Running("w", 1)
	b.beats("v1", now.ID)
	again := time.Since(began)
	b.Stop("w", false)
	b.clean()
	b.within("running again", again, 10*time.Second)
	b.row(2, "agent kill -9, back after node down", fmt.Sprintf("ready after %s, writes after %s, %d starts", short(ready), short(again), b.starts("v1")),
		"as a healed partition: clean, one writer")
}

// reaches waits until the server can ask the node about an allocation.
func (b *bed) reaches(alloc string) {
	b.t.Helper()
	info, _, err := b.API.Allocations().Info(alloc, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Until(20*time.Second, "the agent to be asked through the server", func() error {
		_, err := b.API.Allocations().Stats(info, nil)
		return err
	})
}

func TestFault03TaskKilled(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	for _, id := range []string{"again", "moves"} {
		b.volume(id, nil)
	}
	restart := writer("again", "again")
	restart.TaskGroups[0].RestartPolicy = &api.RestartPolicy{Attempts: ptr(3), Interval: ptr(time.Minute), Delay: ptr(100 * time.Millisecond), Mode: ptr("delay")}
	b.Register(restart)
	stays := b.Running("again", 1)
	b.beats("again", stays.ID)
	calls := len(b.calls("again"))
	began := time.Now()
	killShells(t, b.host(stays))
	b.Until(15*time.Second, "the second start", func() error {
		if n := b.starts("again"); n != 2 {
			return fmt.Errorf("%d starts", n)
		}
		return nil
	})
	back := time.Since(began)
	b.beats("again", stays.ID)
	if n := len(b.calls("again")) - calls; n != 0 {
		t.Errorf("a restart in place made %d driver calls", n)
	}
	b.Stop("again", false)
	b.Free("again")

	moves := writer("moves", "moves")
	moves.TaskGroups[0].ReschedulePolicy = &api.ReschedulePolicy{
		Attempts: ptr(0), Unlimited: ptr(true), Interval: ptr(time.Duration(0)), Delay: ptr(5 * time.Second), DelayFunction: ptr("constant"), MaxDelay: ptr(time.Duration(0)),
	}
	b.Register(moves)
	first := b.Running("moves", 1)
	b.beats("moves", first.ID)
	began = time.Now()
	killShells(t, b.host(first))
	second := b.moved("moves", first.ID)
	b.beats("moves", second.ID)
	moved := time.Since(began)
	b.Stop("moves", false)
	b.clean()
	b.row(3, "task killed: restart in place; reschedule with 5 s delay", fmt.Sprintf("writes after %s; %s", short(back), short(moved)), "no driver call; as configured")
}

func killShells(t *testing.T, h *kit.Host) {
	t.Helper()
	pids := h.Shells()
	if len(pids) == 0 {
		t.Fatalf("no task runs on %s", h.Name)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// down keeps the driver of a host from working until the returned function is called.
func (b *bed) down(h *kit.Host) (up func()) {
	b.t.Helper()
	file := script.DownFile(b.storage, h.Name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
	pids := drivers(h)
	if len(pids) == 0 {
		b.t.Fatalf("no driver runs on %s", h.Name)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	b.Until(10*time.Second, "the driver to be down", func() error {
		for _, pid := range pids {
			if kit.Lives(pid) {
				return fmt.Errorf("process %d lives", pid)
			}
		}
		return nil
	})
	return func() {
		if err := os.Remove(file); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestFault04PluginDownWhileTheWorkloadStops(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		name := "plugin killed, workload stopped, plugin back"
		if restart {
			name += ", agent restarted in between"
		}
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			b := newBed(t, 2, true)
			b.volume("v1", nil)
			b.Register(writer("w", "v1"))
			alloc := b.Running("w", 1)
			b.beats("v1", alloc.ID)
			h := b.host(alloc)
			began := time.Now()
			up := b.down(h)
			noticed := b.Until(20*time.Second, "the plugin to be shown unhealthy", func() error {
				p, _, err := b.API.CSIPlugins().Info("hp", nil)
				if err != nil {
					return err
				}
				if p.NodesHealthy != 1 {
					return fmt.Errorf("%d healthy", p.NodesHealthy)
				}
				return nil
			})
			noticed = max(noticed, time.Since(began))
			b.Stop("w", false)
			b.Until(15*time.Second, "the task to end", func() error {
				if n := len(h.Shells()); n > 0 {
					return fmt.Errorf("%d processes", n)
				}
				return nil
			})
			if restart {
				h.Kill9()
				h.Restart()
				b.status(h, "ready")
			}
			// What must not happen has a while to happen.
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
				if len(h.VolumeMounts()) > 0 && (b.Claimed("v1") == 0 || len(b.attached("v1")) == 0) {
					t.Fatalf("still mounted, with %d claims, attached to %q", b.Claimed("v1"), b.attached("v1"))
				}
			}
			if len(h.VolumeMounts()) == 0 {
				t.Error("unmounted without the driver")
			}
			up()
			began = time.Now()
			b.Free("v1")
			free := time.Since(began)
			b.PluginOn("hp", 2)
			healthy := time.Since(began)
			b.clean()
			b.within("freeing", free, 5*time.Second)
			b.row(4, name, fmt.Sprintf("death shown after %s; free %s and healthy %s after the return", short(noticed), short(free), short(healthy)),
				"claimed until unmounted; free <= 5 s after the return")
		})
	}
}
