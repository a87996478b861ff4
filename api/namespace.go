package api

// Namespace groups jobs and volumes.
type Namespace struct {
	Name                  string                          `hcl:"name" msg:",omitempty"`
	Description           string                          `hcl:"description" msg:",omitempty"`
	Quota                 string                          `hcl:"quota" msg:",omitempty"`
	Capabilities          *NamespaceCapabilities          `hcl:"capabilities,block" msg:",omitempty"`
	NodePoolConfiguration *NamespaceNodePoolConfiguration `hcl:"node_pool_config,block" msg:",omitempty"`
	VaultConfiguration    *NamespaceVaultConfiguration    `hcl:"vault,block" msg:",omitempty"`
	ConsulConfiguration   *NamespaceConsulConfiguration   `hcl:"consul,block" msg:",omitempty"`
	Meta                  map[string]string               `hcl:"meta" msg:",omitempty"`
	CreateIndex           uint64                          `msg:",omitempty"`
	ModifyIndex           uint64                          `msg:",omitempty"`
	// RequiredExtraClaims are templates of claims that all workload identities of the namespace have.
	RequiredExtraClaims map[string]string `hcl:"required_extra_claims" msg:",omitempty"`
	// OptionalExtraClaims are templates of claims that identities may name.
	OptionalExtraClaims map[string]string `hcl:"optional_extra_claims" msg:",omitempty"`
}

// NamespaceCapabilities limits what jobs of a namespace may use.
type NamespaceCapabilities struct {
	EnabledTaskDrivers   []string `hcl:"enabled_task_drivers" msg:",omitempty"`
	DisabledTaskDrivers  []string `hcl:"disabled_task_drivers" msg:",omitempty"`
	EnabledNetworkModes  []string `hcl:"enabled_network_modes" msg:",omitempty"`
	DisabledNetworkModes []string `hcl:"disabled_network_modes" msg:",omitempty"`
}

// NamespaceNodePoolConfiguration limits the node pools of a namespace.
type NamespaceNodePoolConfiguration struct {
	Default string   `hcl:"default" msg:",omitempty"`
	Allowed []string `hcl:"allowed" msg:",omitempty"`
	Denied  []string `hcl:"denied" msg:",omitempty"`
}

// NamespaceVaultConfiguration limits the Vault clusters of a namespace.
type NamespaceVaultConfiguration struct {
	Default string   `hcl:"default" msg:",omitempty"`
	Allowed []string `hcl:"allowed" msg:",omitempty"`
	Denied  []string `hcl:"denied" msg:",omitempty"`
}

// NamespaceConsulConfiguration limits the Consul clusters of a namespace.
type NamespaceConsulConfiguration struct {
	Default string   `hcl:"default" msg:",omitempty"`
	Allowed []string `hcl:"allowed" msg:",omitempty"`
	Denied  []string `hcl:"denied" msg:",omitempty"`
}
