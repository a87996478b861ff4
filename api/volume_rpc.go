package api

import "time"

// VolumeRegisterRequest registers existing volumes, or updates the specs of registered ones.
type VolumeRegisterRequest struct {
	Volumes []*VolumeSpec `msg:",omitempty"`
	// Timestamp is set by the server.
	Timestamp int64 `json:"-" msg:",omitempty"`
	WriteRequest
}

// VolumeCreateRequest creates volumes at their provider and registers them.
type VolumeCreateRequest struct {
	Volumes []*VolumeSpec `msg:",omitempty"`
	WriteRequest
}

// VolumeWriteResponse lists volumes after a register or create.
type VolumeWriteResponse struct {
	Volumes  []*VolumeDetail `msg:",omitempty"`
	Warnings string          `msg:",omitempty"`
	// Known lists the ids of volumes in a create request that were registered already: only their specs were updated.
	Known []string `json:",omitempty" msg:",omitempty"`
	WriteMeta
}

// VolumeDeregisterRequest removes the record of a volume without calling the provider.
type VolumeDeregisterRequest struct {
	VolumeID string `msg:",omitempty"`
	Force    bool   `msg:",omitempty"`
	WriteRequest
}

// VolumeDeleteRequest deletes a volume at its provider and removes its record.
type VolumeDeleteRequest struct {
	VolumeID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty" secret:"true"`
	WriteRequest
}

// VolumeDetachRequest releases all claims of a volume on a node, including those of allocations that no longer exist.
// With Force the operator asserts that the node no longer uses the volume.
type VolumeDetachRequest struct {
	VolumeID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	Force    bool   `msg:",omitempty"`
	// PluginID and ExternalID name an attachment whose volume is no longer registered; VolumeID is empty then.
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	// By and Reason are recorded with a forced detach: the operator and the operator's reason.
	By     string `msg:",omitempty"`
	Reason string `msg:",omitempty"`
	WriteRequest
}

// VolumeDetachResponse contains warnings about parts of the volume that a node may still use.
type VolumeDetachResponse struct {
	Warnings string `msg:",omitempty"`
	WriteMeta
}

// VolumeListRequest lists volumes, optionally of one plugin or on one node.
type VolumeListRequest struct {
	PluginID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	QueryOptions
}

// VolumeListResponse lists volumes.
type VolumeListResponse struct {
	Volumes []*VolumeStub `msg:",omitempty"`
	QueryMeta
}

// VolumeGetRequest names one volume.
type VolumeGetRequest struct {
	ID string `msg:",omitempty"`
	QueryOptions
}

// VolumeGetResponse holds one volume; Volume is nil when it does not exist.
type VolumeGetResponse struct {
	Volume *VolumeDetail `msg:",omitempty"`
	QueryMeta
}

// VolumeClaimRequest is a node's wait for its allocation's claim to become ready.
// The claim itself was taken when the allocation was placed.
type VolumeClaimRequest struct {
	VolumeID string `msg:",omitempty"`
	AllocID  string `msg:",omitempty"`
	// Use is the use of the claim, see [VolumeClaim].
	Use    string `msg:",omitempty"`
	NodeID string `msg:",omitempty"`
	// NodeSecret authenticates the node.
	NodeSecret string `json:"-" msg:",omitempty" secret:"true"`
	// Tell requests a response also while the claim waits, as soon as the reason differs from Known.
	Tell bool `msg:",omitempty"`
	// Known is the last reason that the node received.
	Known string `msg:",omitempty"`
	WriteRequest
}

// VolumeClaimResponse contains all that the node needs to stage and publish the volume, including secrets. With Waiting
// set it contains only the reason why the claim is not ready.
type VolumeClaimResponse struct {
	Volume         *Volume           `msg:",omitempty"`
	Claim          *VolumeClaim      `msg:",omitempty"`
	PublishContext map[string]string `msg:",omitempty" secret:"true"`
	// NodeExpand asks the node to call NodeExpandVolume after publishing.
	NodeExpand bool `msg:",omitempty"`
	// Waiting is the reason why the claim is not ready; empty when it is ready.
	Waiting string `msg:",omitempty"`
	WriteMeta
}

// VolumeUnpublishRequest is a node's report that the volume is no longer mounted for the allocation.
type VolumeUnpublishRequest struct {
	VolumeID string `msg:",omitempty"`
	AllocID  string `msg:",omitempty"`
	// Use is the use of the claim, see [VolumeClaim].
	Use        string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	NodeSecret string `json:"-" msg:",omitempty" secret:"true"`
	// Error is set while unmounting fails; the claim is kept and records it.
	Error string `msg:",omitempty"`
	// NextRetry is the time of the node's next attempt in Unix nanoseconds.
	NextRetry int64 `msg:",omitempty"`
	// Mounting is set when the report is about a mount: it waits because of Error, or continues if Error is empty.
	Mounting bool `msg:",omitempty"`
	// NoRoom is set with Mounting when the node has reached the driver's limit of volumes.
	NoRoom bool `msg:",omitempty"`
	// WriteBack is the time that writing back and unmounting took.
	WriteBack time.Duration `msg:",omitempty"`
	WriteRequest
}

// VolumeIntentRequest is sent by a controller's host immediately before it calls the driver. It confirms that the
// intent of the call is still the newest one of its object.
type VolumeIntentRequest struct {
	NodeID     string `msg:",omitempty"`
	NodeSecret string `json:"-" msg:",omitempty" secret:"true"`
	PluginID   string `msg:",omitempty"`
	// ExternalID is empty for a volume that is being created.
	ExternalID string `msg:",omitempty"`
	// Fence is the raft index of the intent, as in [ControllerCall].
	Fence uint64 `msg:",omitempty"`
	// Call is what the driver is asked for.
	Call IntentCall `msg:",omitempty"`
	// Part is the provider's id of the node to attach or detach, the name of the volume or snapshot to create, or the
	// id of the snapshot to delete; empty for calls about the whole volume.
	Part string `msg:",omitempty"`
	WriteRequest
}

// IntentCall is a call of a driver that has an intent.
type IntentCall string

// Calls that have intents.
const (
	CallAttach         IntentCall = "attach"
	CallDetach         IntentCall = "detach"
	CallCreate         IntentCall = "create"
	CallDelete         IntentCall = "delete"
	CallExpand         IntentCall = "expand"
	CallSnapshot       IntentCall = "snapshot"
	CallSnapshotDelete IntentCall = "delete snapshot"
)

// ConfirmTerm is the time in which a host must begin the call of a confirmed intent, from when it sent the request.
const ConfirmTerm = time.Second

// VolumeAttachmentListRequest lists attachments and mounts that are not confirmed to be removed, optionally of
// one node, plugin or volume.
type VolumeAttachmentListRequest struct {
	NodeID   string `msg:",omitempty"`
	PluginID string `msg:",omitempty"`
	VolumeID string `msg:",omitempty"`
	QueryOptions
}

// AttachmentStub is the list entry of an attachment, or of a stale mount, see [StaleMount].
type AttachmentStub struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	NodeName   string `msg:",omitempty"`
	// VolumeID and Namespace name one spec of the volume; empty when none is registered.
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	// AllocID is the allocation of a stale mount.
	AllocID string `json:",omitempty" msg:",omitempty"`
	// State is the state of the attachment, or "stale mount".
	State string `msg:",omitempty"`
	// Since is the Unix time in nanoseconds of the last change of State.
	Since     int64  `msg:",omitempty"`
	LastError string `msg:",omitempty"`
	NextRetry int64  `msg:",omitempty"`
	Attempts  int    `msg:",omitempty"`
	// Claims counts the claims that keep the node attached.
	Claims int `msg:",omitempty"`
	// Remedy is the command that ends it.
	Remedy string `msg:",omitempty"`
}

// VolumeAttachmentListResponse lists attachments and stale mounts.
type VolumeAttachmentListResponse struct {
	Attachments []*AttachmentStub `msg:",omitempty"`
	QueryMeta
}

// VolumeExternalListRequest lists a provider's volumes.
type VolumeExternalListRequest struct {
	PluginID string `msg:",omitempty"`
	QueryOptions
}

// VolumeListExternalResponse is one page of a provider's volumes; NextToken is the provider's token of the next page.
type VolumeListExternalResponse struct {
	Volumes   []*VolumeExternal `msg:",omitempty"`
	NextToken string            `msg:",omitempty"`
}

// SnapshotCreateRequest creates snapshots.
type SnapshotCreateRequest struct {
	Snapshots []*Snapshot `msg:",omitempty"`
	WriteRequest
}

// SnapshotDeleteRequest deletes one snapshot. ID is the driver's id, or the name of a snapshot that is being created
// until its id is known. With Force the pending request for the snapshot is removed without calling the driver.
type SnapshotDeleteRequest struct {
	ID       string            `msg:",omitempty"`
	PluginID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty" secret:"true"`
	Force    bool              `msg:",omitempty"`
	WriteRequest
}

// SnapshotDeleteResponse contains warnings about parts of a snapshot that may remain at the provider.
type SnapshotDeleteResponse struct {
	Warnings string `msg:",omitempty"`
	WriteMeta
}

// SnapshotListRequest lists a provider's snapshots.
type SnapshotListRequest struct {
	PluginID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty" secret:"true"`
	QueryOptions
}

// SnapshotListResponse is one page of a provider's snapshots.
type SnapshotListResponse struct {
	Snapshots []*Snapshot `msg:",omitempty"`
	NextToken string      `msg:",omitempty"`
	// UnderWay are the pending creations and deletions of snapshots; on the first page only.
	UnderWay []*SnapshotUnderWay `json:",omitempty" msg:",omitempty"`
	WriteMeta
}

// PluginListRequest lists CSI plugins.
type PluginListRequest struct {
	QueryOptions
}

// PluginListResponse lists CSI plugins.
type PluginListResponse struct {
	Plugins []*PluginStub `msg:",omitempty"`
	QueryMeta
}

// PluginGetRequest names one CSI plugin.
type PluginGetRequest struct {
	ID string `msg:",omitempty"`
	QueryOptions
}

// PluginGetResponse holds one CSI plugin; Plugin is nil when it does not exist.
type PluginGetResponse struct {
	Plugin *Plugin `msg:",omitempty"`
	QueryMeta
}
