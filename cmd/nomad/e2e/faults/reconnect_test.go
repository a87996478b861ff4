package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// TestVolumeGivenAwayByForceStaysAwayWhenItsNodeIsBack cuts a node off whose allocation may come back, and has an
// operator give its volume to the replacement. The original is the one that the group prefers, but what it writes
// reaches nobody any more.
func TestVolumeGivenAwayByForceStaysAwayWhenItsNodeIsBack(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	j := writer("w", "v1")
	j.TaskGroups[0].Disconnect = &api.DisconnectStrategy{LostAfter: ptr(time.Hour), Replace: ptr(true), Reconcile: ptr("keep_original")}
	b.Register(j)
	original := b.Running("w", 1)
	b.beats("v1", original.ID)
	h := b.host(original)
	b.allowed = []string{"detach-while-staged " + h.Name}
	h.Cut()
	b.status(h, "disconnected")
	if out, code := b.Run("volume", "detach", "-force", "v1", h.NodeID(b.Host)); code != 0 {
		t.Fatalf("detach -force: exit %d: %s", code, out)
	}
	replacement := b.moved("w", original.ID)
	b.beats("v1", replacement.ID)
	h.Heal()
	b.status(h, "ready")
	b.Until(20*time.Second, "the original to end", func() error {
		a, _, err := b.API.Allocations().Info(original.ID, nil)
		if err != nil || a.ClientStatus != "complete" {
			return fmt.Errorf("it is %s: %w", a.ClientStatus, err)
		}
		if p, m := h.Shells(), h.VolumeMounts(); len(p)+len(m) > 0 {
			return fmt.Errorf("processes %v, mounts %q", p, m)
		}
		return nil
	})
	b.PluginOn("hp", 2)
	if now := b.Running("w", 1); now.ID != replacement.ID {
		t.Errorf("the replacement went too: %s", b.tell("w"))
	}
	b.beats("v1", replacement.ID)
	b.Stop("w", false)
	b.clean()
}

// TestAllocationThatLosesItsVolumeByForceIsReplaced takes the volume of an allocation that runs where it is heard.
func TestAllocationThatLosesItsVolumeByForceIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBed(t, 2, true)
	b.volume("v1", nil)
	b.Register(writer("w", "v1"))
	first := b.Running("w", 1)
	b.beats("v1", first.ID)
	if out, code := b.Run("volume", "detach", "-force", "v1", first.NodeID); code != 0 {
		t.Fatalf("detach -force: exit %d: %s", code, out)
	}
	next := b.moved("w", first.ID)
	b.beats("v1", next.ID)
	b.Until(20*time.Second, "the first to end", func() error {
		a, _, err := b.API.Allocations().Info(first.ID, nil)
		if err != nil || a.ClientStatus != "complete" {
			return fmt.Errorf("it is %s: %w", a.ClientStatus, err)
		}
		return nil
	})
	b.Running("w", 1)
	b.Stop("w", false)
	// The driver detaches below the mount, beside the node's calls: that was the operator's word.
	b.Until(20*time.Second, "nothing to be left", b.left)
}
