package api

import (
	"cmp"
	"maps"
	"time"
)

// AccessMode is the number of nodes that may use a volume at a time, and whether they may write.
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

// AttachmentMode is the form in which a volume is used: a file system or a block device.
type AttachmentMode string

// Attachment modes.
const (
	AttachmentUnknown    AttachmentMode = ""
	AttachmentFileSystem AttachmentMode = "file-system"
	AttachmentBlock      AttachmentMode = "block-device"
)

// VolumeSpec is the user's specification of a volume. Updating it never changes the values that the driver reported.
type VolumeSpec struct {
	ID        string `hcl:"id" msg:",omitempty"`
	Name      string `hcl:"name" msg:",omitempty"`
	Namespace string `hcl:"namespace" msg:",omitempty"`
	PluginID  string `hcl:"plugin_id" msg:",omitempty"`
	// ExternalID is the provider's id of an existing volume; empty for a volume to be created.
	ExternalID            string              `hcl:"external_id" msg:",omitempty"`
	RequestedTopologies   *TopologyRequest    `hcl:"topology_request" msg:",omitempty"`
	RequestedCapacityMin  int64               `hcl:"capacity_min" msg:",omitempty"`
	RequestedCapacityMax  int64               `hcl:"capacity_max" msg:",omitempty"`
	RequestedCapabilities []*VolumeCapability `hcl:"capability" msg:",omitempty"`
	MountOptions          *MountOptions       `hcl:"mount_options" msg:",omitempty"`
	// Secrets are passed to the driver and never returned by the API.
	Secrets map[string]string `hcl:"secrets" msg:",omitempty" secret:"true"`
	// SecretsFrom is the path of a variable in the volume's namespace whose items are passed to the driver as secrets. They
	// are read for each call.
	SecretsFrom string            `hcl:"secrets_from" json:",omitempty" msg:",omitempty"`
	Parameters  map[string]string `hcl:"parameters" msg:",omitempty"`
	// Context is passed to the driver unchanged; for created volumes the driver's context is used instead.
	Context    map[string]string `hcl:"context" msg:",omitempty"`
	CloneID    string            `hcl:"clone_id" msg:",omitempty"`
	SnapshotID string            `hcl:"snapshot_id" msg:",omitempty"`
	// Owner is the owner of the mounted file system; nil leaves the owner that the driver set.
	Owner *VolumeOwner `hcl:"owner" json:",omitempty" msg:",omitempty"`
	// OnMountDead is the node's action when a mount stops responding: republish, restart, signal or
	// ignore; empty means ignore.
	OnMountDead string `hcl:"on_mount_dead" json:",omitempty" msg:",omitempty"`
	// OnNodeLoss is the condition that releases the volume from a lost node: fence, wait or assume; empty means fence.
	OnNodeLoss string `hcl:"on_node_loss" json:",omitempty" msg:",omitempty"`
	// FenceAfter is the time that a node must be down before the volume is detached from it; 0 means the
	// server's default.
	FenceAfter time.Duration `hcl:"fence_after" json:",omitempty" msg:",omitempty"`
	// Lease is the time that a node may use an exclusive volume that needs no attach after its last
	// acknowledged heartbeat; 0 means the server's default.
	Lease time.Duration `hcl:"lease" json:",omitempty" msg:",omitempty"`
	// Fence is the mechanism that stops writes of a lost node: storage, lease or both; empty means storage
	// if the driver attaches volumes, otherwise lease.
	Fence string `hcl:"fence" json:",omitempty" msg:",omitempty"`
	// WriteBack is the part of the lease that is reserved for writing data back and unmounting; 0 means the default.
	WriteBack time.Duration `hcl:"write_back" json:",omitempty" msg:",omitempty"`
}

// Values of [VolumeSpec].Fence: the mechanisms that stop writes of a lost node.
const (
	// FenceStorage relies on the detach of the storage.
	FenceStorage = "storage"
	// FenceLease relies on the node, which stops the users of the volume before the lease expires.
	FenceLease = "lease"
	// FenceBoth detaches the volume after the lease has expired.
	FenceBoth = "both"
)

// Values of [VolumeSpec].OnNodeLoss: the conditions that release a volume from a lost node.
const (
	// NodeLossFence requires a detach by the storage, the expiry of the lease, a reboot of the node or a fencing hook.
	NodeLossFence = "fence"
	// NodeLossWait requires the same, except that an expired lease does not suffice.
	NodeLossWait = "wait"
	// NodeLossAssume releases the volume as soon as the node is down, and records the proof "assumed".
	NodeLossAssume = "assume"
)

// VolumeRelease records the end of one claim: its allocation and node, and why the volume could be reused.
type VolumeRelease struct {
	AllocID string `msg:",omitempty"`
	NodeID  string `msg:",omitempty"`
	// Proof is released, fenced or assumed.
	Proof string `msg:",omitempty"`
	// By is the source of the proof: the node, the provider, the lease, a reboot, a hook, an operator or the policy.
	By string `msg:",omitempty"`
	// Reason is the reason that an operator gave.
	Reason string `json:",omitempty" msg:",omitempty"`
	// At is the time of the release in Unix nanoseconds.
	At int64 `msg:",omitempty"`
}

// VolumeOwner is the owner that the node sets on a mounted file system.
type VolumeOwner struct {
	UID int `hcl:"uid" msg:",omitempty"`
	GID int `hcl:"gid" msg:",omitempty"`
	// Mode is the octal mode, such as "0770"; empty leaves the mode unchanged.
	Mode string `hcl:"mode" msg:",omitempty"`
	// Policy is root-mismatch (all files, only when the root directory differs; the default), always or never.
	Policy string `hcl:"policy" msg:",omitempty"`
}

// Values of [VolumeSpec].OnMountDead: the node's actions when a mount stops responding.
const (
	MountDeadIgnore    = "ignore"
	MountDeadRepublish = "republish"
	MountDeadRestart   = "restart"
	MountDeadSignal    = "signal"
)

// Values of [VolumeOwner].Policy: when the owner is also set on the files below the root directory.
const (
	OwnerRootMismatch = "root-mismatch"
	OwnerAlways       = "always"
	OwnerNever        = "never"
)

// VolumeState is the provisioning state of a volume.
type VolumeState string

// States of provisioning: creating -> available -> (expanding) -> deleting -> (no row).
const (
	VolumeCreating  VolumeState = "creating"
	VolumeAvailable VolumeState = "available"
	VolumeExpanding VolumeState = "expanding"
	VolumeDeleting  VolumeState = "deleting"
	VolumeFailed    VolumeState = "failed"
)

// VolumeProvision is the provisioning state of a volume and the values that its driver reported.
type VolumeProvision struct {
	// Provider is the name of the volume's driver. It owns the plugin id while the volume is registered: another driver
	// may have a different volume with the same id. Empty means that the driver reports no name.
	Provider   string            `json:",omitempty" msg:",omitempty"`
	State      VolumeState       `msg:",omitempty"`
	ExternalID string            `msg:",omitempty"`
	Context    map[string]string `msg:",omitempty"`
	Topologies []*Topology       `msg:",omitempty"`
	// CapacityBytes is the real size; 0 means unknown.
	CapacityBytes int64 `msg:",omitempty"`
	// Intent is the raft index of the running provisioning call; calls with an older index are rejected.
	Intent uint64 `msg:",omitempty"`
	// Began is the raft index at which the running operation began. Intent grows with each call, Began does not.
	Began uint64 `msg:",omitempty"`
	// IntentSecrets are the secrets in the request of the running operation; they are removed when it ends. Each
	// replaces the secret of the spec with the same key.
	IntentSecrets map[string]string `msg:",omitempty" secret:"true"`
	// Replaces is an earlier creation of the same row, with other fields, that may have taken effect. It is
	// undone before the volume is created. Its ExternalID is the driver's id of the earlier volume, once it is known.
	Replaces *VolumeSpec `msg:",omitempty"`
	// Created is set when the driver created the volume: the driver's context is used, not that of the spec.
	Created bool `msg:",omitempty"`
	// NotValidated is the reason why the driver has not confirmed the capabilities; empty when it has confirmed them
	// or does not have to.
	NotValidated string `msg:",omitempty"`
	LastError    string `msg:",omitempty"`
	// NodeExpansion lists the ids of the nodes on which NodeExpandVolume is pending.
	NodeExpansion []string `msg:",omitempty"`
	// NotGrown is set when a node failed to grow the file system and does not retry. A repeated request for the same
	// capacity then expands the volume again.
	NotGrown bool `msg:",omitempty"`
	// Uncertain is set while an earlier call of the running intent may have taken effect.
	Uncertain bool `msg:",omitempty"`
	// OutOfUse is set when the plugin of the running expansion expands only volumes that are not in use.
	OutOfUse bool `msg:",omitempty"`
	// FormerSecrets are the secrets before the last change, kept while an attachment uses them.
	FormerSecrets map[string]string `msg:",omitempty" secret:"true"`
	// SlowestWriteBack is the longest time that a node needed to write the volume's data back and unmount it.
	SlowestWriteBack time.Duration `msg:",omitempty"`
}

// Volume is the stored record of a CSI volume.
type Volume struct {
	VolumeSpec
	Provision VolumeProvision `json:"-" msg:",omitempty"`
	// Releases are the most recent ends of claims, newest last; at most [ReleasesMax].
	Releases    []*VolumeRelease `json:",omitempty" msg:",omitempty"`
	CreateIndex uint64           `msg:",omitempty"`
	ModifyIndex uint64           `msg:",omitempty"`
	// CreateTime and ModifyTime are Unix nanoseconds.
	CreateTime int64 `msg:",omitempty"`
	ModifyTime int64 `msg:",omitempty"`
}

// SnapshotIntent is the pending creation or deletion of a snapshot. It is stored before the driver is called, and
// until the driver has returned a final result; it survives a change of leader.
type SnapshotIntent struct {
	PluginID string `msg:",omitempty"`
	// Name is the idempotency key of a snapshot to be created, or the driver's id of one to be deleted.
	Name   string `msg:",omitempty"`
	Delete bool   `msg:",omitempty"`
	// Namespace, VolumeID and ExternalID name the source volume of a snapshot to be created.
	Namespace  string            `msg:",omitempty"`
	VolumeID   string            `msg:",omitempty"`
	ExternalID string            `msg:",omitempty"`
	Parameters map[string]string `msg:",omitempty"`
	Secrets    map[string]string `json:"-" msg:",omitempty" secret:"true"`
	LastError  string            `msg:",omitempty"`
	// Uncertain is set while an earlier call of the intent may have taken effect.
	Uncertain bool `msg:",omitempty"`
	// SnapshotID is the driver's id of a snapshot that was created and is not ready to use yet.
	SnapshotID string `msg:",omitempty"`
	// Unwanted is set when the driver finally rejected the creation but an earlier call may have taken effect, or when
	// the snapshot is deleted before it is ready: it is searched for and deleted.
	Unwanted bool `msg:",omitempty"`
	// Forgotten is set on a deletion that an operator ended by force. No request waits for it. It is retried until the
	// driver returns a final result, because a call may still be running.
	Forgotten bool `json:",omitempty" msg:",omitempty"`
	// CutAs is the name with which a snapshot to be deleted was created; empty if unknown. A creation with that name
	// no longer returns the snapshot.
	CutAs string `json:",omitempty" msg:",omitempty"`
	// Since is the time of the first request in Unix nanoseconds; older snapshots do not belong to this intent.
	Since int64 `json:",omitempty" msg:",omitempty"`
	// Began is the raft index of the request, if the row was rewritten after a restore of an older state; 0 means
	// CreateIndex.
	Began uint64 `json:",omitempty" msg:",omitempty"`
	// Provider is the name of the driver of the snapshot; empty if unknown.
	Provider    string `json:",omitempty" msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// Operation identifies the request among those with the same plugin, name and Delete, for callers that wait for its
// result.
func (i *SnapshotIntent) Operation() uint64 { return cmp.Or(i.Began, i.CreateIndex) }

// Fence returns the raft index that orders the calls for the snapshot, see [ControllerCall]. It grows when the intent
// is renewed.
func (i *SnapshotIntent) Fence() uint64 { return max(i.Began, i.CreateIndex) }

// SnapshotUnderWay is the list entry of a pending creation or deletion of a snapshot.
type SnapshotUnderWay struct {
	// Name is the name in the request, or the driver's id of a snapshot to be deleted.
	Name string `msg:",omitempty"`
	// SnapshotID is the driver's id; empty while it is unknown.
	SnapshotID string `json:",omitempty" msg:",omitempty"`
	// Source is the driver's id of the volume; empty for a snapshot to be deleted.
	Source string `json:",omitempty" msg:",omitempty"`
	// State is "being made", "not ready" (created, and the driver still processes it), "given up" (abandoned: it is
	// deleted if it exists), or "being deleted".
	State string `msg:",omitempty"`
	// Since is the time of the request in Unix nanoseconds; 0 means unknown.
	Since     int64  `json:",omitempty" msg:",omitempty"`
	LastError string `json:",omitempty" msg:",omitempty"`
	// Remedy is the command that ends it.
	Remedy string `msg:",omitempty"`
}

// ReleasesMax is the maximum number of ended claims that a volume records.
const ReleasesMax = 16

// Operation identifies the running operation for callers that wait for its end. It is the same for all its calls.
func (p *VolumeProvision) Operation() uint64 { return cmp.Or(p.Began, p.Intent) }

// CallSecrets returns the secrets for calls of the running operation: those of the spec, each replaced by the secret
// with the same key in the operation's request.
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

// RemoteID returns the driver's id of the volume, or the volume's own id if there is none.
func (v *Volume) RemoteID() string {
	switch {
	case v.Provision.ExternalID != "":
		return v.Provision.ExternalID
	case v.ExternalID != "":
		return v.ExternalID
	}
	return v.ID
}

// VolumeDetail is a volume with the values that are derived from claims, plugins and nodes.
// In JSON its fields hide the fields of [Volume] with the same names.
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
	// NotValidated is the reason why the driver has not confirmed the capabilities; empty when it has confirmed them
	// or does not have to.
	NotValidated string `json:",omitempty" msg:",omitempty"`
	// SlowestWriteBack is the longest time that a node needed to write the volume's data back and unmount it.
	SlowestWriteBack time.Duration `json:",omitempty" msg:",omitempty"`
	// Snapshots are the volume's snapshots that are being created or were abandoned.
	Snapshots []*SnapshotUnderWay `json:",omitempty" msg:",omitempty"`
	// NodeExpansion lists the ids of the nodes that have not grown the file system of the volume yet.
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

// ClaimState is a state of a claim; a claim that has ended has no row.
type ClaimState string

// Claim states; see package nomad/volumes/claim for the machine.
const (
	// ClaimWaiting means that another claim still holds the exclusive volume.
	ClaimWaiting ClaimState = "waiting"
	// ClaimTaken means that the claim counts for the access mode, and the volume is not attached to its node yet.
	ClaimTaken ClaimState = "taken"
	// ClaimReady means that the node may stage and publish the volume.
	ClaimReady ClaimState = "ready"
	// ClaimReleasing means that the allocation has ended or is lost, and the node must unmount the volume.
	ClaimReleasing ClaimState = "releasing"
	// ClaimUnmounted means that the volume is unmounted on the node; the claim still counts until the release is safe.
	ClaimUnmounted ClaimState = "unmounted"
)

// VolumeClaim is the use of one volume by one allocation. It contains all that a release needs, so that the
// allocation's own record is not required.
type VolumeClaim struct {
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	AllocID   string `msg:",omitempty"`
	// Use distinguishes several uses of one volume by one allocation, see [VolumeUse]; empty for the only use.
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
	// Attach is set when a controller must attach the volume before its use. It is decided when the
	// claim is taken; later reports of the plugin do not change it.
	Attach bool       `msg:",omitempty"`
	State  ClaimState `msg:",omitempty"`
	// Presumed is set when the volume is presumed to be unmounted: its node was considered lost and has not
	// confirmed the unmount. It is cleared when the node confirms it.
	Presumed bool `json:",omitempty" msg:",omitempty"`
	// Lease is the lease of the claim: the node stops using the volume when none of its heartbeats was
	// acknowledged for that time. 0 means that the storage fences the node, or that the volume is shared.
	Lease time.Duration `json:",omitempty" msg:",omitempty"`
	// WriteBack is the last part of the lease, in which the node writes data back and unmounts.
	WriteBack time.Duration `json:",omitempty" msg:",omitempty"`
	// OnNodeLoss and FenceAfter are copies of the volume's fields, made when the claim was taken or when the volume was
	// deregistered. They apply only after the volume was deregistered.
	OnNodeLoss string        `json:",omitempty" msg:",omitempty"`
	FenceAfter time.Duration `json:",omitempty" msg:",omitempty"`
	// Proof and By record why the volume is no longer in use on the node, see [VolumeRelease]; empty while it may be.
	Proof string `json:",omitempty" msg:",omitempty"`
	By    string `json:",omitempty" msg:",omitempty"`
	// Reason is the reason that an operator gave.
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
	// AttachmentWrittenOff means that an operator ended the attachment by force. It blocks no other use of the volume.
	// The detach is retried until the driver confirms it.
	AttachmentWrittenOff AttachmentState = "written off"
)

// VolumeAttachment is the controller's attachment of one external volume to one node.
type VolumeAttachment struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
	// ProviderNodeID is the driver's id of the node, recorded before the first call.
	ProviderNodeID string `msg:",omitempty"`
	// Provider is the name of the driver for the attach; empty if unknown.
	Provider       string            `json:",omitempty" msg:",omitempty"`
	State          AttachmentState   `msg:",omitempty"`
	PublishContext map[string]string `json:"-" msg:",omitempty" secret:"true"`
	// Secrets are set only after the last spec of the volume was removed; until then calls use those of the spec.
	Secrets  map[string]string `json:"-" msg:",omitempty" secret:"true"`
	ReadOnly bool              `msg:",omitempty"`
	// AccessMode, AttachmentMode and MountOptions are the capability in the call of the driver.
	AccessMode     AccessMode        `msg:",omitempty"`
	AttachmentMode AttachmentMode    `msg:",omitempty"`
	MountOptions   *MountOptions     `json:"-" msg:",omitempty"`
	Context        map[string]string `json:"-" msg:",omitempty"`
	// Fence is the raft index of the intent; a node refuses controller calls with an older one.
	Fence uint64 `msg:",omitempty"`
	// Proof is the reason why the detach is safe: released, fenced or assumed.
	Proof     string `msg:",omitempty"`
	Since     int64  `msg:",omitempty"`
	LastError string `msg:",omitempty"`
	// NotCalled is set when the driver was not called because the plugin does not attach volumes: no detach is needed.
	NotCalled bool `json:",omitempty" msg:",omitempty"`
	// Called is set after a restore of an older state when the driver may have been called, regardless of the other
	// fields. If ProviderNodeID is empty, the detach waits until the node's plugin reports it.
	Called bool `json:",omitempty" msg:",omitempty"`
	// Refused is the error class of a final error of the attach, which is not retried: the allocations that wait
	// for it fail with LastError.
	Refused     uint8  `json:",omitempty" msg:",omitempty"`
	NextRetry   int64  `msg:",omitempty"`
	Attempts    int    `msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// Plugin is a CSI plugin, computed from the current nodes and jobs. It is not stored.
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
