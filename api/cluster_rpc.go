package api

// StatusLeaderResponse contains the RPC address of the leader; empty when the responding server has no leader.
type StatusLeaderResponse struct {
	Leader string `msg:",omitempty"`
	// Server is the id of the responding server.
	Server string `msg:",omitempty"`
	// Voters are the newest voters in its log. Unsettled is set while their entry is not known to be committed.
	Voters    *Voters `msg:",omitempty"`
	Unsettled bool    `msg:",omitempty"`
}

// StatusPeersResponse lists the RPC addresses of the Raft peers.
type StatusPeersResponse struct {
	Peers []string `msg:",omitempty"`
}

// NamespaceListResponse lists namespaces.
type NamespaceListResponse struct {
	Namespaces []*Namespace `msg:",omitempty"`
	QueryMeta
}

// NameRequest names one object of a kind: a namespace, a node pool.
type NameRequest struct {
	Name string `msg:",omitempty"`
	QueryOptions
}

// NamespaceGetResponse holds one namespace; nil when it does not exist.
type NamespaceGetResponse struct {
	Namespace *Namespace `msg:",omitempty"`
	QueryMeta
}

// NamespaceUpsertRequest creates or updates a namespace.
type NamespaceUpsertRequest struct {
	Spec *Namespace `msg:",omitempty"`
	WriteRequest
}

// NameWriteRequest deletes one object of a kind by name.
type NameWriteRequest struct {
	Name string `msg:",omitempty"`
	WriteRequest
}

// NodePoolListResponse lists node pools.
type NodePoolListResponse struct {
	Pools []*NodePool `msg:",omitempty"`
	QueryMeta
}

// NodePoolGetResponse holds one node pool; nil when it does not exist.
type NodePoolGetResponse struct {
	Pool *NodePool `msg:",omitempty"`
	QueryMeta
}

// NodePoolUpsertRequest creates or updates a node pool.
type NodePoolUpsertRequest struct {
	Spec *NodePool `msg:",omitempty"`
	WriteRequest
}

// SchedulerConfigResponse holds the scheduling configuration.
type SchedulerConfigResponse struct {
	SchedulerConfig *SchedulerConfiguration `msg:",omitempty"`
	QueryMeta
}

// SchedulerConfigRequest writes the scheduling configuration; with CAS only if its ModifyIndex is current.
type SchedulerConfigRequest struct {
	Config *SchedulerConfiguration `msg:",omitempty"`
	CAS    bool                    `msg:",omitempty"`
	WriteRequest
}

// SchedulerConfigWriteResponse reports whether the configuration was written.
type SchedulerConfigWriteResponse struct {
	Updated bool `msg:",omitempty"`
	WriteMeta
}

// RaftConfigurationResponse lists the Raft peers.
type RaftConfigurationResponse struct {
	Configuration *RaftConfiguration `msg:",omitempty"`
}

// MembersResponse lists the servers.
type MembersResponse struct {
	Members []*AgentMember `msg:",omitempty"`
}
