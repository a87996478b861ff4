package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func TestFault08PluginJobStoppedWhileMounted(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)

	out, code := b.Run("job", "stop", "-yes", "hp")
	if code == 0 || !strings.Contains(out, "v1") && !strings.Contains(out, "w") {
		t.Errorf("stopping the plugin is not refused: exit %d: %s", code, out)
	}
	refused := code != 0
	if code != 0 {
		if n := len(b.Allocs("hp", "running")); n != 2 {
			t.Fatalf("%d plugins run after the refusal", n)
		}
		if out, code := b.Run("job", "stop", "-yes", "-force", "hp"); code != 0 {
			t.Fatalf("stopping the plugin with -force: exit %d: %s", code, out)
		}
	}
	b.Until(20*time.Second, "the plugin to end", func() error {
		if n := len(b.Allocs("hp", "running")); n != 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	b.beats("v1", alloc.ID)
	b.Run("system", "gc")
	b.Stop("w", false)
	h := b.host(alloc)
	b.Until(15*time.Second, "the task to end", func() error {
		if n := len(h.Shells()); n > 0 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	if n := b.Claimed("v1"); n != 1 || len(h.VolumeMounts()) == 0 {
		t.Errorf("%d claims, mounts %q while nobody can unmount", n, h.VolumeMounts())
	}
	b.Register(b.driverJob())
	began := time.Now()
	b.PluginOn("hp", 2)
	healthy := time.Now()
	b.Free("v1")
	free := time.Since(healthy)
	b.Register(writer("next", "v1"))
	next := b.Running("next", 1)
	b.beats("v1", next.ID)
	b.Stop("next", false)
	b.clean()
	b.within("freeing", free, 5*time.Second)
	b.row(8, "plugin job stopped with -force while mounted, workload stopped, plugin back",
		fmt.Sprintf("refused without -force: %v; healthy after %s, free %s later", refused, short(healthy.Sub(began)), short(free)), "stop refused; free <= 5 s after the return")
}

func TestFault09DrainWithSlowUnmount(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	// The first controller in the order of ids makes the calls: it shall be the one that is drained.
	h := b.nodes[0]
	if b.nodes[1].NodeID(b.Host) < h.NodeID(b.Host) {
		h = b.nodes[1]
	}
	node, other := h.NodeID(b.Host), b.other(h).NodeID(b.Host)
	if _, err := b.API.Nodes().ToggleEligibility(other, false, nil); err != nil {
		t.Fatal(err)
	}
	b.Register(writer("w", "v1"))
	alloc := b.Running("w", 1)
	b.beats("v1", alloc.ID)
	if _, err := b.API.Nodes().ToggleEligibility(other, true, nil); err != nil {
		t.Fatal(err)
	}
	b.faults(script.Fault{RPC: "NodeUnpublishVolume", Node: h.Name, Delay: 4 * time.Second}, script.Fault{RPC: "NodeUnstageVolume", Node: h.Name, Delay: 4 * time.Second})
	began := time.Now()
	if out, code := b.Run("node", "drain", "-enable", "-yes", "-detach", node); code != 0 {
		t.Fatalf("drain: %s", out)
	}
	var pluginGone, drained time.Time
	b.Until(40*time.Second, "the drain to end", func() error {
		if pluginGone.IsZero() && len(drivers(h)) == 0 {
			pluginGone = time.Now()
			if m := h.VolumeMounts(); len(m) > 0 {
				t.Errorf("the plugin ended while mounted are %q", m)
			}
		}
		n, _, err := b.API.Nodes().Info(node, nil)
		if err != nil {
			return err
		}
		if n.DrainStrategy != nil {
			return fmt.Errorf("draining")
		}
		drained = time.Now()
		return nil
	})
	b.Until(20*time.Second, "the plugin to end", func() error {
		if len(drivers(h)) > 0 {
			return fmt.Errorf("it runs")
		}
		if pluginGone.IsZero() {
			pluginGone = time.Now()
		}
		return nil
	})
	order, told := []string{}, ""
	var last time.Time
	for _, c := range b.calls("v1", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume") {
		order = append(order, c.RPC)
		told += fmt.Sprintf("%s on %s from %v to %v: %d %s\n", c.RPC, c.Node, c.At.Sub(began), c.Ended.Sub(began), c.Code, c.Text)
		last = c.Ended
	}
	if want := []string{"NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"}; !slices.Equal(order, want) {
		t.Errorf("calls were\n%s", told)
	}
	if pluginGone.Before(last) {
		t.Errorf("the plugin ended %v before the detach", last.Sub(pluginGone))
	}
	again := b.moved("w", alloc.ID)
	b.beats("v1", again.ID)
	b.Stop("w", false)
	b.faults()
	b.clean()
	b.row(9, "drain, unmount takes 8 s", fmt.Sprintf("detached %s, plugin ended %s, drain done %s after its begin", short(last.Sub(began)), short(pluginGone.Sub(began)), short(drained.Sub(began))),
		"users, unmount, detach, then the plugin")
}
