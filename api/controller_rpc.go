package api

// ControllerCall names the plugin of a call and, for ordered calls, the fence of the intent.
type ControllerCall struct {
	PluginID string `msg:",omitempty"`
	// Fence is the raft index of the intent; 0 for calls that change nothing.
	Fence uint64 `msg:",omitempty"`
	// Provider is the name of the driver to call; a host with another driver rejects the call. Empty means any driver.
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
	Secrets        map[string]string `msg:",omitempty" secret:"true"`
	Context        map[string]string `msg:",omitempty"`
}

// ControllerPublishResponse contains the context that the node needs to stage the volume.
type ControllerPublishResponse struct {
	PublishContext map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerUnpublishRequest detaches a volume from a node.
type ControllerUnpublishRequest struct {
	ControllerCall
	ExternalID     string            `msg:",omitempty"`
	ProviderNodeID string            `msg:",omitempty"`
	Secrets        map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerValidateRequest checks whether a volume has the capabilities.
type ControllerValidateRequest struct {
	ControllerCall
	ExternalID   string              `msg:",omitempty"`
	Capabilities []*VolumeCapability `msg:",omitempty"`
	MountOptions *MountOptions       `msg:",omitempty"`
	Parameters   map[string]string   `msg:",omitempty"`
	Secrets      map[string]string   `msg:",omitempty" secret:"true"`
	Context      map[string]string   `msg:",omitempty"`
}

// ControllerValidateResponse reports whether the plugin confirmed the capabilities. If the plugin denies them the call
// returns an error.
type ControllerValidateResponse struct {
	Validated bool `msg:",omitempty"`
	// Message is the reason why the capabilities are not validated.
	Message string `msg:",omitempty"`
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
	Secrets          map[string]string   `msg:",omitempty" secret:"true"`
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
	// OtherSource is set when the plugin does not confirm the requested source of the volume.
	OtherSource bool `msg:",omitempty"`
}

// ControllerDeleteRequest deletes a volume.
type ControllerDeleteRequest struct {
	ControllerCall
	ExternalID string `msg:",omitempty"`
	// Name is the name in the volume's creation: a late call of the creation must not create the volume again.
	Name    string            `msg:",omitempty"`
	Secrets map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerExpandRequest grows a volume.
type ControllerExpandRequest struct {
	ControllerCall
	ExternalID       string            `msg:",omitempty"`
	CapacityMinBytes int64             `msg:",omitempty"`
	CapacityMaxBytes int64             `msg:",omitempty"`
	Capability       *VolumeCapability `msg:",omitempty"`
	MountOptions     *MountOptions     `msg:",omitempty"`
	Secrets          map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerExpandResponse contains the new size of the volume and whether its nodes must expand it too.
type ControllerExpandResponse struct {
	CapacityBytes         int64 `msg:",omitempty"`
	NodeExpansionRequired bool  `msg:",omitempty"`
}

// ControllerListRequest requests one page of the provider's volumes.
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

// ControllerSnapshotRequest creates a snapshot; Name is the idempotency key.
type ControllerSnapshotRequest struct {
	ControllerCall
	ExternalID string            `msg:",omitempty"`
	Name       string            `msg:",omitempty"`
	Parameters map[string]string `msg:",omitempty"`
	Secrets    map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerSnapshotResponse describes the snapshot.
type ControllerSnapshotResponse struct {
	Snapshot *Snapshot `msg:",omitempty"`
}

// ControllerSnapshotDeleteRequest deletes a snapshot.
type ControllerSnapshotDeleteRequest struct {
	ControllerCall
	ID      string            `msg:",omitempty"`
	Secrets map[string]string `msg:",omitempty" secret:"true"`
}

// ControllerSnapshotListRequest requests one page of the provider's snapshots.
type ControllerSnapshotListRequest struct {
	ControllerCall
	MaxEntries int32             `msg:",omitempty"`
	Token      string            `msg:",omitempty"`
	Secrets    map[string]string `msg:",omitempty" secret:"true"`
	// ID and SourceID limit the list to one snapshot, or to those of one volume.
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
	Secrets map[string]string `json:"-" msg:",omitempty" secret:"true"`
}

// NodeVolumeDetachRequest requests that a node unmounts a volume of one allocation, even if it no longer runs there.
type NodeVolumeDetachRequest struct {
	Namespace  string `msg:",omitempty"`
	VolumeID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	PluginID   string `msg:",omitempty"`
	AllocID    string `msg:",omitempty"`
	// Use is the use of the claim, see [VolumeClaim].
	Use string `msg:",omitempty"`
	// Force lets the node unmount without the driver when the driver fails.
	Force bool `msg:",omitempty"`
}

// ControllerVerifyRequest queries the provider's state of a volume or snapshot with the RPCs that the plugin
// supports: ControllerGetVolume, ListVolumes, ValidateVolumeCapabilities, ListSnapshots.
type ControllerVerifyRequest struct {
	ControllerCall
	// ExternalID is the driver's id; empty if unknown.
	ExternalID string `msg:",omitempty"`
	// Snapshot is set when ExternalID is the id of a snapshot.
	Snapshot bool `msg:",omitempty"`
	// SourceID limits snapshots to those of one volume.
	SourceID string `msg:",omitempty"`
	// ProviderNodeID is the provider's id of the node whose attachment is queried; empty for none.
	ProviderNodeID string              `msg:",omitempty"`
	Capabilities   []*VolumeCapability `msg:",omitempty"`
	MountOptions   *MountOptions       `msg:",omitempty"`
	Secrets        map[string]string   `msg:",omitempty" secret:"true"`
	Context        map[string]string   `msg:",omitempty"`
}

// Results of a [ControllerVerifyRequest].
const (
	// KnownYes means that the provider confirms the state.
	KnownYes = "yes"
	// KnownNo means that the provider denies the state.
	KnownNo = "no"
	// KnownNothing means that the plugin has no RPC that reports the state.
	KnownNothing = ""
)

// ControllerVerifyResponse is the provider's state. Exists and Attached are [KnownYes], [KnownNo] or [KnownNothing].
type ControllerVerifyResponse struct {
	Exists string `msg:",omitempty"`
	// Attached reports whether the volume is attached to the node ProviderNodeID.
	Attached string `msg:",omitempty"`
	// By names the RPCs that reported the state.
	By string `msg:",omitempty"`
	// CapacityBytes is the size of the volume; 0 when no RPC reports it.
	CapacityBytes int64 `json:",omitempty" msg:",omitempty"`
}
