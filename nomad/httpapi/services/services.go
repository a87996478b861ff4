// Package services has the HTTP endpoints of services.
package services

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of services.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/services", Serve: list},
	{Method: "DELETE", Pattern: "/v1/service/:id/:tag", Serve: remove}, // before the shorter one, whose id may have a slash
	{Method: "GET", Pattern: "/v1/service/:id", Serve: get},
	{Method: "GET", Pattern: "/v1/allocation/:id/services", Serve: ofAlloc},
	{Method: "GET", Pattern: "/v1/job/:id/services", Serve: ofJob},
}

func list(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ServiceList, &c.Query)
	if err != nil {
		return nil, err
	}
	return rows(out.Services), nil
}

func get(c *endpoint.Call) (any, error) {
	return instances(c, wire.ServiceGet, &api.ServiceRequest{ServiceName: c.ID, Choose: c.Params.Get("choose"), QueryOptions: c.Query})
}

func ofAlloc(c *endpoint.Call) (any, error) {
	return instances(c, wire.ServiceOfAlloc, &api.AllocRequest{AllocID: c.ID, QueryOptions: c.Query})
}

func ofJob(c *endpoint.Call) (any, error) {
	return instances(c, wire.ServiceOfJob, &api.JobRequest{JobID: c.ID, QueryOptions: c.Query})
}

func instances[Q any](c *endpoint.Call, m wire.Method[Q, api.ServiceInstancesResponse], req *Q) (any, error) {
	out, err := endpoint.Read(c, m, req)
	if err != nil {
		return nil, err
	}
	for _, row := range out.Instances {
		row.Tags = rows(row.Tags)
	}
	return rows(out.Instances), nil
}

func remove(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ServiceDelete, &api.ServiceDeleteRequest{ServiceName: c.ID, ID: c.Tag, WriteRequest: c.Writes()})
}

// rows makes an empty list of nil.
func rows[T any](list []T) []T { return append([]T{}, list...) }
