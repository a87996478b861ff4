package api

import (
	"cmp"
	"maps"
	"time"
)

// AccessMode says how many nodes may use a volume, and how.
type AccessMode string

// Access modes; names as in job and volume files.
const (
	AccessUnknown               AccessMode = ""
	AccessSingleNodeReader      AccessMode = "single-node-reader-only"
	AccessSingleNodeWriter      AccessMode = "single-node-writer"
	AccessSingleNodeSingle      AccessMode = "single-node-single-writer"
	AccessSingleNodeMulti       AccessMode = "single-node-multi-writer"
	AccessMultiNodeReader       AccessMode = "multi-node-reader-only"
	AccessMultiNodeSingleWriter AccessMode = "multi-node-single-writer"
	AccessMultiNodeMultiWriter  AccessMode = "multi-node-multi-writer"
)

// AttachmentMode says whether a volume is used as a file system or as a block device.
type AttachmentMode string

// Attachment modes.
const (
	AttachmentUnknown    AttachmentMode = ""
	AttachmentFileSystem AttachmentMode = "file-system"
	AttachmentBlock      AttachmentMode = "block-device"
)

// VolumeSpec is what a user says of a volume. Re-submitting it never touches what the driver said.
type VolumeSpec struct {
	ID        string `hcl:"id" msg:",omitempty"`
	Name      string `hcl:"name" msg:",omitempty"`
	Namespace string `hcl:"namespace" msg:",omitempty"`
	PluginID  string `hcl:"plugin_id" msg:",omitempty"`
	// ExternalID is the provider's id of a volume that exists already; empty for volumes to be created.
	ExternalID            string              `hcl:"external_id" msg:",omitempty"`
	RequestedTopologies   *TopologyRequest    `hcl:"topology_request" msg:",omitempty"`
	RequestedCapacityMin  int64               `hcl:"capacity_min" msg:",omitempty"`
	RequestedCapacityMax  int64               `hcl:"capacity_max" msg:",omitempty"`
	RequestedCapabilities []*VolumeCapability `hcl:"capability" msg:",omitempty"`
	MountOptions          *MountOptions       `hcl:"mount_options" msg:",omitempty"`
	// Secrets are passed to the driver and never shown.
	Secrets    map[string]string `hcl:"secrets" msg:",omitempty"`
	Parameters map[string]string `hcl:"parameters" msg:",omitempty"`
	// Context is opaque to us; for created volumes the driver's context is used instead.
	Context    map[string]string `hcl:"context" msg:",omitempty"`
	CloneID    string            `hcl:"clone_id" msg:",omitempty"`
	SnapshotID string            `hcl:"snapshot_id" msg:",omitempty"`
	// Owner is who owns the root of the mounted file system; nil leaves it as the driver made it.
	Owner *VolumeOwner `hcl:"owner" json:",omitempty" msg:",omitempty"`
	// OnMountDead is what the node does when a mount stops answering: republish, restart, signal or
	// ignore; empty means ignore.
	OnMountDead string `hcl:"on_mount_dead" json:",omitempty" msg:",omitempty"`
	// OnNodeLoss says what frees the volume from a node that is lost: fence, wait or assume; empty means fence.
	OnNodeLoss string `hcl:"on_node_loss" json:",omitempty" msg:",omitempty"`
	// FenceAfter is how long a node must be down before the volume is detached from it; 0 means the
	// server's default.
	FenceAfter time.Duration `hcl:"fence_after" json:",omitempty" msg:",omitempty"`
	// Lease is for how long a node may use an exclusive volume without attach after its last answered
	// heartbeat; 0 means the server's default.
	Lease time.Duration `hcl:"lease" json:",omitempty" msg:",omitempty"`
	// Fence says what keeps a node that was lost from writing: storage, lease or both; empty means storage
	// where the driver attaches and lease where it does not.
	Fence string `hcl:"fence" json:",omitempty" msg:",omitempty"`
	// WriteBack is the part of the lease that is kept for writing data back and unmounting; 0 means the default.
	WriteBack time.Duration `hcl:"write_back" json:",omitempty" msg:",omitempty"`
}

// What keeps a node that was lost from writing to a volume.
const (
	// FenceStorage relies on the detach of the storage.
	FenceStorage = "storage"
	// FenceLease relies on the node, which stops the users before its lease ends.
	FenceLease = "lease"
	// FenceBoth waits for the end of the lease and detaches then.
	FenceBoth = "both"
)

// What frees a volume from a node that is lost.
const (
	// NodeLossFence takes the storage's detach, the end of the lease, another boot or a fencing hook.
	NodeLossFence = "fence"
	// NodeLossWait takes the same, but never the end of a lease.
	NodeLossWait = "wait"
	// NodeLossAssume frees it as soon as the node is down, and says so.
	NodeLossAssume = "assume"
)

// VolumeRelease is how one claim ended: who had it, and why it was safe to give the volume on.
type VolumeRelease struct {
	AllocID string `msg:",omitempty"`
	NodeID  string `msg:",omitempty"`
	// Proof is released, fenced or assumed.
	Proof string `msg:",omitempty"`
	// By says how it was proven: the node, the provider, the lease, another boot, a hook, an operator or the policy.
	By string `msg:",omitempty"`
	// Reason is what an operator gave as the reason.
	Reason string `json:",omitempty" msg:",omitempty"`
	// At is in Unix nanoseconds.
	At int64 `msg:",omitempty"`
}

// VolumeOwner is the owner that the node gives to a mounted file system.
type VolumeOwner struct {
	UID int `hcl:"uid" msg:",omitempty"`
	GID int `hcl:"gid" msg:",omitempty"`
	// Mode is octal, such as "0770"; empty leaves the mode.
	Mode string `hcl:"mode" msg:",omitempty"`
	// Policy is root-mismatch (all files, but only when the root differs; the default), always or never.
	Policy string `hcl:"policy" msg:",omitempty"`
}

// What the node does when a mount stops answering.
const (
	MountDeadIgnore    = "ignore"
	MountDeadRepublish = "republish"
	MountDeadRestart   = "restart"
	MountDeadSignal    = "signal"
)

// When files below the root are given to the owner.
const (
	OwnerRootMismatch = "root-mismatch"
	OwnerAlways       = "always"
	OwnerNever        = "never"
)

// VolumeState is where the provisioning of a volume stands.
type VolumeState string

// States of provisioning: creating -> available -> (expanding) -> deleting -> (no row).
const (
	VolumeCreating  VolumeState = "creating"
	VolumeAvailable VolumeState = "available"
	VolumeExpanding VolumeState = "expanding"
	VolumeDeleting  VolumeState = "deleting"
	VolumeFailed    VolumeState = "failed"
)

// VolumeProvision is what the driver and the provisioning machine say of a volume.
type VolumeProvision struct {
	// Provider is the name of the driver that made the volume, was asked to, or knew it when it was registered; while
	// there is Replaces it is that of the driver that was asked for that; empty where that was not
	// known. Another one may have another volume by its id.
	Provider   string            `json:",omitempty" msg:",omitempty"`
	State      VolumeState       `msg:",omitempty"`
	ExternalID string            `msg:",omitempty"`
	Context    map[string]string `msg:",omitempty"`
	Topologies []*Topology       `msg:",omitempty"`
	// CapacityBytes is the real size; 0 means unknown.
	CapacityBytes int64 `msg:",omitempty"`
	// Intent is the raft index of the running provisioning call; drivers never see an older one.
	Intent uint64 `msg:",omitempty"`
	// Began is the raft index at which the running operation began: Intent grows with its calls, Began does not.
	Began uint64 `msg:",omitempty"`
	// IntentSecrets came with the request of the running operation and go with it; they replace those of the spec
	// one by one.
	IntentSecrets map[string]string `msg:",omitempty"`
	// Replaces is an earlier creation of the same row, with other fields, that may have had its effect. It is
	// undone before the volume is created. Its ExternalID is the driver's id of what it made, once that is known.
	Replaces *VolumeSpec `msg:",omitempty"`
	// Created is set when the volume was made by its driver: its context is the driver's, whatever a spec says.
	Created bool `msg:",omitempty"`
	// NotValidated is why the driver has not confirmed the capabilities; empty when it has, or need not.
	NotValidated string `msg:",omitempty"`
	LastError    string `msg:",omitempty"`
	// NodeExpansion lists the nodes that still owe a NodeExpandVolume.
	NodeExpansion []string `msg:",omitempty"`
	// NotGrown is set when a node has given up to grow the file system. To ask for the same capacity again then
	// expands the volume once more.
	NotGrown bool `msg:",omitempty"`
	// Uncertain is set while an earlier call of the running intent may have had its effect.
	Uncertain bool `msg:",omitempty"`
	// OutOfUse is set when the running expansion is one of a plugin that expands volumes only while nobody uses them.
	OutOfUse bool `msg:",omitempty"`
	// FormerSecrets are those before the last change, kept while something is attached with them.
	FormerSecrets map[string]string `msg:",omitempty"`
	// SlowestWriteBack is the longest time that a node took to write the volume's data back and unmount it.
	SlowestWriteBack time.Duration `msg:",omitempty"`
}

// Volume is a CSI volume as it is stored.
type Volume struct {
	VolumeSpec
	Provision VolumeProvision `json:"-" msg:",omitempty"`
	// Releases are the last claims that ended, the newest last; at most [ReleasesMax].
	Releases    []*VolumeRelease `json:",omitempty" msg:",omitempty"`
	CreateIndex uint64           `msg:",omitempty"`
	ModifyIndex uint64           `msg:",omitempty"`
	// CreateTime and ModifyTime are Unix nanoseconds.
	CreateTime int64 `msg:",omitempty"`
	ModifyTime int64 `msg:",omitempty"`
}

// SnapshotIntent is a snapshot that is to be made or deleted, and the driver's answer is not known. It
// exists before the driver is called and until it has answered, whoever leads.
type SnapshotIntent struct {
	PluginID string `msg:",omitempty"`
	// Name is the idempotency key of a snapshot to be made, the driver's id of one to be deleted.
	Name   string `msg:",omitempty"`
	Delete bool   `msg:",omitempty"`
	// Namespace, VolumeID and ExternalID name the source of a snapshot to be made.
	Namespace  string            `msg:",omitempty"`
	VolumeID   string            `msg:",omitempty"`
	ExternalID string            `msg:",omitempty"`
	Parameters map[string]string `msg:",omitempty"`
	Secrets    map[string]string `json:"-" msg:",omitempty"`
	LastError  string            `msg:",omitempty"`
	// Uncertain is set while an earlier call of the intent may have had its effect.
	Uncertain bool `msg:",omitempty"`
	// SnapshotID is the driver's id of a snapshot that was cut and is not ready to use yet.
	SnapshotID string `msg:",omitempty"`
	// Unwanted is set when the driver refused in the end what an earlier call may have made, or when its user deletes
	// it before it was ready: it is looked for and deleted.
	Unwanted bool `msg:",omitempty"`
	// Forgotten is set on a deletion that an operator has ended by force: nobody waits for it, and it is asked for until
	// the driver has answered, for a call may be under way.
	Forgotten bool `json:",omitempty" msg:",omitempty"`
	// CutAs is the name under which a snapshot to be deleted was cut, where it is known: nobody gets it by that name
	// any more.
	CutAs string `json:",omitempty" msg:",omitempty"`
	// Since is when it was asked for first, in Unix nanoseconds: what was cut before is not of this intent.
	Since int64 `json:",omitempty" msg:",omitempty"`
	// Began is the index at which it was asked for, where the row is another one since an older state was restored;
	// else that is CreateIndex.
	Began uint64 `json:",omitempty" msg:",omitempty"`
	// Provider is the name of the driver that the snapshot is of; empty where that was not known.
	Provider    string `json:",omitempty" msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// Operation names the request, among those of the plugin, the name and Delete, for those who wait for its answer.
func (i *SnapshotIntent) Operation() uint64 { return cmp.Or(i.Began, i.CreateIndex) }

// Fence orders the calls for the snapshot, as in [ControllerCall]: it grows when the intent is renewed.
func (i *SnapshotIntent) Fence() uint64 { return max(i.Began, i.CreateIndex) }

// SnapshotUnderWay is a snapshot that a driver was asked to make or to delete, and has not yet.
type SnapshotUnderWay struct {
	// Name is that of the request, or the driver's id of a snapshot to be deleted.
	Name string `msg:",omitempty"`
	// SnapshotID is the driver's id; empty while it is not known.
	SnapshotID string `json:",omitempty" msg:",omitempty"`
	// Source is the driver's id of the volume; empty for one to be deleted.
	Source string `json:",omitempty" msg:",omitempty"`
	// State is "being made", "not ready" (made, and its driver still works on it), "given up" (made or not, it is to be
	// deleted), or "being deleted".
	State string `msg:",omitempty"`
	// Since is when it was asked for, in Unix nanoseconds; 0 is not known.
	Since     int64  `json:",omitempty" msg:",omitempty"`
	LastError string `json:",omitempty" msg:",omitempty"`
	// Remedy is the command that ends it.
	Remedy string `msg:",omitempty"`
}

// ReleasesMax bounds what a volume remembers of ended claims.
const ReleasesMax = 16

// Operation names the running operation for those who wait for its end: it stays the same over all its calls.
func (p *VolumeProvision) Operation() uint64 { return cmp.Or(p.Began, p.Intent) }

// CallSecrets are the secrets for calls of the running operation: those of the spec, replaced one by one by those
// that came with the operation's request.
func (v *Volume) CallSecrets() map[string]string {
	if len(v.Provision.IntentSecrets) == 0 {
		return v.Secrets
	}
	all := maps.Clone(v.Provision.IntentSecrets)
	for k, secret := range v.Secrets {
		if _, given := all[k]; !given {
			all[k] = secret
		}
	}
	return all
}

// RemoteID is the id that the driver knows the volume by.
func (v *Volume) RemoteID() string {
	switch {
	case v.Provision.ExternalID != "":
		return v.Provision.ExternalID
	case v.ExternalID != "":
		return v.ExternalID
	}
	return v.ID
}

// VolumeDetail is a volume with everything that is derived from claims, plugins and nodes.
// Its own fields hide those of the record in JSON.
type VolumeDetail struct {
	Volume
	ExternalID     string                 `msg:",omitempty"`
	Context        map[string]string      `msg:",omitempty"`
	Topologies     []*Topology            `msg:",omitempty"`
	Capacity       int64                  `msg:",omitempty"`
	AccessMode     AccessMode             `msg:",omitempty"`
	AttachmentMode AttachmentMode         `msg:",omitempty"`
	ReadAllocs     map[string]*Allocation `msg:",omitempty" null:"allowed"`
	WriteAllocs    map[string]*Allocation `msg:",omitempty" null:"allowed"`
	Allocations    []*AllocStub           `msg:",omitempty"`
	Claims         []*VolumeClaim         `msg:",omitempty"`
	Attachments    []*VolumeAttachment    `msg:",omitempty"`
	State          VolumeState            `msg:",omitempty"`
	LastError      string                 `msg:",omitempty"`
	// NotValidated is why the driver has not confirmed the capabilities; empty when it has, or need not.
	NotValidated string `json:",omitempty" msg:",omitempty"`
	// SlowestWriteBack is the longest time that a node took to write the volume's data back and unmount it.
	SlowestWriteBack time.Duration `json:",omitempty" msg:",omitempty"`
	// Snapshots are those of the volume that are being made or given up.
	Snapshots []*SnapshotUnderWay `json:",omitempty" msg:",omitempty"`
	// NodeExpansion lists the nodes that have not grown the file system of the volume yet.
	NodeExpansion       []string  `json:",omitempty" msg:",omitempty"`
	Schedulable         bool      `msg:",omitempty"`
	Provider            string    `msg:",omitempty"`
	ProviderVersion     string    `msg:",omitempty"`
	ControllerRequired  bool      `msg:",omitempty"`
	ControllersHealthy  int       `msg:",omitempty"`
	ControllersExpected int       `msg:",omitempty"`
	NodesHealthy        int       `msg:",omitempty"`
	NodesExpected       int       `msg:",omitempty"`
	ResourceExhausted   time.Time `msg:",omitempty"`
}

// ClaimMode is read or write.
type ClaimMode string

// Claim modes.
const (
	ClaimRead  ClaimMode = "read"
	ClaimWrite ClaimMode = "write"
)

// ClaimState is a state of the claim machine; absence of the row is the end state.
type ClaimState string

// Claim states; see package nomad/volumes/claim for the machine.
const (
	// ClaimWaiting is placed, but a predecessor still holds an exclusive volume.
	ClaimWaiting ClaimState = "waiting"
	// ClaimTaken counts against the access mode; its node is not attached yet.
	ClaimTaken ClaimState = "taken"
	// ClaimReady allows the node to stage and publish.
	ClaimReady ClaimState = "ready"
	// ClaimReleasing means that the workload is over or lost and the node must unmount.
	ClaimReleasing ClaimState = "releasing"
	// ClaimUnmounted has nothing on the node but still holds capacity until that is safe.
	ClaimUnmounted ClaimState = "unmounted"
)

// VolumeClaim is one allocation's hold on one volume. It has all that is needed to release it
// without looking the allocation up.
type VolumeClaim struct {
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	AllocID   string `msg:",omitempty"`
	// Use tells the uses of one volume by one allocation apart: see [VolumeUse]. Empty for the only one.
	Use       string `json:",omitempty" msg:",omitempty"`
	NodeID    string `msg:",omitempty"`
	JobID     string `msg:",omitempty"`
	TaskGroup string `msg:",omitempty"`
	PluginID  string `msg:",omitempty"`
	// ExternalID is the driver's id of the volume at the time of the claim.
	ExternalID     string         `msg:",omitempty"`
	Mode           ClaimMode      `msg:",omitempty"`
	AccessMode     AccessMode     `msg:",omitempty"`
	AttachmentMode AttachmentMode `msg:",omitempty"`
	MountOptions   *MountOptions  `json:"-" msg:",omitempty"`
	// Attach says that a controller must attach the volume before it is used. It is decided when the
	// claim is taken and never depends on what the plugin says later.
	Attach bool       `msg:",omitempty"`
	State  ClaimState `msg:",omitempty"`
	// Presumed says that the claim is unmounted by presumption: its node was given up and has not
	// confirmed it. It is clear once the node does.
	Presumed bool `json:",omitempty" msg:",omitempty"`
	// Lease is what the node promised when the claim was taken: it stops using the volume when no
	// heartbeat of its was answered for that long. 0 means that the storage is its own fence, or that
	// the volume is shared.
	Lease time.Duration `json:",omitempty" msg:",omitempty"`
	// WriteBack is the part of the lease in which the node writes back and unmounts.
	WriteBack time.Duration `json:",omitempty" msg:",omitempty"`
	// OnNodeLoss and FenceAfter are those of the volume when the claim was taken, or when the volume was deregistered. As
	// long as it is there, its own count.
	OnNodeLoss string        `json:",omitempty" msg:",omitempty"`
	FenceAfter time.Duration `json:",omitempty" msg:",omitempty"`
	// Proof and By say why the volume is unused on the node: see [VolumeRelease]. Empty before.
	Proof string `json:",omitempty" msg:",omitempty"`
	By    string `json:",omitempty" msg:",omitempty"`
	// Reason is what an operator gave as the reason.
	Reason string `json:",omitempty" msg:",omitempty"`
	// Predecessor is the allocation that this claim waits for while waiting.
	Predecessor string `msg:",omitempty"`
	// Since is the Unix time in nanoseconds of the last change of State.
	Since     int64  `msg:",omitempty"`
	LastError string `msg:",omitempty"`
	// NextRetry is the Unix time in nanoseconds of the next try; 0 means none is planned.
	NextRetry   int64  `msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// AttachmentState is a state of an attachment; absence of the row means not attached.
type AttachmentState string

// Attachment states.
const (
	AttachmentPublishing   AttachmentState = "publishing"
	AttachmentPublished    AttachmentState = "published"
	AttachmentUnpublishing AttachmentState = "unpublishing"
	// AttachmentWrittenOff is one that an operator has ended, and that counts for nobody any more. Its driver is asked
	// to detach it until it does.
	AttachmentWrittenOff AttachmentState = "written off"
)

// VolumeAttachment is the controller's attachment of one external volume to one node.
type VolumeAttachment struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	// ProviderNodeID is the driver's id of the node, recorded before the first call.
	ProviderNodeID string `msg:",omitempty"`
	// Provider is the name of the driver that was to attach it; empty where it was not known, or controllers of several
	// were there.
	Provider       string            `json:",omitempty" msg:",omitempty"`
	State          AttachmentState   `msg:",omitempty"`
	PublishContext map[string]string `json:"-" msg:",omitempty"`
	// Secrets are kept only once no spec names the volume any more: calls use those of the spec.
	Secrets  map[string]string `json:"-" msg:",omitempty"`
	ReadOnly bool              `msg:",omitempty"`
	// AccessMode, AttachmentMode and MountOptions are the capability asked of the driver.
	AccessMode     AccessMode        `msg:",omitempty"`
	AttachmentMode AttachmentMode    `msg:",omitempty"`
	MountOptions   *MountOptions     `json:"-" msg:",omitempty"`
	Context        map[string]string `json:"-" msg:",omitempty"`
	// Fence is the raft index of the intent; a node refuses controller calls with an older one.
	Fence uint64 `msg:",omitempty"`
	// Proof says why it was safe to detach: released, fenced or assumed.
	Proof     string `msg:",omitempty"`
	Since     int64  `msg:",omitempty"`
	LastError string `msg:",omitempty"`
	// NotCalled is set on an attachment without any effect at the driver: its plugin turned out not to attach
	// volumes. Nothing has to be detached.
	NotCalled bool `json:",omitempty" msg:",omitempty"`
	// Called is set when the driver may have been called, whatever else the row says: the servers went back to an older
	// state. Without ProviderNodeID the node's plugin is waited for, which knows it.
	Called bool `json:",omitempty" msg:",omitempty"`
	// Refused is the error class of a final answer to the publish, which is then not repeated: LastError
	// fails the allocations that wait for it.
	Refused     uint8  `json:",omitempty" msg:",omitempty"`
	NextRetry   int64  `msg:",omitempty"`
	Attempts    int    `msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// Plugin is a CSI plugin as it is shown: counted from live nodes and jobs, never stored.
type Plugin struct {
	ID                  string              `msg:",omitempty"`
	Provider            string              `msg:",omitempty"`
	Version             string              `msg:",omitempty"`
	ControllerRequired  bool                `msg:",omitempty"`
	Controllers         map[string]*CSIInfo `msg:",omitempty"`
	Nodes               map[string]*CSIInfo `msg:",omitempty"`
	Allocations         []*AllocStub        `msg:",omitempty"`
	ControllersHealthy  int                 `msg:",omitempty"`
	ControllersExpected int                 `msg:",omitempty"`
	NodesHealthy        int                 `msg:",omitempty"`
	NodesExpected       int                 `msg:",omitempty"`
	CreateIndex         uint64              `msg:",omitempty"`
	ModifyIndex         uint64              `msg:",omitempty"`
	CreateTime          int64               `msg:",omitempty"`
	ModifyTime          int64               `msg:",omitempty"`
}
