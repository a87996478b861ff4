package api

import "time"

// The address modes of services that stand for the network of the allocation.
const (
	AddressModeAlloc  = "alloc"
	AddressModeAlloc6 = "alloc_ipv6"
)

// Service is a service that a group or task offers.
type Service struct {
	Name              string            `hcl:"name,optional" msg:",omitempty"`
	Tags              []string          `hcl:"tags,optional" msg:",omitempty"`
	CanaryTags        []string          `hcl:"canary_tags,optional" msg:",omitempty"`
	EnableTagOverride bool              `hcl:"enable_tag_override,optional" msg:",omitempty"`
	PortLabel         string            `hcl:"port,optional" msg:",omitempty"`
	AddressMode       string            `hcl:"address_mode,optional" msg:",omitempty"`
	Address           string            `hcl:"address,optional" msg:",omitempty"`
	Checks            []ServiceCheck    `hcl:"check,block" msg:",omitempty"`
	CheckRestart      *CheckRestart     `hcl:"check_restart,block" msg:",omitempty"`
	Connect           *ConsulConnect    `hcl:"connect,block" msg:",omitempty"`
	Meta              map[string]string `hcl:"meta,block" msg:",omitempty"`
	CanaryMeta        map[string]string `hcl:"canary_meta,block" msg:",omitempty"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses,block" msg:",omitempty"`
	TaskName          string            `hcl:"task,optional" msg:",omitempty"`
	OnUpdate          string            `hcl:"on_update,optional" msg:",omitempty"`
	Identity          *WorkloadIdentity `hcl:"identity,block" msg:",omitempty"`
	Weights           *ServiceWeights   `hcl:"weights,block" msg:",omitempty"`
	Provider          string            `hcl:"provider,optional" msg:",omitempty"`
	Cluster           string            `hcl:"cluster,optional" msg:",omitempty"`
	Kind              string            `hcl:"kind,optional" msg:",omitempty"`
}

// ServiceCheck probes a service.
type ServiceCheck struct {
	Name                   string              `hcl:"name,optional" msg:",omitempty"`
	Type                   string              `hcl:"type,optional" msg:",omitempty"`
	Command                string              `hcl:"command,optional" msg:",omitempty"`
	Args                   []string            `hcl:"args,optional" msg:",omitempty"`
	Path                   string              `hcl:"path,optional" msg:",omitempty"`
	Protocol               string              `hcl:"protocol,optional" msg:",omitempty"`
	PortLabel              string              `hcl:"port,optional" msg:",omitempty"`
	Expose                 bool                `hcl:"expose,optional" msg:",omitempty"`
	AddressMode            string              `hcl:"address_mode,optional" msg:",omitempty"`
	Advertise              string              `hcl:"advertise,optional" msg:",omitempty"`
	Interval               time.Duration       `hcl:"interval,optional" msg:",omitempty"`
	Timeout                time.Duration       `hcl:"timeout,optional" msg:",omitempty"`
	InitialStatus          string              `hcl:"initial_status,optional" msg:",omitempty"`
	Notes                  string              `hcl:"notes,optional" msg:",omitempty"`
	TLSServerName          string              `hcl:"tls_server_name,optional" msg:",omitempty"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify,optional" msg:",omitempty"`
	Header                 map[string][]string `hcl:"header,block" msg:",omitempty"`
	Method                 string              `hcl:"method,optional" msg:",omitempty"`
	CheckRestart           *CheckRestart       `hcl:"check_restart,block" msg:",omitempty"`
	GRPCService            string              `hcl:"grpc_service,optional" msg:",omitempty"`
	GRPCUseTLS             bool                `hcl:"grpc_use_tls,optional" msg:",omitempty"`
	TaskName               string              `hcl:"task,optional" msg:",omitempty"`
	SuccessBeforePassing   int                 `hcl:"success_before_passing,optional" msg:",omitempty"`
	FailuresBeforeCritical int                 `hcl:"failures_before_critical,optional" msg:",omitempty"`
	FailuresBeforeWarning  int                 `hcl:"failures_before_warning,optional" msg:",omitempty"`
	Body                   string              `hcl:"body,optional" msg:",omitempty"`
	OnUpdate               string              `hcl:"on_update,optional" msg:",omitempty"`
}

// CheckRestart configures when failing checks restart a task.
type CheckRestart struct {
	Limit          int           `hcl:"limit,optional" msg:",omitempty"`
	Grace          time.Duration `hcl:"grace,optional" msg:",omitempty"`
	IgnoreWarnings bool          `hcl:"ignore_warnings,optional" msg:",omitempty"`
}

// ServiceWeights are the weights of a service in DNS responses.
type ServiceWeights struct {
	Passing int `hcl:"passing,optional" msg:",omitempty"`
	Warning int `hcl:"warning,optional" msg:",omitempty"`
}
