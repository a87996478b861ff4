package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

func TestOperatorEndsAnAttachmentThatTheDriverKeeps(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	h := b.nodes[0]
	b.Register(on(writer("w", "v1"), h))
	b.beats("v1", b.Running("w", 1).ID)
	b.faults(script.Fault{RPC: "ControllerUnpublishVolume", Volume: b.volumes["v1"], Code: internal, Text: "a bug\nat line 7\nof the driver"})
	b.Stop("w", true)
	b.Register(on(writer("next", "v1"), h))
	b.Until(15*time.Second, "the driver to refuse", func() error {
		if len(b.calls("v1", "ControllerUnpublishVolume")) < 2 {
			return fmt.Errorf("not twice yet")
		}
		return nil
	})
	node := h.NodeID(b.Host)
	listed := func(words []string, args ...string) {
		t.Helper()
		b.Until(10*time.Second, "the attachment to be listed", func() error {
			list, code := b.Run(append([]string{"volume", "attachments"}, args...)...)
			for _, want := range words {
				if code != 0 || !strings.Contains(list, want) {
					return fmt.Errorf("exit %d, no %q in\n%s", code, want, list)
				}
			}
			if head, _, _ := strings.Cut(list, "\n\n"); strings.Contains(head, "\nat line 7") || strings.Contains(head, "\nof the driver") {
				return fmt.Errorf("an error of several lines breaks the table:\n%s", list)
			}
			return nil
		})
	}
	ends := "nomad volume detach -force v1 " + node
	listed([]string{"v1", h.Name, "unpublishing", ends})
	listed([]string{"v1", node, "a bug", ends}, "-verbose")
	listed([]string{"v1", ends}, "-node", node[:8])
	began := time.Now()
	if out, code := b.Run("volume", "detach", "-force", "v1", node); code != 0 {
		t.Fatalf("detach -force: exit %d: %s", code, out)
	}
	b.runs("next", "v1", 15*time.Second)
	took := time.Since(began)
	b.beats("v1", b.Running("next", 1).ID)
	b.faults()
	b.Stop("next", false)
	b.clean()
	b.figure("the driver refuses a detach for ever; volume detach -force", "listed with node, error and command; the next job runs "+short(took)+" after", "freed whatever the driver says")
}

// One forced detach frees a volume that is claimed and attached when its plugin is gone for good.
func TestOneForcedDetachFreesTheVolumeOfAPluginThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	b.allowed = []string{"detach-while-staged n1"} // the node unmounts without the driver
	h := b.nodes[0]
	b.Register(on(writer("w", "v1"), h))
	b.beats("v1", b.Running("w", 1).ID)
	b.StopPlugin("hp")
	b.Until(30*time.Second, "the plugins to end", func() error {
		if n := len(b.Allocs("hp", "running")); n > 0 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	b.Stop("w", false)
	b.Until(30*time.Second, "the task to end", func() error {
		if p := h.Shells(); len(p) > 0 {
			return fmt.Errorf("%v run", p)
		}
		return nil
	})
	if n := b.Claimed("v1"); n != 1 {
		t.Fatalf("%d claims", n)
	}
	ends := "nomad volume detach -force v1 " + h.NodeID(b.Host)[:8]
	if out, code := b.Run("volume", "deregister", "v1"); code == 0 || !strings.Contains(out, "`"+ends+"`") {
		t.Fatalf("deregister: exit %d, no %q in: %s", code, ends, out)
	}
	began := time.Now()
	if out, code := b.Run(strings.Fields(ends)[1:]...); code != 0 {
		t.Fatalf("detach -force: exit %d: %s", code, out)
	}
	took := time.Since(began)
	if n := b.Claimed("v1"); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	b.Register(b.driverJob())
	b.PluginOn("hp", 2)
	b.Register(on(writer("next", "v1"), b.nodes[1]))
	b.beats("v1", b.Running("next", 1).ID)
	b.Stop("next", false)
	b.clean()
	b.figure("a plugin that is gone keeps claim and attachment; volume detach -force", "freed by one command in "+short(took), "one command")
}
