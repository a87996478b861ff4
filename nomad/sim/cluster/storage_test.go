package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// What storage must never be asked for, written apart from the services. World.mu is held.

// has reports whether the storage has the volume attached to the node.
func (w *World) has(external, node string) bool {
	return slices.Contains(w.storage.Attached(external), provider(node))
}

// provider is the storage's id of a node.
func provider(node string) string { return "provider-" + node }

// mayAttach asserts that a volume of one node is attached to one node, and that no mount comes to life again
// whose claim was given up, unless an older state was restored in which it was not.
func (w *World) mayAttach(external, to string, mode api.AccessMode) {
	on := w.storage.Attached(external)
	for _, other := range on {
		if other != to && (single(mode) || single(w.attachedAs[external+" "+other])) {
			w.fail("the storage is asked to attach %s to %s, and it is attached to %s", external, to, other)
		}
	}
	for _, n := range w.nodes {
		if provider(n.id) != to || slices.Contains(on, to) {
			continue
		}
		for _, m := range n.live() {
			c := w.newest().store.Read().Claim(home(m.volume), m.volume, m.alloc, m.use)
			if m.external == external && w.outcast[m.key()] && (c == nil || c.State != api.ClaimReady) {
				w.fail("%s is attached to %s again under the mount of %s, which was given up", external, n.id, m.key())
			}
		}
	}
	w.attachedAs[external+" "+to] = mode
}

// mayDetach asserts that nothing is pulled away from under a mount.
func (w *World) mayDetach(external, from string) {
	for _, n := range w.nodes {
		if from != "" && provider(n.id) != from {
			continue
		}
		for _, m := range n.live() {
			if m.external == external && m.plugin == "attach" && !w.outcast[m.key()] {
				w.fail("%s is detached from %s under the mount of %s", external, n.id, m.key())
			}
			if m.external == external && m.volume == both && n.runs(m.alloc) && !w.assumed[m.key()] {
				w.fail("%s is detached from %s before %s has ended there", external, n.id, m.alloc)
			}
		}
	}
}

// mayDelete asserts that a volume is deleted whose data nobody uses.
func (w *World) mayDelete(external string) {
	if w.archives.spared[external] {
		w.fail("%s is deleted, which only the state that was restored intended", external)
	}
	for _, n := range w.nodes {
		for _, m := range n.live() {
			if m.external == external && (m.plugin != "attach" || w.has(external, n.id)) {
				w.fail("%s is deleted under the mount of %s on %s", external, m.key(), n.id)
			}
		}
	}
	for c := range w.newest().store.Read().Claims() {
		if realID(c.ExternalID) == external && !w.archives.doomed[external] {
			w.fail("%s is deleted under the claim of %s (%s)", external, c.AllocID, c.State)
		}
	}
}

// single reports whether a mode is for one node. It is written apart from the one of package api.
func single(m api.AccessMode) bool { return strings.HasPrefix(string(m), "single-node") }

// exclusive reports whether a second user elsewhere could do harm.
func exclusive(mode api.AccessMode, writes bool) bool {
	return single(mode) || mode == api.AccessMultiNodeSingleWriter && writes
}

// excused is what the storage cannot judge: it does not know which nodes were given up, and what supervising
// processes unmounted.
var excused = []string{"detach of volume", "delete of volume", "without being attached there", "published targets", "two writers"}

// judged fails the run for what the storage itself calls a violation.
func (w *World) judged() {
	for _, v := range w.storage.Violations()[w.excused:] {
		w.excused++
		if !slices.ContainsFunc(excused, func(part string) bool { return strings.Contains(v, part) }) {
			w.fail("storage: %s", v)
		}
	}
}

// told tells of a request; two that differ are told differently.
func told(req any) string {
	switch r := req.(type) {
	case *api.ControllerPublishRequest:
		return fmt.Sprintf(" %s to %s by %d", r.ExternalID, r.ProviderNodeID, r.Fence)
	case *api.ControllerUnpublishRequest:
		return fmt.Sprintf(" %s from %s by %d", r.ExternalID, r.ProviderNodeID, r.Fence)
	case *api.ControllerVerifyRequest:
		return fmt.Sprintf(" %s at %s", r.ExternalID, r.ProviderNodeID)
	case *api.ControllerDeleteRequest:
		return fmt.Sprintf(" %s by %d", r.ExternalID, r.Fence)
	case *api.ControllerExpandRequest:
		return fmt.Sprintf(" %s by %d", r.ExternalID, r.Fence)
	case *api.ControllerCreateRequest:
		return fmt.Sprintf(" %s by %d", r.Name, r.Fence)
	case *api.VolumeClaimRequest:
		return " " + r.AllocID + " " + r.VolumeID + r.Use
	case *api.VolumeUnpublishRequest:
		return " " + r.AllocID + " " + r.VolumeID + r.Use + r.Error
	case *api.NodeVolumeDetachRequest:
		return " " + r.AllocID + " " + r.VolumeID + r.Use
	case *api.NodeVolumeExpandRequest:
		return " " + r.VolumeID
	case *api.AllocUpdateRequest:
		return " " + r.Allocs[0].ID + " " + r.Allocs[0].ClientStatus
	case *api.NodeHeartbeatRequest:
		return " " + r.NodeID
	case *api.NodeRegisterRequest:
		return " " + r.Node.ID
	case *api.NodeAssignmentsRequest:
		return " " + r.NodeID
	case *api.VolumeRegisterRequest:
		return fmt.Sprintf(" %s of %d", r.Volumes[0].ID, r.Volumes[0].RequestedCapacityMin)
	case *api.VolumeCreateRequest:
		return " " + r.Volumes[0].ID
	case *api.VolumeDeleteRequest:
		return " " + r.VolumeID
	case *api.VolumeDeregisterRequest:
		return fmt.Sprintf(" %s force=%v", r.VolumeID, r.Force)
	case *api.VolumeIntentRequest:
		return fmt.Sprintf(" %s by %d", r.ExternalID, r.Fence)
	case *api.NodeWriteRequest:
		return " " + r.NodeID
	case *api.VolumeDetachRequest:
		return " " + r.VolumeID + r.ExternalID + " from " + r.NodeID
	}
	return ""
}
