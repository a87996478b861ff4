package api

// QuotaSpec limits what the namespaces that name it may use together.
type QuotaSpec struct {
	Name        string        `hcl:"name" msg:",omitempty"`
	Description string        `hcl:"description" msg:",omitempty"`
	Limits      []*QuotaLimit `hcl:"limit,block" msg:",omitempty"`
	CreateIndex uint64        `msg:",omitempty"`
	ModifyIndex uint64        `msg:",omitempty"`
}

// QuotaLimit is the limit of one region.
type QuotaLimit struct {
	Region      string          `hcl:"region" msg:",omitempty"`
	RegionLimit *QuotaResources `hcl:"region_limit,block" msg:",omitempty"`
	// VariablesLimit is the older name of the limit of variables in RegionLimit.Storage, in MB.
	VariablesLimit *int   `hcl:"variables_limit,optional" msg:",omitempty"`
	Hash           []byte `msg:",omitempty"`
}

// QuotaResources are amounts. In a specification nil and 0 mean no limit, and a negative number permits nothing.
type QuotaResources struct {
	// CPU is in MHz.
	CPU         *int                   `hcl:"cpu,optional" msg:",omitempty"`
	Cores       *int                   `hcl:"cores,optional" msg:",omitempty"`
	MemoryMB    *int                   `hcl:"memory,optional" msg:",omitempty"`
	MemoryMaxMB *int                   `hcl:"memory_max,optional" msg:",omitempty"`
	Devices     []*RequestedDevice     `hcl:"device,block" msg:",omitempty"`
	NUMA        *NUMAResource          `hcl:"numa,block" msg:",omitempty"`
	SecretsMB   *int                   `hcl:"secrets,optional" msg:",omitempty"`
	Storage     *QuotaStorageResources `hcl:"storage,block" msg:",omitempty"`
	NodePools   []*NodePoolLimit       `hcl:"node_pool,block" msg:",omitempty"`
}

// QuotaStorageResources are amounts of storage. In a specification 0 means no limit, and a negative number permits nothing.
type QuotaStorageResources struct {
	// VariablesMB is the size of the encrypted items of variables.
	VariablesMB   int `hcl:"variables,optional" msg:",omitempty"`
	HostVolumesMB int `hcl:"host_volumes,optional" msg:",omitempty"`
	// Volumes counts CSI volumes, VolumesMB is their capacity together.
	Volumes   int `hcl:"volumes,optional" msg:",omitempty"`
	VolumesMB int `hcl:"volumes_mb,optional" msg:",omitempty"`
}

// NodePoolLimit is the limit of one node pool.
type NodePoolLimit struct {
	NodePool    string                 `hcl:",label" msg:",omitempty"`
	CPU         *int                   `hcl:"cpu,optional" msg:",omitempty"`
	Cores       *int                   `hcl:"cores,optional" msg:",omitempty"`
	MemoryMB    *int                   `hcl:"memory,optional" msg:",omitempty"`
	MemoryMaxMB *int                   `hcl:"memory_max,optional" msg:",omitempty"`
	Devices     []*RequestedDevice     `hcl:"device,block" msg:",omitempty"`
	NUMA        *NUMAResource          `hcl:"numa,block" msg:",omitempty"`
	SecretsMB   *int                   `hcl:"secrets,optional" msg:",omitempty"`
	Storage     *QuotaStorageResources `hcl:"storage,block" msg:",omitempty"`
}

// QuotaUsage is what the namespaces of a quota use now. Used has one entry per limit.
type QuotaUsage struct {
	Name        string                 `msg:",omitempty"`
	Used        map[string]*QuotaLimit `msg:",omitempty"`
	CreateIndex uint64                 `msg:",omitempty"`
	ModifyIndex uint64                 `msg:",omitempty"`
}

// QuotaListResponse lists quotas.
type QuotaListResponse struct {
	Quotas []*QuotaSpec `msg:",omitempty"`
	QueryMeta
}

// QuotaResponse holds one quota; nil when it does not exist.
type QuotaResponse struct {
	Quota *QuotaSpec `msg:",omitempty"`
	QueryMeta
}

// QuotaUsageListResponse lists the usage of quotas.
type QuotaUsageListResponse struct {
	Usages []*QuotaUsage `msg:",omitempty"`
	QueryMeta
}

// QuotaUsageResponse holds the usage of one quota; nil when it does not exist.
type QuotaUsageResponse struct {
	Usage *QuotaUsage `msg:",omitempty"`
	QueryMeta
}

// QuotaUpsertRequest creates or updates a quota.
type QuotaUpsertRequest struct {
	Quota *QuotaSpec `msg:",omitempty"`
	WriteRequest
}
