package api

import "slices"

// HostVolumeState is the state of a dynamic host volume. It follows from the node and is not stored.
type HostVolumeState string

// States of dynamic host volumes.
const (
	// HostVolumePending is a volume that its node has not reported yet.
	HostVolumePending HostVolumeState = "pending"
	// HostVolumeReady is a volume that its node, which is ready, offers to jobs.
	HostVolumeReady HostVolumeState = "ready"
	// HostVolumeUnavailable is a volume whose node is down, was removed or no longer offers it, or that is being deleted.
	HostVolumeUnavailable HostVolumeState = "unavailable"
)

// HostVolume is a directory on one node that was created or registered while the node runs.
type HostVolume struct {
	Namespace string `hcl:"namespace" msg:",omitempty"`
	// ID is a UUID that the servers choose.
	ID string `hcl:"id" msg:",omitempty"`
	// Name is the source by which jobs request the volume; a node has one volume of a name.
	Name     string `hcl:"name" msg:",omitempty"`
	PluginID string `hcl:"plugin_id" msg:",omitempty"`
	NodePool string `hcl:"node_pool" msg:",omitempty"`
	NodeID   string `hcl:"node_id" msg:",omitempty"`
	// Constraints are those on the node; they count when the node is chosen.
	Constraints []*Constraint `json:",omitempty" hcl:"constraint" msg:",omitempty"`
	// RequestedCapacityMinBytes and RequestedCapacityMaxBytes are 0 without a limit.
	RequestedCapacityMinBytes int64 `hcl:"capacity_min" msg:",omitempty"`
	RequestedCapacityMaxBytes int64 `hcl:"capacity_max" msg:",omitempty"`
	// CapacityBytes is what the plugin reported; 0 means that nothing limits the size.
	CapacityBytes         int64                   `msg:",omitempty"`
	RequestedCapabilities []*HostVolumeCapability `hcl:"capability" msg:",omitempty"`
	Parameters            map[string]string       `json:",omitempty" hcl:"parameters" msg:",omitempty"`
	// HostPath is the directory on the node.
	HostPath    string          `hcl:"host_path" msg:",omitempty"`
	State       HostVolumeState `msg:",omitempty"`
	CreateIndex uint64          `msg:",omitempty"`
	// CreateTime and ModifyTime are Unix nanoseconds.
	CreateTime  int64  `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
	ModifyTime  int64  `msg:",omitempty"`
	// Allocations are those that use the volume; only reads of one volume list them.
	Allocations []*AllocStub `json:",omitempty" msg:",omitempty"`
	// Registered is set when the directory was there before the volume: it stays when the volume is deleted.
	Registered bool `json:"-" msg:",omitempty"`
	// Deleting is set from the begin of the deletion: nothing is placed with the volume any more.
	Deleting bool `json:"-" msg:",omitempty"`
}

// HostVolumeCapability is a way in which jobs may use a host volume.
type HostVolumeCapability struct {
	AttachmentMode AttachmentMode `hcl:"attachment_mode" msg:",omitempty"`
	AccessMode     AccessMode     `hcl:"access_mode" msg:",omitempty"`
}

// HostVolumeStub is the list entry of a [HostVolume].
type HostVolumeStub struct {
	Namespace     string          `msg:",omitempty"`
	ID            string          `msg:",omitempty"`
	Name          string          `msg:",omitempty"`
	PluginID      string          `msg:",omitempty"`
	NodePool      string          `msg:",omitempty"`
	NodeID        string          `msg:",omitempty"`
	CapacityBytes int64           `msg:",omitempty"`
	State         HostVolumeState `msg:",omitempty"`
	CreateIndex   uint64          `msg:",omitempty"`
	CreateTime    int64           `msg:",omitempty"`
	ModifyIndex   uint64          `msg:",omitempty"`
	ModifyTime    int64           `msg:",omitempty"`
}

// HostVolumeClaim keeps an allocation of a group, and those that replace it, on one sticky host volume.
type HostVolumeClaim struct {
	ID            string `msg:",omitempty"`
	Namespace     string `msg:",omitempty"`
	JobID         string `msg:",omitempty"`
	TaskGroupName string `msg:",omitempty"`
	// AllocID is the newest allocation with the claim.
	AllocID    string `msg:",omitempty"`
	VolumeID   string `msg:",omitempty"`
	VolumeName string `msg:",omitempty"`
	// AllocName is the name that the allocation shares with those that replace it.
	AllocName   string `json:"-" msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// Offers reports whether jobs of the namespace can use the volume of the node as requested. Volumes of the node's
// configuration, which have no id, belong to all namespaces and are not sticky.
func (h *HostVolumeInfo) Offers(namespace string, r *VolumeRequest) bool {
	if h == nil || h.ReadOnly && !r.ReadOnly {
		return false
	}
	if h.ID == "" {
		return !r.Sticky
	}
	return h.Namespace == namespace && slices.ContainsFunc(h.Capabilities, func(c *HostVolumeCapability) bool { return c.allows(r) })
}

// allows reports whether the capability is the requested one. A request without an access mode writes as one of many.
func (c *HostVolumeCapability) allows(r *VolumeRequest) bool {
	mode, attachment := AccessMode(r.AccessMode), AttachmentMode(r.AttachmentMode)
	return (attachment == "" || attachment == c.AttachmentMode) &&
		(mode == c.AccessMode || mode == "" && (r.ReadOnly || c.AccessMode == AccessSingleNodeWriter || c.AccessMode == AccessSingleNodeMulti))
}

// HostVolumeListRequest lists host volumes.
type HostVolumeListRequest struct {
	// NodeID and NodePool limit the list when they are not empty.
	NodeID   string `msg:",omitempty"`
	NodePool string `msg:",omitempty"`
	QueryOptions
}

// HostVolumeListResponse lists host volumes.
type HostVolumeListResponse struct {
	Volumes []*HostVolumeStub `msg:",omitempty"`
	QueryMeta
}

// HostVolumeGetRequest names one host volume.
type HostVolumeGetRequest struct {
	ID string `msg:",omitempty"`
	QueryOptions
}

// HostVolumeGetResponse holds one host volume; nil when it does not exist.
type HostVolumeGetResponse struct {
	Volume *HostVolume `msg:",omitempty"`
	QueryMeta
}

// HostVolumeWriteRequest creates or registers a host volume.
type HostVolumeWriteRequest struct {
	Volume *HostVolume `msg:",omitempty"`
	WriteRequest
}

// HostVolumeWriteResponse holds the volume that was written.
type HostVolumeWriteResponse struct {
	Volume   *HostVolume `msg:",omitempty"`
	Warnings string      `msg:",omitempty"`
	WriteMeta
}

// HostVolumeDeleteRequest deletes a host volume. With Force it is forgotten also when its node does not respond.
type HostVolumeDeleteRequest struct {
	ID    string `msg:",omitempty"`
	Force bool   `msg:",omitempty"`
	WriteRequest
}

// HostVolumeClaimListRequest lists the claims on sticky host volumes.
type HostVolumeClaimListRequest struct {
	// JobID, TaskGroup and VolumeName limit the list when they are not empty.
	JobID      string `msg:",omitempty"`
	TaskGroup  string `msg:",omitempty"`
	VolumeName string `msg:",omitempty"`
	QueryOptions
}

// HostVolumeClaimListResponse lists the claims on sticky host volumes.
type HostVolumeClaimListResponse struct {
	Claims []*HostVolumeClaim `msg:",omitempty"`
	QueryMeta
}

// HostVolumeClaimDeleteRequest deletes a claim on a sticky host volume.
type HostVolumeClaimDeleteRequest struct {
	ID string `msg:",omitempty"`
	WriteRequest
}

// NodeHostVolumeRequest makes a node create, register or delete a host volume. Each call may be repeated.
type NodeHostVolumeRequest struct {
	Volume *HostVolume `msg:",omitempty"`
}

// NodeHostVolumeResponse is the volume as the node has it.
type NodeHostVolumeResponse struct {
	HostPath string `msg:",omitempty"`
	// CapacityBytes is 0 when nothing limits the size.
	CapacityBytes int64 `msg:",omitempty"`
}
