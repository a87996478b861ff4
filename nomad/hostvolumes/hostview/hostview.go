// Package hostview derives from a host volume and its node what users see of the volume: its state, its directory and its
// capacity.
package hostview

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/open-nomad/open-nomad/api"
)

// State is what the package reads.
type State interface {
	Node(id string) *api.Node
	AllocsByNode(node string) iter.Seq[*api.Allocation]
}

// Of returns the volume with what its node reports about it.
func Of(tx State, v *api.HostVolume) *api.HostVolume {
	d := *v
	n := tx.Node(v.NodeID)
	info := onNode(n, v)
	if info != nil {
		d.HostPath, d.CapacityBytes = info.Path, info.CapacityBytes
	}
	switch {
	case v.Deleting || n == nil || n.Status != api.NodeStatusReady:
		d.State = api.HostVolumeUnavailable
	case info != nil:
		d.State = api.HostVolumeReady
	case v.HostPath != "" && v.ModifyIndex < n.ModifyIndex:
		d.State = api.HostVolumeUnavailable
	default:
		d.State = api.HostVolumePending
	}
	return &d
}

// onNode is the volume as the node reports it; nil when it does not. n may be nil.
func onNode(n *api.Node, v *api.HostVolume) *api.HostVolumeInfo {
	if n == nil {
		return nil
	}
	if info := n.HostVolumes[v.Name]; info != nil && info.ID == v.ID {
		return info
	}
	return nil
}

// Stub returns the list entry of a volume that [Of] returned.
func Stub(v *api.HostVolume) *api.HostVolumeStub {
	return &api.HostVolumeStub{
		Namespace: v.Namespace, ID: v.ID, Name: v.Name, PluginID: v.PluginID, NodePool: v.NodePool, NodeID: v.NodeID, CapacityBytes: v.CapacityBytes,
		State: v.State, CreateIndex: v.CreateIndex, CreateTime: v.CreateTime, ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime,
	}
}

// Users lists the allocations that have not ended on the volume's node and use the volume.
func Users(tx State, v *api.HostVolume) (users []*api.Allocation) {
	for a := range tx.AllocsByNode(v.NodeID) {
		if !a.ClientTerminal() && uses(a, v) {
			users = append(users, a)
		}
	}
	return users
}

func uses(a *api.Allocation, v *api.HostVolume) bool {
	g := a.Group()
	if g == nil || a.Namespace != v.Namespace {
		return false
	}
	for _, r := range g.Volumes {
		if r != nil && r.Type == api.VolumeTypeHost && r.SourceFor(a.Name) == v.Name {
			return true
		}
	}
	return false
}

// ClaimsState is what claims on sticky volumes are read from.
type ClaimsState interface {
	HostVolumeClaimsOfJob(ns, job string) iter.Seq[*api.HostVolumeClaim]
}

// Claim returns the claim on a sticky volume that an allocation has by its name, or nil.
func Claim(tx ClaimsState, a *api.Allocation, volume string) *api.HostVolumeClaim {
	for c := range tx.HostVolumeClaimsOfJob(a.Namespace, a.JobID) {
		if c.TaskGroupName == a.TaskGroup && c.VolumeName == volume && c.AllocName == a.Name {
			return c
		}
	}
	return nil
}

// Missing is why the node does not have the host volumes of the allocation, which has its job; empty when it has them.
func Missing(tx ClaimsState, n *api.Node, a *api.Allocation) string {
	g := a.Group()
	if g == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[name]
		if r == nil || r.Type != api.VolumeTypeHost {
			continue
		}
		if why := missing(tx, n, a, r); why != "" {
			return why
		}
	}
	return ""
}

func missing(tx ClaimsState, n *api.Node, a *api.Allocation, r *api.VolumeRequest) string {
	source := r.SourceFor(a.Name)
	info := n.HostVolumes[source]
	if !info.Offers(a.Namespace, r) {
		return fmt.Sprintf("host volume %s is not on the node as it is requested", source)
	}
	if !r.Sticky {
		return ""
	}
	if c := Claim(tx, a, source); c != nil && c.VolumeID != info.ID {
		return fmt.Sprintf("sticky host volume %s of %s is volume %s", source, a.Name, c.VolumeID)
	}
	return ""
}

// Claims returns the claims that a placed allocation takes or renews. Its node has its volumes, see [Missing].
func Claims(tx ClaimsState, n *api.Node, a *api.Allocation) (claims []*api.HostVolumeClaim) {
	g := a.Group()
	if g == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[name]
		if r == nil || r.Type != api.VolumeTypeHost || !r.Sticky {
			continue
		}
		source := r.SourceFor(a.Name)
		c := &api.HostVolumeClaim{}
		if old := Claim(tx, a, source); old != nil {
			*c = *old
		}
		c.Namespace, c.JobID, c.TaskGroupName, c.AllocName, c.VolumeName = a.Namespace, a.JobID, a.TaskGroup, a.Name, source
		c.AllocID, c.VolumeID = a.ID, n.HostVolumes[source].ID
		c.ID = cmp.Or(c.ID, claimID(c))
		claims = append(claims, c)
	}
	return claims
}

// claimID is the same on all servers.
func claimID(c *api.HostVolumeClaim) string {
	return uuid.NewSHA1(uuid.Nil, []byte(c.Namespace+"\x00"+c.JobID+"\x00"+c.TaskGroupName+"\x00"+c.VolumeName+"\x00"+c.AllocName)).String()
}
