package api

import (
	"net"
	"time"
)

// Node is the record of one client agent: its attributes, resources, drivers and plugins. The node writes its
// fingerprint; the servers write its status and eligibility.
type Node struct {
	ID                    string                      `msg:",omitempty"`
	Datacenter            string                      `msg:",omitempty"`
	Name                  string                      `msg:",omitempty"`
	HTTPAddr              string                      `msg:",omitempty"`
	TLSEnabled            bool                        `msg:",omitempty"`
	Attributes            map[string]string           `msg:",omitempty"`
	NodeResources         *NodeResources              `msg:",omitempty"`
	ReservedResources     *NodeReservedResources      `msg:",omitempty"`
	Meta                  map[string]string           `msg:",omitempty"`
	NodeClass             string                      `msg:",omitempty"`
	NodePool              string                      `msg:",omitempty"`
	CgroupParent          string                      `msg:",omitempty"`
	Drain                 bool                        `msg:",omitempty"`
	DrainStrategy         *DrainStrategy              `msg:",omitempty"`
	SchedulingEligibility string                      `msg:",omitempty"`
	Status                string                      `msg:",omitempty"`
	StatusDescription     string                      `msg:",omitempty"`
	StatusUpdatedAt       int64                       `msg:",omitempty"`
	Events                []*NodeEvent                `msg:",omitempty"`
	Drivers               map[string]*DriverInfo      `msg:",omitempty"`
	HostVolumes           map[string]*HostVolumeInfo  `msg:",omitempty"`
	GCVolumesOnNodeGC     bool                        `msg:",omitempty"`
	HostNetworks          map[string]*HostNetworkInfo `msg:",omitempty"`
	CSIControllerPlugins  map[string]*CSIInfo         `msg:",omitempty"`
	CSINodePlugins        map[string]*CSIInfo         `msg:",omitempty"`
	LastDrain             *DrainMetadata              `msg:",omitempty"`
	CreateIndex           uint64                      `msg:",omitempty"`
	ModifyIndex           uint64                      `msg:",omitempty"`
	NodeMaxAllocs         int                         `msg:",omitempty"`
	// SecretID is shared by the node and the servers only; see api/mask.
	SecretID string `json:"SecretID" msg:",omitempty" secret:"true"`
	// IdentitySigningKeyID is the root key that signed the node's identity; with it the servers no longer accept SecretID
	// alone. Empty for a node without an identity.
	IdentitySigningKeyID string `json:"-" msg:",omitempty"`
	// ComputedClass is a hash of the fields that constraints can refer to.
	ComputedClass            string `msg:",omitempty"`
	LastMissedHeartbeatIndex uint64 `msg:",omitempty"`
	LastAllocUpdateIndex     uint64 `msg:",omitempty"`
	// BootID identifies one boot of the host.
	BootID string `json:"-" msg:",omitempty"`
	// CSILimits are the limits of volumes per plugin, observed when a driver rejected a further volume.
	CSILimits map[string]*CSILimit `json:",omitempty" msg:",omitempty"`
	// StaleMounts are mounts that the node may still have of claims that were released while the node was
	// unreachable, or by force. An entry is removed when the node reports the unmount, or after a reboot. A node that
	// the servers have no record of reports its mounts here when it registers.
	StaleMounts []*StaleMount `json:",omitempty" msg:",omitempty"`
	// Process and Number are those of the newest registration, see [NodeRegisterRequest]; Former are the previous
	// processes, oldest first.
	Process string   `json:"-" msg:",omitempty"`
	Number  uint64   `json:"-" msg:",omitempty"`
	Former  []string `json:"-" msg:",omitempty"`
	// Silence is the time since the last heartbeat when the node was marked down.
	Silence time.Duration `json:"-" msg:",omitempty"`
	// RPCAddr is the node's address as seen by the servers; diagnostic only.
	RPCAddr string `json:"-" msg:",omitempty"`
}

// StaleMount is a mount of a volume whose claim was released without a report of the node. Until the node reports the
// unmount, the volume is neither attached nor mounted on the node again: that could make the old mount usable again.
type StaleMount struct {
	Namespace string `msg:",omitempty"`
	VolumeID  string `msg:",omitempty"`
	AllocID   string `msg:",omitempty"`
	// Use is the use of the claim, see [VolumeClaim].
	Use        string `json:",omitempty" msg:",omitempty"`
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	// ProviderNodeID is the driver's id of the machine; empty if unknown.
	ProviderNodeID string `json:",omitempty" msg:",omitempty"`
	// Since is the time of the claim's release in Unix nanoseconds.
	Since int64 `msg:",omitempty"`
	// LastError is the error of the node's last attempt to unmount.
	LastError string `json:",omitempty" msg:",omitempty"`
	// AccessMode, AttachmentMode, ReadOnly and Lease are those of the claim.
	AccessMode     AccessMode     `json:",omitempty" msg:",omitempty"`
	ReadOnly       bool           `json:",omitempty" msg:",omitempty"`
	AttachmentMode AttachmentMode `json:",omitempty" msg:",omitempty"`
	Lease          time.Duration  `json:",omitempty" msg:",omitempty"`
	// Shared is set when the claim was released without a proof, because no use of the volume excluded another one.
	Shared bool `json:",omitempty" msg:",omitempty"`
}

// Rollback is the hold on volumes after a restore: until all nodes have reported their mounts, no exclusive volume
// becomes ready for a user, is detached or deleted.
type Rollback struct {
	// At is the time of the restore in Unix nanoseconds. A registration that carries it was built after the restore.
	At int64 `msg:",omitempty"`
	// Unreported are the ids of the nodes that have not reported their mounts since the restore.
	Unreported []string `msg:",omitempty"`
	// Released are the volumes that an operator detached by force from nodes of Unreported.
	Released []*ReleasedVolume `msg:",omitempty"`
}

// ReleasedVolume is an external volume that does not wait for the report of a node.
type ReleasedVolume struct {
	PluginID   string `msg:",omitempty"`
	ExternalID string `msg:",omitempty"`
	NodeID     string `msg:",omitempty"`
}

// NodeStub is the row of a node in lists.
type NodeStub struct {
	Address               string                     `msg:",omitempty"`
	ID                    string                     `msg:",omitempty"`
	Attributes            map[string]string          `json:",omitempty" msg:",omitempty"`
	Datacenter            string                     `msg:",omitempty"`
	Name                  string                     `msg:",omitempty"`
	NodeClass             string                     `msg:",omitempty"`
	NodePool              string                     `msg:",omitempty"`
	Version               string                     `msg:",omitempty"`
	Drain                 bool                       `msg:",omitempty"`
	SchedulingEligibility string                     `msg:",omitempty"`
	Status                string                     `msg:",omitempty"`
	StatusDescription     string                     `msg:",omitempty"`
	Drivers               map[string]*DriverInfo     `msg:",omitempty"`
	NodeResources         *NodeResources             `json:",omitempty" msg:",omitempty"`
	ReservedResources     *NodeReservedResources     `json:",omitempty" msg:",omitempty"`
	LastDrain             *DrainMetadata             `msg:",omitempty"`
	CreateIndex           uint64                     `msg:",omitempty"`
	ModifyIndex           uint64                     `msg:",omitempty"`
	HostVolumes           map[string]*HostVolumeInfo `msg:",omitempty"`
}

// NodeResources is the capacity of a node.
type NodeResources struct {
	Cpu            NodeCpuResources      `msg:",omitempty"`
	Memory         NodeMemoryResources   `msg:",omitempty"`
	Disk           NodeDiskResources     `msg:",omitempty"`
	Networks       []*NetworkResource    `msg:",omitempty"`
	Devices        []*NodeDeviceResource `msg:",omitempty"`
	MinDynamicPort int                   `msg:",omitempty"`
	MaxDynamicPort int                   `msg:",omitempty"`
	NodeNetworks   []*NodeNetwork        `msg:",omitempty"`
	Processors     NodeProcessors        `msg:",omitempty"`
}

// NodeNetwork is a network device of a node with its addresses.
type NodeNetwork struct {
	Mode       string                `msg:",omitempty"`
	Device     string                `msg:",omitempty"`
	MacAddress string                `msg:",omitempty"`
	Speed      int                   `msg:",omitempty"`
	Addresses  []*NodeNetworkAddress `msg:",omitempty"`
}

// NodeNetworkAddress is an address of a node; Alias is the host network that it belongs to.
type NodeNetworkAddress struct {
	Family        string `msg:",omitempty"`
	Alias         string `msg:",omitempty"`
	Address       string `msg:",omitempty"`
	ReservedPorts string `msg:",omitempty"`
	Gateway       string `msg:",omitempty"`
}

// NodeProcessors describes the processors of a node.
type NodeProcessors struct {
	Topology *NodeTopology `msg:",omitempty"`
}

// NodeTopology maps cores to NUMA nodes. Distances is a square matrix, row by row.
type NodeTopology struct {
	Nodes                  []int       `msg:",omitempty"`
	Distances              [][]int     `msg:",omitempty"`
	Cores                  []*NodeCore `msg:",omitempty"`
	OverrideTotalCompute   uint64      `msg:",omitempty"`
	OverrideWitholdCompute uint64      `msg:",omitempty"`
	// BusAssociativity is the NUMA node of devices, by PCI bus id; a node with one NUMA node has none.
	BusAssociativity map[string]uint8 `json:",omitempty" msg:",omitempty"`
}

// NodeCore is one core of a node; speeds in MHz. Grade is true for a performance core.
type NodeCore struct {
	SocketID   uint8  `msg:",omitempty"`
	NodeID     uint8  `msg:",omitempty"`
	ID         uint16 `msg:",omitempty"`
	Grade      bool   `msg:",omitempty"`
	Disable    bool   `msg:",omitempty"`
	BaseSpeed  uint64 `msg:",omitempty"`
	MaxSpeed   uint64 `msg:",omitempty"`
	GuessSpeed uint64 `msg:",omitempty"`
}

// NodeCpuResources is the processor capacity of a node; CpuShares in MHz.
type NodeCpuResources struct {
	CpuShares          int64    `msg:",omitempty"`
	TotalCpuCores      uint16   `msg:",omitempty"`
	ReservableCpuCores []uint16 `msg:",omitempty"`
}

// NodeMemoryResources is the memory capacity of a node in MiB.
type NodeMemoryResources struct {
	MemoryMB int64 `msg:",omitempty"`
}

// NodeDiskResources is the disk capacity of a node in MiB.
type NodeDiskResources struct {
	DiskMB int64 `msg:",omitempty"`
}

// NodeReservedResources is the capacity reserved for the host, which tasks never get.
type NodeReservedResources struct {
	Cpu      NodeReservedCpuResources
	Memory   NodeReservedMemoryResources  `msg:",omitempty"`
	Disk     NodeReservedDiskResources    `msg:",omitempty"`
	Networks NodeReservedNetworkResources `msg:",omitempty"`
}

// NodeReservedCpuResources is the processor share reserved for the host in MHz, and the cores.
type NodeReservedCpuResources struct {
	CpuShares        uint64   `msg:",omitempty"`
	ReservedCpuCores []uint16 `msg:",omitempty"`
}

// NodeReservedMemoryResources is the memory reserved for the host in MiB.
type NodeReservedMemoryResources struct {
	MemoryMB uint64 `msg:",omitempty"`
}

// NodeReservedDiskResources is the disk space reserved for the host in MiB.
type NodeReservedDiskResources struct {
	DiskMB uint64 `msg:",omitempty"`
}

// NodeReservedNetworkResources is the list of ports reserved for the host, such as "22,80-90".
type NodeReservedNetworkResources struct {
	ReservedHostPorts string `msg:",omitempty"`
}

// DriverInfo is a task driver as its node reports it.
type DriverInfo struct {
	Attributes        map[string]string `msg:",omitempty"`
	Detected          bool              `msg:",omitempty"`
	Healthy           bool              `msg:",omitempty"`
	HealthDescription string            `msg:",omitempty"`
	UpdateTime        time.Time         `msg:",omitempty"`
}

// HostVolumeInfo is a directory of the host that jobs may mount.
type HostVolumeInfo struct {
	Path     string `msg:",omitempty"`
	ReadOnly bool   `msg:",omitempty"`
	ID       string `msg:",omitempty"`
	// Namespace, Capabilities and CapacityBytes are those of a dynamic volume, which has an ID.
	Namespace     string                  `json:"-" msg:",omitempty"`
	Capabilities  []*HostVolumeCapability `json:"-" msg:",omitempty"`
	CapacityBytes int64                   `json:"-" msg:",omitempty"`
}

// HostNetworkInfo is a named network of a host.
type HostNetworkInfo struct {
	Name          string `msg:",omitempty"`
	CIDR          string `msg:",omitempty"`
	Interface     string `msg:",omitempty"`
	ReservedPorts string `msg:",omitempty"`
}

// NodeEvent is something that happened to a node.
type NodeEvent struct {
	Message     string            `msg:",omitempty"`
	Subsystem   string            `msg:",omitempty"`
	Details     map[string]string `msg:",omitempty"`
	Timestamp   time.Time         `msg:",omitempty"`
	CreateIndex uint64            `msg:",omitempty"`
}

// DrainSpec is the user's specification of a drain. A negative Deadline forces the drain at once, 0 means no deadline.
type DrainSpec struct {
	Deadline         time.Duration `msg:",omitempty"`
	IgnoreSystemJobs bool          `msg:",omitempty"`
}

// DrainStrategy is a running drain.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time `msg:",omitempty"`
	StartedAt     time.Time `msg:",omitempty"`
}

// DrainMetadata records the last drain of a node.
type DrainMetadata struct {
	StartedAt  time.Time         `msg:",omitempty"`
	UpdatedAt  time.Time         `msg:",omitempty"`
	Status     DrainStatus       `msg:",omitempty"`
	AccessorID string            `msg:",omitempty"`
	Meta       map[string]string `msg:",omitempty"`
}

// Address returns the address of the node for services whose port has none; it may be empty.
func (n *Node) Address() string {
	if a := n.Attributes["unique.network.ip-address"]; a != "" {
		return a
	}
	host, _, err := net.SplitHostPort(n.HTTPAddr)
	if err != nil {
		return ""
	}
	return host
}
