package api

import "time"

// VolumeRegisterRequest registers existing volumes, or updates the specs of known ones.
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
	// Known are the ids of volumes that were to be created and known already: only their specs were updated.
	Known []string `json:",omitempty" msg:",omitempty"`
	WriteMeta
}

// VolumeDeregisterRequest forgets a volume without touching the provider.
type VolumeDeregisterRequest struct {
	VolumeID string `msg:",omitempty"`
	Force    bool   `msg:",omitempty"`
	WriteRequest
}

// VolumeDeleteRequest deletes a volume at its provider and forgets it.
type VolumeDeleteRequest struct {
	VolumeID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty"`
	WriteRequest
}

// VolumeDetachRequest releases all claims of a volume on a node, also of allocations that no longer exist.
// With Force the operator asserts that the node no longer uses the volume.
type VolumeDetachRequest struct {
	VolumeID string `msg:",omitempty"`
	NodeID   string `msg:",omitempty"`
	Force    bool   `msg:",omitempty"`
	// PluginID and ExternalID name an attachment whose volume is not registered any more; VolumeID is empty then.
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	// By and Reason are recorded with a detach that is forced: who asserts it and why.
	By     string `msg:",omitempty"`
	Reason string `msg:",omitempty"`
	WriteRequest
}

// VolumeDetachResponse says what a node may still have of the volume.
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
	// Use is that of the claim.
	Use    string `msg:",omitempty"`
	NodeID string `msg:",omitempty"`
	// NodeSecret proves that the caller is the node.
	NodeSecret string `json:"-" msg:",omitempty"`
	// Tell asks for an answer while the claim waits too, as soon as the reason is another one than Known.
	Tell bool `msg:",omitempty"`
	// Known is the reason that the node was told last.
	Known string `msg:",omitempty"`
	WriteRequest
}

// VolumeClaimResponse has what the node needs to stage and publish, secrets included. With Waiting set
// it has nothing but the reason why the claim is not ready.
type VolumeClaimResponse struct {
	Volume         *Volume           `msg:",omitempty"`
	Claim          *VolumeClaim      `msg:",omitempty"`
	PublishContext map[string]string `msg:",omitempty"`
	// Driver is the name of the driver that the volume is of; empty where it is not known.
	Driver string `json:",omitempty" msg:",omitempty"`
	// OtherDrivers are the names of other drivers that the plugin has controllers of. An instance of one of them may have
	// another volume by the same id, and is not asked for this one. A driver may name its node plugin as it names no controller.
	OtherDrivers []string `json:",omitempty" msg:",omitempty"`
	// NodeExpand asks the node to call NodeExpandVolume after publishing.
	NodeExpand bool `msg:",omitempty"`
	// Waiting is why the claim is not ready yet; empty when it is.
	Waiting string `msg:",omitempty"`
	WriteMeta
}

// VolumeUnpublishRequest is a node's report that nothing of the volume is mounted for the allocation any more.
type VolumeUnpublishRequest struct {
	VolumeID string `msg:",omitempty"`
	AllocID  string `msg:",omitempty"`
	// Use is that of the claim.
	Use        string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	NodeSecret string `json:"-" msg:",omitempty"`
	// Error is set while unmounting fails; the claim stays and shows it.
	Error string `msg:",omitempty"`
	// NextRetry is when the node tries again, in Unix nanoseconds.
	NextRetry int64 `msg:",omitempty"`
	// Mounting is set when the report is about a mount: it waits because of Error, or goes on without one.
	Mounting bool `msg:",omitempty"`
	// NoRoom is set with Mounting when the driver has no room for the volume on the node.
	NoRoom bool `msg:",omitempty"`
	// WriteBack is how long writing back and unmounting took.
	WriteBack time.Duration `msg:",omitempty"`
	WriteRequest
}

// VolumeIntentRequest is the question of a controller's host, just before it calls the driver, whether the
// intent behind the call is still the newest of its object.
type VolumeIntentRequest struct {
	NodeID     string `msg:",omitempty"`
	NodeSecret string `json:"-" msg:",omitempty"`
	PluginID   string `msg:",omitempty"`
	// ExternalID is empty for a volume that is being created.
	ExternalID string `msg:",omitempty"`
	// Fence is the raft index of the intent, as in [ControllerCall].
	Fence uint64 `msg:",omitempty"`
	// Call is what the driver is asked for.
	Call IntentCall `msg:",omitempty"`
	// Part is the provider's id of the node that is attached or detached, the name of what is made, the id of the
	// snapshot that is deleted; empty for what concerns the volume as a whole.
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

// ConfirmTerm is for how long a confirmed intent lets its host begin the call, counted from when the host asked.
const ConfirmTerm = time.Second

// VolumeAttachmentListRequest lists attachments and mounts that are not confirmed to be gone, optionally of
// one node, plugin or volume.
type VolumeAttachmentListRequest struct {
	NodeID   string `msg:",omitempty"`
	PluginID string `msg:",omitempty"`
	VolumeID string `msg:",omitempty"`
	QueryOptions
}

// AttachmentStub is the row of an attachment, or of a mount of a claim that was given up, in lists.
type AttachmentStub struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	NodeName   string `msg:",omitempty"`
	// VolumeID and Namespace name one spec of the volume; empty when none is registered any more.
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	// AllocID is that of a stale mount.
	AllocID string `json:",omitempty" msg:",omitempty"`
	// State is that of the attachment, or "stale mount".
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

// VolumeListExternalResponse lists a provider's volumes; NextToken is the provider's.
type VolumeListExternalResponse struct {
	Volumes   []*VolumeExternal `msg:",omitempty"`
	NextToken string            `msg:",omitempty"`
}

// SnapshotCreateRequest asks to make snapshots.
type SnapshotCreateRequest struct {
	Snapshots []*Snapshot `msg:",omitempty"`
	WriteRequest
}

// SnapshotDeleteRequest asks to delete one snapshot. One that is being made is named by its name until the driver's id
// is known. With Force what is intended with it is forgotten, and no driver is asked.
type SnapshotDeleteRequest struct {
	ID       string            `msg:",omitempty"`
	PluginID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty"`
	Force    bool              `msg:",omitempty"`
	WriteRequest
}

// SnapshotDeleteResponse says what may be left of a snapshot.
type SnapshotDeleteResponse struct {
	Warnings string `msg:",omitempty"`
	WriteMeta
}

// SnapshotListRequest asks for a provider's snapshots.
type SnapshotListRequest struct {
	PluginID string            `msg:",omitempty"`
	Secrets  map[string]string `msg:",omitempty"`
	QueryOptions
}

// SnapshotListResponse lists snapshots.
type SnapshotListResponse struct {
	Snapshots []*Snapshot `msg:",omitempty"`
	NextToken string      `msg:",omitempty"`
	// UnderWay are those that the plugin was asked to make or to delete, and has not yet; on the first page.
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

// PluginRenamedRequest says that the driver of a CSI plugin, by the name that it gives itself, has another one by now.
type PluginRenamedRequest struct {
	ID      string `msg:",omitempty"`
	Former  string `msg:",omitempty"`
	Present string `msg:",omitempty"`
	WriteRequest
}

// PluginGetResponse holds one CSI plugin; Plugin is nil when it does not exist.
type PluginGetResponse struct {
	Plugin *Plugin `msg:",omitempty"`
	QueryMeta
}
