package api

import "time"

// NodeRegisterRequest registers a node or updates its fingerprint.
type NodeRegisterRequest struct {
	Node *Node `msg:",omitempty"`
	// Rollback is the newest mark of [NodeUpdateResponse] that the node had seen before it looked at what it has
	// mounted, [RollbackUnseen] before any; 0 of an agent that knows of none.
	Rollback int64 `msg:",omitempty"`
	// Process names the process of the agent, Number grows with each registration of it: what comes late is not taken.
	Process string `msg:",omitempty"`
	Number  uint64 `msg:",omitempty"`
	WriteRequest
}

// RollbackUnseen is the mark of a node that has seen none.
const RollbackUnseen int64 = 1

// NodeHeartbeatRequest is a heartbeat with the status of a node. Process is that of [NodeRegisterRequest], Number
// grows with each heartbeat of it: a late one is refused.
type NodeHeartbeatRequest struct {
	NodeID     string       `msg:",omitempty"`
	NodeSecret string       `msg:",omitempty"`
	Status     string       `msg:",omitempty"`
	Events     []*NodeEvent `msg:",omitempty"`
	Process    string       `msg:",omitempty"`
	Number     uint64       `msg:",omitempty"`
	WriteRequest
}

// NodeUpdateResponse is the answer to a registration or heartbeat.
type NodeUpdateResponse struct {
	HeartbeatTTL time.Duration `msg:",omitempty"`
	EvalIDs      []string      `msg:",omitempty"`
	// Servers lists the RPC addresses of the servers.
	Servers []string `msg:",omitempty"`
	// Voters are those of the raft log, as of an entry that is committed; nil when the leader does not know now.
	Voters *Voters `msg:",omitempty"`
	// Held says that the node asked to be ready and is not: volumes may still be mounted on it for allocations
	// that ended while it was lost. It asks again soon.
	Held bool `msg:",omitempty"`
	// Rollback, when it is set, is the mark of an older state that was restored. Nothing was taken of the registration,
	// which may have been built before that: the node looks at what it has mounted, and registers again with the mark.
	Rollback int64 `msg:",omitempty"`
	// Late says that nothing was taken of the registration: the servers have a newer one, or one of a later process of
	// the agent. A process that hears it goes by another name from then on, and registers again.
	Late bool `msg:",omitempty"`
	WriteMeta
}

// NodeAssignmentsRequest requests the allocations of a node. Known is what the node has:
// allocation id to AllocModifyIndex. With the Line of an earlier answer it need not be there: Newest, the
// highest AllocModifyIndex that the node has, and Count, how many allocations it has, are enough.
type NodeAssignmentsRequest struct {
	NodeID     string            `msg:",omitempty"`
	NodeSecret string            `msg:",omitempty"`
	Known      map[string]uint64 `msg:",omitempty"`
	Line       uint64            `msg:",omitempty"`
	Newest     uint64            `msg:",omitempty"`
	Count      int               `msg:",omitempty"`
	QueryOptions
}

// NodeAssignmentsResponse lists the ids of all allocations of the node and, whole and with
// their jobs, those that differ from what the node knows. With Kept nothing was forgotten that the node knows,
// and the ids are left out. Line goes into the next request.
type NodeAssignmentsResponse struct {
	Assigned []string      `msg:",omitempty"`
	Kept     bool          `msg:",omitempty"`
	Changed  []*Allocation `msg:",omitempty"`
	Line     uint64        `msg:",omitempty"`
	QueryMeta
}

// AllocUpdateRequest reports the client half of allocations. Process is that of [NodeRegisterRequest], Number grows with
// each report of it: what comes late is not taken.
type AllocUpdateRequest struct {
	NodeID     string        `msg:",omitempty"`
	NodeSecret string        `msg:",omitempty"`
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

// NodeWriteResponse is the answer to a write on a node.
type NodeWriteResponse struct {
	NodeModifyIndex uint64   `msg:",omitempty"`
	EvalIDs         []string `msg:",omitempty"`
	EvalCreateIndex uint64   `msg:",omitempty"`
	WriteMeta
}
