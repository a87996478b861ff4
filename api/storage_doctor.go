package api

import "time"

// Severities of a [StorageFinding], from the most to the least urgent.
const (
	// SeverityError means that a user of the volume or plugin fails or waits.
	SeverityError = "error"
	// SeverityWarning means that it works and that an operator should act.
	SeverityWarning = "warning"
	// SeverityInfo explains a state that ends by itself or needs no action.
	SeverityInfo = "info"
)

// StorageFinding is one row of the report of "nomad volume doctor" or "nomad plugin doctor".
type StorageFinding struct {
	// Namespace and VolumeID name the volume; empty in a report about a plugin.
	Namespace string `json:",omitempty" msg:",omitempty"`
	VolumeID  string `json:",omitempty" msg:",omitempty"`
	PluginID  string `json:",omitempty" msg:",omitempty"`
	// Kind identifies the rule, such as "node-lost"; docs/doctor.md lists all.
	Kind     string `msg:",omitempty"`
	Severity string `msg:",omitempty"`
	// Since is the Unix time in nanoseconds at which the state began; 0 means unknown.
	Since int64  `json:",omitempty" msg:",omitempty"`
	Text  string `msg:",omitempty"`
	// AllocID, JobID and NodeID name what holds or needs the volume. TaskState is the client status of the allocation
	// with the states of its tasks.
	AllocID   string `json:",omitempty" msg:",omitempty"`
	JobID     string `json:",omitempty" msg:",omitempty"`
	NodeID    string `json:",omitempty" msg:",omitempty"`
	TaskState string `json:",omitempty" msg:",omitempty"`
	// Next describes what happens without an operator, and NextAt when, in Unix nanoseconds; 0 means unknown.
	Next   string `json:",omitempty" msg:",omitempty"`
	NextAt int64  `json:",omitempty" msg:",omitempty"`
	// Command is the command that helps; empty when none is needed.
	Command string `json:",omitempty" msg:",omitempty"`
	// Repair is what "volume doctor -fix" does, one of the Repair constants; empty when it does nothing.
	Repair string `json:",omitempty" msg:",omitempty"`
}

// Values of [StorageFinding].Repair. None of them can lose data.
const (
	// RepairRetry makes the failed calls of the volume now, without waiting for their next try.
	RepairRetry = "retry"
	// RepairUnmount asks a node to unmount the volume of an allocation that has ended.
	RepairUnmount = "unmount"
	// RepairReconcile releases claims whose allocation has ended or does not exist.
	RepairReconcile = "reconcile"
)

// VolumeDoctorRequest asks for the findings of one volume, or of all volumes of a namespace if ID is empty.
type VolumeDoctorRequest struct {
	ID string `msg:",omitempty"`
	QueryOptions
}

// VolumeDoctorResponse lists findings, the most urgent first. Volumes counts the volumes that were examined; 0 means
// that the requested volume does not exist. Omitted counts the findings beyond the limit of a response.
type VolumeDoctorResponse struct {
	Volumes  int               `msg:",omitempty"`
	Findings []*StorageFinding `msg:",omitempty"`
	Omitted  int               `json:",omitempty" msg:",omitempty"`
	QueryMeta
}

// VolumeRepairRequest runs the repairs of one volume's findings.
type VolumeRepairRequest struct {
	ID string `msg:",omitempty"`
	WriteRequest
}

// VolumeRepairResponse lists the repairs that were made, and the findings that were there before.
type VolumeRepairResponse struct {
	Repairs  []*VolumeRepair   `msg:",omitempty"`
	Findings []*StorageFinding `msg:",omitempty"`
	WriteMeta
}

// VolumeRepair is one repair; Error is empty when it succeeded.
type VolumeRepair struct {
	Repair  string `msg:",omitempty"`
	AllocID string `json:",omitempty" msg:",omitempty"`
	NodeID  string `json:",omitempty" msg:",omitempty"`
	Text    string `msg:",omitempty"`
	Error   string `json:",omitempty" msg:",omitempty"`
}

// PluginInstance is one instance of a CSI plugin on a node: what the servers know of it, and its replies to calls that
// read no volume.
type PluginInstance struct {
	NodeID     string `msg:",omitempty"`
	NodeName   string `msg:",omitempty"`
	NodeStatus string `msg:",omitempty"`
	// Type is controller, node or monolith.
	Type      string `msg:",omitempty"`
	AllocID   string `msg:",omitempty"`
	JobID     string `json:",omitempty" msg:",omitempty"`
	TaskState string `json:",omitempty" msg:",omitempty"`
	// Healthy and HealthDescription are the last report of the node.
	Healthy           bool   `msg:",omitempty"`
	HealthDescription string `json:",omitempty" msg:",omitempty"`
	// Socket is the path of the instance's socket on the node.
	Socket string `json:",omitempty" msg:",omitempty"`
	// Asked is set when the instance was called; Ready, Error, Provider, Version, Capabilities and Took are its replies.
	Asked    bool   `msg:",omitempty"`
	Ready    bool   `msg:",omitempty"`
	Error    string `json:",omitempty" msg:",omitempty"`
	Provider string `json:",omitempty" msg:",omitempty"`
	Version  string `json:",omitempty" msg:",omitempty"`
	// Capabilities are the names of the CSI specification, sorted.
	Capabilities []string `json:",omitempty" msg:",omitempty"`
	// ProviderNodeID is the driver's id of the node.
	ProviderNodeID string `json:",omitempty" msg:",omitempty"`
	// Took is the time of all calls.
	Took time.Duration `json:",omitempty" msg:",omitempty"`
}

// NodePluginProbeRequest asks a node to call its instances of a plugin.
type NodePluginProbeRequest struct {
	PluginID string `msg:",omitempty"`
}

// NodePluginProbeResponse lists the instances with their replies.
type NodePluginProbeResponse struct {
	Instances []*PluginInstance `msg:",omitempty"`
}

// PluginDoctorRequest asks for the report of one CSI plugin, or of all if ID is empty.
type PluginDoctorRequest struct {
	ID string `msg:",omitempty"`
	QueryOptions
}

// PluginDoctorResponse lists the instances by plugin and node, and findings, the most urgent first. Plugins counts the
// plugins; 0 means that the requested plugin does not exist.
type PluginDoctorResponse struct {
	Plugins  int               `msg:",omitempty"`
	Reports  []*PluginReport   `msg:",omitempty"`
	Findings []*StorageFinding `msg:",omitempty"`
	QueryMeta
}

// PluginReport is one CSI plugin with its instances.
type PluginReport struct {
	ID        string            `msg:",omitempty"`
	Instances []*PluginInstance `msg:",omitempty"`
}
