package wire

import "github.com/open-nomad/open-nomad/api"

// Methods of ServiceRegistration. A workload may read the services of its namespace.
var (
	// ServiceList lists the services of namespaces.
	ServiceList = Method[api.QueryOptions, api.ServiceListResponse]{"ServiceRegistration.List", Any, ByUser, judged}
	// ServiceGet lists the instances of a service.
	ServiceGet = Method[api.ServiceRequest, api.ServiceInstancesResponse]{"ServiceRegistration.GetService", Any, ByUser, judged}
	// ServiceDelete deletes one instance of a service.
	ServiceDelete = Method[api.ServiceDeleteRequest, api.WriteMeta]{"ServiceRegistration.DeleteByID", Leader, ByUser, inNamespace("submit-job", "delete-service-registration")}
	// ServiceOfAlloc lists the instances of services that an allocation offers.
	ServiceOfAlloc = Method[api.AllocRequest, api.ServiceInstancesResponse]{"Alloc.GetServiceRegistrations", Any, ByUser, ofRow("read-job")}
	// ServiceOfJob lists the instances of services that a job offers.
	ServiceOfJob = Method[api.JobRequest, api.ServiceInstancesResponse]{"Job.GetServiceRegistrations", Any, ByUser, readJob}
)
