package api

import "time"

// NodeRegisterRequest registers a node or updates its fingerprint.
type NodeRegisterRequest struct {
	Node *Node `msg:",omitempty"`
	// Rollback is the newest mark of a [NodeUpdateResponse] that the node had received before it listed its mounts;
	// [RollbackUnseen] before the first one; 0 from an agent without support for marks.
	Rollback int64 `msg:",omitempty"`
	// Process identifies the process of the agent. Number grows with each of its registrations: late ones are ignored.
	Process string `msg:",omitempty"`
	Number  uint64 `msg:",omitempty"`
	// Identity is the newest signed identity of the node, which may have expired; empty for a node without one.
	Identity string `json:"-" msg:",omitempty" secret:"true"`
	// Introduction is the token of [NodeIntroductionResponse] for a node without an identity.
	Introduction string `json:"-" msg:",omitempty" secret:"true"`
	WriteRequest
}

// RollbackUnseen is the mark of a node that has received none.
const RollbackUnseen int64 = 1

// NodeHeartbeatRequest is a heartbeat with the status of a node. Process is that of [NodeRegisterRequest], Number
// grows with each of its heartbeats: late ones are rejected.
type NodeHeartbeatRequest struct {
	NodeID     string       `msg:",omitempty"`
	NodeSecret string       `msg:",omitempty" secret:"true"`
	Status     string       `msg:",omitempty"`
	Events     []*NodeEvent `msg:",omitempty"`
	Process    string       `msg:",omitempty"`
	Number     uint64       `msg:",omitempty"`
	// RenewIdentity requests a new identity before it is due.
	RenewIdentity bool `msg:",omitempty"`
	WriteRequest
}

// NodeUpdateResponse is the response to a registration or heartbeat.
type NodeUpdateResponse struct {
	HeartbeatTTL time.Duration `msg:",omitempty"`
	EvalIDs      []string      `msg:",omitempty"`
	// Servers lists the RPC addresses of the servers.
	Servers []string `msg:",omitempty"`
	// Voters are the voters of a committed entry of the raft log; nil when the leader has none at this time.
	Voters *Voters `msg:",omitempty"`
	// Held is set when the node requested the status ready and did not get it: volumes may still be mounted on it for
	// allocations that ended while it was lost. The node retries soon.
	Held bool `msg:",omitempty"`
	// Rollback is the mark of a restore of an older state; 0 for none. If set, the registration was ignored, because it
	// may have been built before the restore: the node lists its mounts and registers again with the mark.
	Rollback int64 `msg:",omitempty"`
	// Late is set when the registration was ignored: the servers have a newer one, or one of a later process of the
	// agent. The process then takes another name and registers again.
	Late bool `msg:",omitempty"`
	// Identity is a new signed identity, which replaces the node's own; empty when that is not due for renewal.
	Identity string `json:"-" msg:",omitempty" secret:"true"`
	WriteMeta
}

// NodeAssignmentsRequest requests the allocations of a node. Known maps the ids of the
// node's allocations to their AllocModifyIndex. With the Line of an earlier response Known may be empty: Newest, the
// highest AllocModifyIndex on the node, and Count, its number of allocations, suffice.
type NodeAssignmentsRequest struct {
	NodeID     string            `msg:",omitempty"`
	NodeSecret string            `msg:",omitempty" secret:"true"`
	Known      map[string]uint64 `msg:",omitempty"`
	Line       uint64            `msg:",omitempty"`
	Newest     uint64            `msg:",omitempty"`
	Count      int               `msg:",omitempty"`
	QueryOptions
}

// NodeAssignmentsResponse lists the ids of all allocations of the node and contains the allocations that differ from
// Known, with their jobs. With Kept no allocation of the node was removed, and the ids are omitted. Line is for the
// next request.
type NodeAssignmentsResponse struct {
	Assigned []string      `msg:",omitempty"`
	Kept     bool          `msg:",omitempty"`
	Changed  []*Allocation `msg:",omitempty"`
	Line     uint64        `msg:",omitempty"`
	QueryMeta
}

// AllocUpdateRequest reports the client half of allocations. Process is that of [NodeRegisterRequest], Number grows with
// each of its reports: late ones are ignored.
type AllocUpdateRequest struct {
	NodeID     string        `msg:",omitempty"`
	NodeSecret string        `msg:",omitempty" secret:"true"`
	Allocs     []*Allocation `msg:",omitempty"`
	Process    string        `msg:",omitempty"`
	Number     uint64        `msg:",omitempty"`
	WriteRequest
}

// NodeListRequest lists nodes; Resources adds their resources, OS their attributes' os.name.
type NodeListRequest struct {
	NodePool  string `msg:",omitempty"`
	Resources bool   `msg:",omitempty"`
	OS        bool   `msg:",omitempty"`
	QueryOptions
}

// NodeListResponse lists nodes.
type NodeListResponse struct {
	Nodes []*NodeStub `msg:",omitempty"`
	QueryMeta
}

// NodeRequest names one node.
type NodeRequest struct {
	NodeID string `msg:",omitempty"`
	QueryOptions
}

// NodeGetResponse holds one node; Node is nil when it does not exist.
type NodeGetResponse struct {
	Node *Node `msg:",omitempty"`
	QueryMeta
}

// NodeEligibilityRequest makes a node eligible or ineligible for new placements.
type NodeEligibilityRequest struct {
	NodeID      string `msg:",omitempty"`
	Eligibility string `msg:",omitempty"`
	WriteRequest
}

// NodeDrainRequest starts a drain, or ends it when DrainSpec is nil.
type NodeDrainRequest struct {
	NodeID       string            `msg:",omitempty"`
	DrainSpec    *DrainSpec        `msg:",omitempty"`
	MarkEligible bool              `msg:",omitempty"`
	Meta         map[string]string `msg:",omitempty"`
	WriteRequest
}

// NodeWriteRequest evaluates or purges one node.
type NodeWriteRequest struct {
	NodeID string `msg:",omitempty"`
	WriteRequest
}

// NodeWriteResponse is the response to a write on a node.
type NodeWriteResponse struct {
	NodeModifyIndex uint64   `msg:",omitempty"`
	EvalIDs         []string `msg:",omitempty"`
	EvalCreateIndex uint64   `msg:",omitempty"`
	WriteMeta
}
