package api

// ControllerCall names the plugin and, for ordered calls, the fence of the intent behind the call.
type ControllerCall struct {
	PluginID string `msg:",omitempty"`
	// Fence is the raft index of the intent; 0 for calls that change nothing.
	Fence uint64 `msg:",omitempty"`
	// Provider is the name of the driver that is meant; a host whose plugin is another one refuses the call. Empty is any.
	Provider string `msg:",omitempty"`
}

// ControllerPublishRequest attaches a volume to a node.
type ControllerPublishRequest struct {
	ControllerCall
	ExternalID     string            `msg:",omitempty"`
	ProviderNodeID string            `msg:",omitempty"`
	AccessMode     AccessMode        `msg:",omitempty"`
	AttachmentMode AttachmentMode    `msg:",omitempty"`
	MountOptions   *MountOptions     `msg:",omitempty"`
	ReadOnly       bool              `msg:",omitempty"`
	Secrets        map[string]string `msg:",omitempty"`
	Context        map[string]string `msg:",omitempty"`
}

// ControllerPublishResponse carries what the node needs to stage the volume.
type ControllerPublishResponse struct {
	PublishContext map[string]string `msg:",omitempty"`
	// Provider is the name of the driver that replied.
	Provider string `msg:",omitempty"`
}

// ControllerUnpublishRequest detaches a volume from a node.
type ControllerUnpublishRequest struct {
	ControllerCall
	ExternalID     string            `msg:",omitempty"`
	ProviderNodeID string            `msg:",omitempty"`
	Secrets        map[string]string `msg:",omitempty"`
}

// ControllerValidateRequest asks whether a volume has the capabilities.
type ControllerValidateRequest struct {
	ControllerCall
	ExternalID   string              `msg:",omitempty"`
	Capabilities []*VolumeCapability `msg:",omitempty"`
	MountOptions *MountOptions       `msg:",omitempty"`
	Parameters   map[string]string   `msg:",omitempty"`
	Secrets      map[string]string   `msg:",omitempty"`
	Context      map[string]string   `msg:",omitempty"`
}

// ControllerValidateResponse says whether the plugin confirmed what was asked. A plugin that denies it answers
// with an error.
type ControllerValidateResponse struct {
	Validated bool `msg:",omitempty"`
	// Message is why it is not validated.
	Message string `msg:",omitempty"`
	// Provider is the name of the driver that replied.
	Provider string `msg:",omitempty"`
}

// ControllerCreateRequest creates a volume; Name is the idempotency key.
type ControllerCreateRequest struct {
	ControllerCall
	Name             string              `msg:",omitempty"`
	CapacityMinBytes int64               `msg:",omitempty"`
	CapacityMaxBytes int64               `msg:",omitempty"`
	Capabilities     []*VolumeCapability `msg:",omitempty"`
	MountOptions     *MountOptions       `msg:",omitempty"`
	Parameters       map[string]string   `msg:",omitempty"`
	Secrets          map[string]string   `msg:",omitempty"`
	CloneID          string              `msg:",omitempty"`
	SnapshotID       string              `msg:",omitempty"`
	Topologies       *TopologyRequest    `msg:",omitempty"`
}

// ControllerCreateResponse describes the created volume.
type ControllerCreateResponse struct {
	ExternalID    string            `msg:",omitempty"`
	CapacityBytes int64             `msg:",omitempty"`
	Context       map[string]string `msg:",omitempty"`
	Topologies    []*Topology       `msg:",omitempty"`
	// OtherSource is set when the plugin does not say that the volume is made from what was asked for.
	OtherSource bool `msg:",omitempty"`
	// Provider is the name of the driver that replied.
	Provider string `msg:",omitempty"`
}

// ControllerDeleteRequest deletes a volume.
type ControllerDeleteRequest struct {
	ControllerCall
	ExternalID string `msg:",omitempty"`
	// Name is that of the volume's creation: a late call of it must not make the volume again.
	Name    string            `msg:",omitempty"`
	Secrets map[string]string `msg:",omitempty"`
}

// ControllerExpandRequest grows a volume.
type ControllerExpandRequest struct {
	ControllerCall
	ExternalID       string            `msg:",omitempty"`
	CapacityMinBytes int64             `msg:",omitempty"`
	CapacityMaxBytes int64             `msg:",omitempty"`
	Capability       *VolumeCapability `msg:",omitempty"`
	MountOptions     *MountOptions     `msg:",omitempty"`
	Secrets          map[string]string `msg:",omitempty"`
}

// ControllerExpandResponse contains the new size of the volume and whether its nodes must expand it too.
type ControllerExpandResponse struct {
	CapacityBytes         int64 `msg:",omitempty"`
	NodeExpansionRequired bool  `msg:",omitempty"`
}

// ControllerListRequest asks for one page of the provider's volumes.
type ControllerListRequest struct {
	ControllerCall
	MaxEntries int32  `msg:",omitempty"`
	Token      string `msg:",omitempty"`
}

// ControllerListResponse is one page of the provider's volumes.
type ControllerListResponse struct {
	Volumes   []*VolumeExternal `msg:",omitempty"`
	NextToken string            `msg:",omitempty"`
}

// ControllerSnapshotRequest makes a snapshot; Name is the idempotency key.
type ControllerSnapshotRequest struct {
	ControllerCall
	ExternalID string            `msg:",omitempty"`
	Name       string            `msg:",omitempty"`
	Parameters map[string]string `msg:",omitempty"`
	Secrets    map[string]string `msg:",omitempty"`
}

// ControllerSnapshotResponse describes the snapshot.
type ControllerSnapshotResponse struct {
	Snapshot *Snapshot `msg:",omitempty"`
}

// ControllerSnapshotDeleteRequest deletes a snapshot.
type ControllerSnapshotDeleteRequest struct {
	ControllerCall
	ID      string            `msg:",omitempty"`
	Secrets map[string]string `msg:",omitempty"`
}

// ControllerSnapshotListRequest asks for one page of the provider's snapshots.
type ControllerSnapshotListRequest struct {
	ControllerCall
	MaxEntries int32             `msg:",omitempty"`
	Token      string            `msg:",omitempty"`
	Secrets    map[string]string `msg:",omitempty"`
	// ID and SourceID narrow the list to one snapshot, or to those of one volume.
	ID       string `msg:",omitempty"`
	SourceID string `msg:",omitempty"`
}

// ControllerSnapshotListResponse is one page of the provider's snapshots.
type ControllerSnapshotListResponse struct {
	Snapshots []*Snapshot `msg:",omitempty"`
	NextToken string      `msg:",omitempty"`
}

// NodeVolumeExpandRequest grows the file system of a staged volume on its node.
type NodeVolumeExpandRequest struct {
	Namespace     string `msg:",omitempty"`
	VolumeID      string `msg:",omitempty"`
	ExternalID    string `msg:",omitempty"`
	PluginID      string `msg:",omitempty"`
	CapacityBytes int64  `msg:",omitempty"`
	// Secrets are those of the volume, for drivers that need them to expand.
	Secrets map[string]string `json:"-" msg:",omitempty"`
}

// NodeVolumeDetachRequest asks a node to unmount a volume of one allocation, even of one that it no longer runs.
type NodeVolumeDetachRequest struct {
	Namespace  string `msg:",omitempty"`
	VolumeID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	PluginID   string `msg:",omitempty"`
	AllocID    string `msg:",omitempty"`
	// Use is that of the claim.
	Use string `msg:",omitempty"`
	// Force lets the node unmount by itself when the driver cannot or will not.
	Force bool `msg:",omitempty"`
}

// ControllerVerifyRequest asks what the provider knows of a volume or snapshot, by whatever calls the plugin
// offers: ControllerGetVolume, ListVolumes, ValidateVolumeCapabilities, ListSnapshots.
type ControllerVerifyRequest struct {
	ControllerCall
	// ExternalID is the driver's id; empty when it is not known.
	ExternalID string `msg:",omitempty"`
	// Snapshot is set when ExternalID is the id of a snapshot.
	Snapshot bool `msg:",omitempty"`
	// SourceID narrows snapshots to those of one volume.
	SourceID string `msg:",omitempty"`
	// ProviderNodeID is the node whose attachment is in question; empty when none is.
	ProviderNodeID string              `msg:",omitempty"`
	Capabilities   []*VolumeCapability `msg:",omitempty"`
	MountOptions   *MountOptions       `msg:",omitempty"`
	Secrets        map[string]string   `msg:",omitempty"`
	Context        map[string]string   `msg:",omitempty"`
}

// What a provider knows.
const (
	// KnownYes means that the provider confirms it.
	KnownYes = "yes"
	// KnownNo means that the provider denies it.
	KnownNo = "no"
	// KnownNothing means that the plugin has no RPC that can report it.
	KnownNothing = ""
)

// ControllerVerifyResponse is what a provider knows: see the constants KnownYes, KnownNo and KnownNothing.
type ControllerVerifyResponse struct {
	Exists string `msg:",omitempty"`
	// Attached reports whether the volume is attached to the node in question.
	Attached string `msg:",omitempty"`
	// By names the RPCs that reported it.
	By string `msg:",omitempty"`
	// CapacityBytes is the size of the volume; 0 when no RPC reports it.
	CapacityBytes int64 `json:",omitempty" msg:",omitempty"`
}
