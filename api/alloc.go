package api

import "time"

// Allocation is one instance of a task group, placed on a node. The servers write the desired half, the node the client half.
type Allocation struct {
	ID                    string                 `msg:",omitempty"`
	Namespace             string                 `msg:",omitempty"`
	EvalID                string                 `msg:",omitempty"`
	Name                  string                 `msg:",omitempty"`
	NodeID                string                 `msg:",omitempty"`
	NodeName              string                 `msg:",omitempty"`
	JobID                 string                 `msg:",omitempty"`
	Job                   *Job                   `msg:",omitempty"`
	TaskGroup             string                 `msg:",omitempty"`
	AllocatedResources    *AllocatedResources    `msg:",omitempty"`
	Metrics               *AllocationMetric      `msg:",omitempty"`
	DesiredStatus         string                 `msg:",omitempty"`
	DesiredDescription    string                 `msg:",omitempty"`
	DesiredTransition     DesiredTransition      `msg:",omitempty"`
	ClientStatus          string                 `msg:",omitempty"`
	ClientDescription     string                 `msg:",omitempty"`
	TaskStates            map[string]*TaskState  `msg:",omitempty"`
	DeploymentID          string                 `msg:",omitempty"`
	DeploymentStatus      *AllocDeploymentStatus `msg:",omitempty"`
	FollowupEvalID        string                 `msg:",omitempty"`
	PreviousAllocation    string                 `msg:",omitempty"`
	NextAllocation        string                 `msg:",omitempty"`
	RescheduleTracker     *RescheduleTracker     `msg:",omitempty"`
	NetworkStatus         *AllocNetworkStatus    `msg:",omitempty"`
	PreemptedAllocations  []string               `msg:",omitempty"`
	PreemptedByAllocation string                 `msg:",omitempty"`
	CreateIndex           uint64                 `msg:",omitempty"`
	ModifyIndex           uint64                 `msg:",omitempty"`
	AllocModifyIndex      uint64                 `msg:",omitempty"`
	CreateTime            int64                  `msg:",omitempty"`
	ModifyTime            int64                  `msg:",omitempty"`
	AllocStates           []*AllocState          `msg:",omitempty"`
	SharedResources       *Resources             `json:"-" msg:",omitempty"`
	// ReportProcess and ReportNumber are those of the node's newest report on it, see [AllocUpdateRequest].
	ReportProcess string `json:"-" msg:",omitempty"`
	ReportNumber  uint64 `json:"-" msg:",omitempty"`
}

// AllocStub is the row of an allocation in lists.
type AllocStub struct {
	ID                    string                 `msg:",omitempty"`
	EvalID                string                 `msg:",omitempty"`
	Name                  string                 `msg:",omitempty"`
	Namespace             string                 `msg:",omitempty"`
	NodeID                string                 `msg:",omitempty"`
	NodeName              string                 `msg:",omitempty"`
	JobID                 string                 `msg:",omitempty"`
	JobType               string                 `msg:",omitempty"`
	JobVersion            uint64                 `msg:",omitempty"`
	TaskGroup             string                 `msg:",omitempty"`
	AllocatedResources    *AllocatedResources    `json:",omitempty" msg:",omitempty"`
	DesiredStatus         string                 `msg:",omitempty"`
	DesiredDescription    string                 `msg:",omitempty"`
	DesiredTransition     DesiredTransition      `msg:",omitzero"`
	ClientStatus          string                 `msg:",omitempty"`
	ClientDescription     string                 `msg:",omitempty"`
	TaskStates            map[string]*TaskState  `msg:",omitempty"`
	DeploymentStatus      *AllocDeploymentStatus `msg:",omitempty"`
	FollowupEvalID        string                 `msg:",omitempty"`
	NextAllocation        string                 `msg:",omitempty"`
	RescheduleTracker     *RescheduleTracker     `msg:",omitempty"`
	PreemptedAllocations  []string               `msg:",omitempty"`
	PreemptedByAllocation string                 `msg:",omitempty"`
	CreateIndex           uint64                 `msg:",omitempty"`
	ModifyIndex           uint64                 `msg:",omitempty"`
	CreateTime            int64                  `msg:",omitempty"`
	ModifyTime            int64                  `msg:",omitempty"`
}

// AllocatedResources is what the scheduler gave to an allocation: per task and shared by the group.
type AllocatedResources struct {
	Tasks  map[string]*AllocatedTaskResources `msg:",omitempty"`
	Shared AllocatedSharedResources           `msg:",omitempty"`
}

// AllocatedTaskResources is what the scheduler gave to one task.
type AllocatedTaskResources struct {
	Cpu      AllocatedCpuResources
	Memory   AllocatedMemoryResources   `msg:",omitempty"`
	Networks []*NetworkResource         `msg:",omitempty"`
	Devices  []*AllocatedDeviceResource `msg:",omitempty"`
}

// AllocatedSharedResources is what the tasks of a group share: disk and ports.
type AllocatedSharedResources struct {
	DiskMB   int64              `msg:",omitempty"`
	Networks []*NetworkResource `msg:",omitempty"`
	Ports    []PortMapping      `msg:",omitempty"`
}

// AllocatedCpuResources is the processor share of a task in MHz. ReservedCores are for the task alone.
type AllocatedCpuResources struct {
	CpuShares     int64    `msg:",omitempty"`
	ReservedCores []uint16 `msg:",omitempty"`
}

// AllocatedMemoryResources is the memory of a task in MiB; MemoryMaxMB = 0 means no oversubscription.
type AllocatedMemoryResources struct {
	MemoryMB    int64 `msg:",omitempty"`
	MemoryMaxMB int64 `msg:",omitempty"`
}

// AllocatedDeviceResource names the device instances given to a task.
type AllocatedDeviceResource struct {
	Vendor    string   `msg:",omitempty"`
	Type      string   `msg:",omitempty"`
	Name      string   `msg:",omitempty"`
	DeviceIDs []string `msg:",omitempty"`
}

// PortMapping is a port given to an allocation.
type PortMapping struct {
	Label  string `msg:",omitempty"`
	Value  int    `msg:",omitempty"`
	To     int    `msg:",omitempty"`
	HostIP string `msg:",omitempty"`
}

// AllocNetworkStatus is the network that an allocation with its own network namespace got.
type AllocNetworkStatus struct {
	InterfaceName string     `msg:",omitempty"`
	Address       string     `msg:",omitempty"`
	AddressIPv6   string     `msg:",omitempty"`
	DNS           *DNSConfig `msg:",omitempty"`
}

// AllocDeploymentStatus is what the node found about the health of an allocation of a deployment; nil Healthy means not yet decided.
type AllocDeploymentStatus struct {
	Healthy     *bool     `msg:",omitempty"`
	Timestamp   time.Time `msg:",omitempty"`
	Canary      bool      `msg:",omitempty"`
	ModifyIndex uint64    `msg:",omitempty"`
}

// AllocationMetric explains how a placement came about or why it failed.
type AllocationMetric struct {
	NodesEvaluated     int                   `msg:",omitempty"`
	NodesFiltered      int                   `msg:",omitempty"`
	NodesInPool        int                   `msg:",omitempty"`
	NodePool           string                `msg:",omitempty"`
	NodesAvailable     map[string]int        `msg:",omitempty"`
	ClassFiltered      map[string]int        `msg:",omitempty"`
	ConstraintFiltered map[string]int        `msg:",omitempty"`
	NodesExhausted     int                   `msg:",omitempty"`
	ClassExhausted     map[string]int        `msg:",omitempty"`
	DimensionExhausted map[string]int        `msg:",omitempty"`
	QuotaExhausted     []string              `msg:",omitempty"`
	ResourcesExhausted map[string]*Resources `msg:",omitempty"`
	Scores             map[string]float64    `msg:",omitempty"`
	AllocationTime     time.Duration         `msg:",omitempty"`
	CoalescedFailures  int                   `msg:",omitempty"`
	ScoreMetaData      []*NodeScoreMeta      `msg:",omitempty"`
}

// NodeScoreMeta is the score of one node in a placement.
type NodeScoreMeta struct {
	NodeID    string             `msg:",omitempty"`
	Scores    map[string]float64 `msg:",omitempty"`
	NormScore float64            `msg:",omitempty"`
}

// DesiredTransition is what the servers ask of a running allocation at the next evaluation.
type DesiredTransition struct {
	Migrate                 bool `msg:",omitempty"`
	Reschedule              bool `msg:",omitempty"`
	ForceReschedule         bool `msg:",omitempty"`
	NoShutdownDelay         bool `msg:",omitempty"`
	MigrateDisablePlacement bool `msg:",omitempty"`
}

// IsZero reports whether nothing is requested; it is then omitted in rows and log entries.
func (d DesiredTransition) IsZero() bool { return d == DesiredTransition{} }

// RescheduleTracker is the history of a rescheduled allocation.
type RescheduleTracker struct {
	Events         []*RescheduleEvent `msg:",omitempty"`
	LastReschedule string             `msg:",omitempty"`
}

// RescheduleEvent is one earlier attempt of a rescheduled allocation; times in Unix nanoseconds.
type RescheduleEvent struct {
	RescheduleTime int64  `msg:",omitempty"`
	PrevAllocID    string `msg:",omitempty"`
	PrevNodeID     string `msg:",omitempty"`
}
