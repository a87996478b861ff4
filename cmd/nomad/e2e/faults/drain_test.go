package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestNodeThatTakesNothingNewKeepsThePluginOfItsVolumes updates the plugin while a node that has a volume is ineligible,
// and takes it away while the node drains, for longer than the drain's deadline: the volume leaves by itself both times.
func TestNodeThatTakesNothingNewKeepsThePluginOfItsVolumes(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	h := b.host(alloc)
	node := h.NodeID(b.Host)
	run := func(args ...string) {
		t.Helper()
		if out, code := b.Run(args...); code != 0 {
			t.Fatalf("%q: exit %d: %s", args, code, out)
		}
	}

	run("node", "eligibility", "-disable", node)
	old := drivers(h)
	next := b.driverJob()
	next.TaskGroups[0].Tasks[0].Env = map[string]string{"RELEASE": "2"}
	next.Update = &api.UpdateStrategy{MaxParallel: ptr(2), HealthCheck: ptr("task_states"), MinHealthyTime: ptr(100 * time.Millisecond)}
	b.Register(next)
	b.Until(30*time.Second, "the plugin to be another one", func() error {
		if now := drivers(h); len(now) != 1 || now[0] == old[0] {
			return fmt.Errorf("it was %v and is %v", old, now)
		}
		return nil
	})
	b.PluginOn("hp", 2)
	b.beats("v1", alloc.ID)

	b.StopPlugin("hp")
	b.Until(30*time.Second, "the plugins to end", func() error {
		if n := len(b.Allocs("hp", "running")); n > 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	run("node", "drain", "-enable", "-yes", "-detach", "-deadline", "1s", node)
	b.Until(30*time.Second, "the task to end", func() error {
		if p := h.Shells(); len(p) > 0 {
			return fmt.Errorf("%v run", p)
		}
		return nil
	})
	b.Register(next)
	b.Until(30*time.Second, "the drain to be over", func() error {
		n, _, err := b.API.Nodes().Info(node, nil)
		if err == nil && n.DrainStrategy != nil {
			err = fmt.Errorf("it goes on: %s", b.waits("v1"))
		}
		return err
	})
	b.Until(30*time.Second, "the plugin to leave", func() error {
		if p, m := drivers(h), h.VolumeMounts(); len(p)+len(m) > 0 {
			return fmt.Errorf("plugin %v, mounts %q", p, m)
		}
		return nil
	})
	moved := b.moved("w", alloc.ID)
	b.beats("v1", moved.ID)
	b.Stop("w", false)
	b.clean()
}
