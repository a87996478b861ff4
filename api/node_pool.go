package api

import "time"

// NodePool is a named set of nodes.
type NodePool struct {
	Name                   string                          `hcl:"name,label" msg:",omitempty"`
	Description            string                          `hcl:"description,optional" msg:",omitempty"`
	Meta                   map[string]string               `hcl:"meta,block" msg:",omitempty"`
	NodeIdentityTTL        time.Duration                   `hcl:"node_identity_ttl,optional" msg:",omitempty"`
	SchedulerConfiguration *NodePoolSchedulerConfiguration `hcl:"scheduler_config,block" msg:",omitempty"`
	CreateIndex            uint64                          `msg:",omitempty"`
	ModifyIndex            uint64                          `msg:",omitempty"`
}

// NodePoolSchedulerConfiguration overrides scheduling options in a pool.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm `hcl:"scheduler_algorithm,optional" msg:",omitempty"`
	MemoryOversubscriptionEnabled bool               `hcl:"memory_oversubscription_enabled,optional" msg:",omitempty"`
}
