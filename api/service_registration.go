package api

// ServiceRegistration is an instance of a service that an allocation offers.
type ServiceRegistration struct {
	// ID is made of the allocation, the group or the task, the service and the port.
	ID          string   `msg:",omitempty"`
	ServiceName string   `msg:",omitempty"`
	Namespace   string   `msg:",omitempty"`
	NodeID      string   `msg:",omitempty"`
	Datacenter  string   `msg:",omitempty"`
	JobID       string   `msg:",omitempty"`
	AllocID     string   `msg:",omitempty"`
	Tags        []string `msg:",omitempty"`
	Address     string   `msg:",omitempty"`
	// Port is 0 when the service has none.
	Port        int    `msg:",omitempty"`
	CreateIndex uint64 `msg:",omitempty"`
	ModifyIndex uint64 `msg:",omitempty"`
}

// ServiceNamespace lists the services of one namespace.
type ServiceNamespace struct {
	Namespace string         `msg:",omitempty"`
	Services  []*ServiceStub `msg:",omitempty"`
}

// ServiceStub is a service with the tags of all its instances.
type ServiceStub struct {
	ServiceName string   `msg:",omitempty"`
	Tags        []string `msg:",omitempty"`
}

// ServiceListResponse lists services by namespace and name.
type ServiceListResponse struct {
	Services []*ServiceNamespace `msg:",omitempty"`
	QueryMeta
}

// ServiceRequest names a service.
type ServiceRequest struct {
	ServiceName string `msg:",omitempty"`
	// Choose picks instances: "<number>|<key>" returns the same ones for the same key while they are there; empty returns all.
	Choose string `msg:",omitempty"`
	QueryOptions
}

// ServiceInstancesResponse lists instances of services.
type ServiceInstancesResponse struct {
	Instances []*ServiceRegistration `msg:",omitempty"`
	QueryMeta
}

// ServiceDeleteRequest names one instance of a service.
type ServiceDeleteRequest struct {
	ServiceName string `msg:",omitempty"`
	ID          string `msg:",omitempty"`
	WriteRequest
}
