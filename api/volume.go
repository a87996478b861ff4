package api

import "time"

// VolumeCapability is one way in which a volume may be used.
type VolumeCapability struct {
	AccessMode     AccessMode     `hcl:"access_mode" msg:",omitempty"`
	AttachmentMode AttachmentMode `hcl:"attachment_mode" msg:",omitempty"`
}

// MountOptions are the file system and flags of a mount. Flags may be secret and are never shown.
type MountOptions struct {
	FSType     string   `hcl:"fs_type,optional" msg:",omitempty"`
	MountFlags []string `hcl:"mount_flags,optional" msg:",omitempty" secret:"hidden"`
}

// Topology is a set of segments, for example {"zone": "a"}.
type Topology struct {
	Segments map[string]string `hcl:"segments" msg:",omitempty"`
}

// TopologyRequest is where a volume must and should be reachable from.
type TopologyRequest struct {
	Required  []*Topology `hcl:"required" msg:",omitempty"`
	Preferred []*Topology `hcl:"preferred" msg:",omitempty"`
}

// VolumeStub is the row of a volume in lists.
type VolumeStub struct {
	ID                  string         `msg:",omitempty"`
	Namespace           string         `msg:",omitempty"`
	Name                string         `msg:",omitempty"`
	ExternalID          string         `msg:",omitempty"`
	Topologies          []*Topology    `msg:",omitempty"`
	AccessMode          AccessMode     `msg:",omitempty"`
	AttachmentMode      AttachmentMode `msg:",omitempty"`
	CurrentReaders      int            `msg:",omitempty"`
	CurrentWriters      int            `msg:",omitempty"`
	Schedulable         bool           `msg:",omitempty"`
	PluginID            string         `msg:",omitempty"`
	Provider            string         `msg:",omitempty"`
	ControllerRequired  bool           `msg:",omitempty"`
	ControllersHealthy  int            `msg:",omitempty"`
	ControllersExpected int            `msg:",omitempty"`
	NodesHealthy        int            `msg:",omitempty"`
	NodesExpected       int            `msg:",omitempty"`
	ResourceExhausted   time.Time      `msg:",omitempty"`
	CreateIndex         uint64         `msg:",omitempty"`
	ModifyIndex         uint64         `msg:",omitempty"`
	CreateTime          int64          `msg:",omitempty"`
	ModifyTime          int64          `msg:",omitempty"`
}

// VolumeExternal is a volume as its provider lists it.
type VolumeExternal struct {
	ExternalID               string            `msg:",omitempty"`
	CapacityBytes            int64             `msg:",omitempty"`
	VolumeContext            map[string]string `msg:",omitempty"`
	CloneID                  string            `msg:",omitempty"`
	SnapshotID               string            `msg:",omitempty"`
	PublishedExternalNodeIDs []string          `msg:",omitempty"`
	IsAbnormal               bool              `msg:",omitempty"`
	Status                   string            `msg:",omitempty"`
}

// Snapshot is a snapshot at a storage provider; CreateTime in Unix seconds.
type Snapshot struct {
	ID                     string            `msg:",omitempty"`
	ExternalSourceVolumeID string            `msg:",omitempty"`
	SizeBytes              int64             `msg:",omitempty"`
	CreateTime             int64             `msg:",omitempty"`
	IsReady                bool              `msg:",omitempty"`
	SourceVolumeID         string            `msg:",omitempty"`
	PluginID               string            `msg:",omitempty"`
	Name                   string            `msg:",omitempty"`
	Secrets                map[string]string `msg:",omitempty" secret:"true"`
	Parameters             map[string]string `msg:",omitempty"`
	// GroupID is that of the group snapshot that it is part of: it is deleted with the group only.
	GroupID string `json:",omitempty" msg:",omitempty"`
}
