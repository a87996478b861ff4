package api

// Resources are the resources that a task requests: CPU in MHz, memory and disk in MiB.
type Resources struct {
	CPU         int                `hcl:"cpu,optional" msg:",omitempty"`
	Cores       int                `hcl:"cores,optional" msg:",omitempty"`
	MemoryMB    int                `hcl:"memory,optional" msg:",omitempty"`
	MemoryMaxMB int                `hcl:"memory_max,optional" msg:",omitempty"`
	DiskMB      int                `hcl:"disk,optional" msg:",omitempty"`
	Networks    []*NetworkResource `hcl:"network,block" msg:",omitempty"`
	Devices     []*RequestedDevice `hcl:"device,block" msg:",omitempty"`
	NUMA        *NUMAResource      `hcl:"numa,block" msg:",omitempty"`
	SecretsMB   int                `hcl:"secrets,optional" msg:",omitempty"`
	IOPS        int                `hcl:"iops,optional" msg:",omitempty"`
}

// NetworkResource is a network that a group requests, or that a node or an allocation has.
type NetworkResource struct {
	Mode          string     `hcl:"mode,optional" msg:",omitempty"`
	Device        string     `hcl:"device,optional" msg:",omitempty"`
	CIDR          string     `hcl:"cidr,optional" msg:",omitempty"`
	IP            string     `hcl:"ip,optional" msg:",omitempty"`
	DNS           *DNSConfig `hcl:"dns,block" msg:",omitempty"`
	ReservedPorts []Port     `hcl:"reserved_ports,block" msg:",omitempty"`
	DynamicPorts  []Port     `hcl:"port,block" msg:",omitempty"`
	Hostname      string     `hcl:"hostname,optional" msg:",omitempty"`
	MBits         int        `hcl:"mbits,optional" msg:",omitempty"`
	CNI           *CNIConfig `hcl:"cni,block" msg:",omitempty"`
}

// Port is a requested port: Value 0 means dynamic; To is the port inside the task's network.
type Port struct {
	Label           string `hcl:",label" msg:",omitempty"`
	Value           int    `hcl:"static,optional" msg:",omitempty"`
	To              int    `hcl:"to,optional" msg:",omitempty"`
	HostNetwork     string `hcl:"host_network,optional" msg:",omitempty"`
	IgnoreCollision bool   `hcl:"ignore_collision,optional" msg:",omitempty"`
}

// DNSConfig is the resolver configuration of a network.
type DNSConfig struct {
	Servers  []string `hcl:"servers,optional" msg:",omitempty"`
	Searches []string `hcl:"searches,optional" msg:",omitempty"`
	Options  []string `hcl:"options,optional" msg:",omitempty"`
}

// CNIConfig passes arguments to CNI plugins.
type CNIConfig struct {
	Args map[string]string `hcl:"args,optional" msg:",omitempty"`
}

// RequestedDevice is a requested device.
type RequestedDevice struct {
	Name        string        `hcl:",label" msg:",omitempty"`
	Count       uint64        `hcl:"count,optional" msg:",omitempty"`
	Constraints []*Constraint `hcl:"constraint,block" msg:",omitempty"`
	Affinities  []*Affinity   `hcl:"affinity,block" msg:",omitempty"`
}

// NUMAResource is a task's requested memory locality.
type NUMAResource struct {
	Affinity string   `hcl:"affinity,optional" msg:",omitempty"`
	Devices  []string `hcl:"devices,optional" msg:",omitempty"`
}

// NodeDeviceResource is a group of equal devices of a node.
type NodeDeviceResource struct {
	Vendor     string                `msg:",omitempty"`
	Type       string                `msg:",omitempty"`
	Name       string                `msg:",omitempty"`
	Instances  []*NodeDevice         `msg:",omitempty"`
	Attributes map[string]*Attribute `msg:",omitempty"`
}

// NodeDevice is one instance of a device.
type NodeDevice struct {
	ID                string              `msg:",omitempty"`
	Healthy           bool                `msg:",omitempty"`
	HealthDescription string              `msg:",omitempty"`
	Locality          *NodeDeviceLocality `msg:",omitempty"`
}

// NodeDeviceLocality is where a device is attached.
type NodeDeviceLocality struct {
	PciBusID string `msg:",omitempty"`
}

// Attribute is a typed value of a device: at most one of the values is set. They are pointers
// because 0, false and the empty text are values of their kind.
type Attribute struct {
	FloatVal  *float64 `json:"Float,omitempty" msg:",omitempty"`
	IntVal    *int64   `json:"Int,omitempty" msg:",omitempty"`
	StringVal *string  `json:"String,omitempty" msg:",omitempty"`
	BoolVal   *bool    `json:"Bool,omitempty" msg:",omitempty"`
	Unit      string   `msg:",omitempty"`
}
