package deployments

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of deployments. Their verbs stand before the id, unlike everywhere else.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/deployments", Serve: deploymentList},
	{Method: "GET", Pattern: "/v1/deployment/:id", Serve: deploymentGet},
	{Method: "GET", Pattern: "/v1/deployment/allocations/:id", Serve: deploymentAllocations},
	{Method: "PUT", Pattern: "/v1/deployment/fail/:id", Serve: deploymentFail},
	{Method: "PUT", Pattern: "/v1/deployment/pause/:id", Serve: change(wire.DeploymentPause, func(r *api.DeploymentPauseRequest) string { return r.DeploymentID })},
	{Method: "PUT", Pattern: "/v1/deployment/promote/:id", Serve: change(wire.DeploymentPromote, func(r *api.DeploymentPromoteRequest) string { return r.DeploymentID })},
	{Method: "PUT", Pattern: "/v1/deployment/allocation-health/:id", Serve: change(wire.DeploymentAllocHealth, func(r *api.DeploymentAllocHealthRequest) string { return r.DeploymentID })},
	{Method: "PUT", Pattern: "/v1/deployment/unblock/:id", Serve: change(wire.DeploymentUnblock, func(r *api.DeploymentWriteRequest) string { return r.DeploymentID })},
}

func deploymentList(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.DeploymentList, &c.Query)
	if err != nil {
		return nil, err
	}
	return out.Deployments, nil
}

func request(c *endpoint.Call) *api.DeploymentRequest {
	return &api.DeploymentRequest{DeploymentID: c.ID, QueryOptions: c.Query}
}

func deploymentGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.DeploymentGet, request(c))
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Deployment, "deployment not found")
}

func deploymentAllocations(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.DeploymentAllocations, request(c))
	if err != nil {
		return nil, err
	}
	return out.Allocs, nil
}

func deploymentFail(c *endpoint.Call) (any, error) {
	return endpoint.Write(c, wire.DeploymentFail, &api.DeploymentWriteRequest{DeploymentID: c.ID, WriteRequest: c.Writes()})
}

// writes is a request that has the options of a write.
type writes[Q any] interface {
	*Q
	Writes() *api.WriteRequest
}

// change is the endpoint of a method whose request is the body. The deployment that the body names, which it must, is
// that of the path.
func change[Q any, W writes[Q]](m wire.Method[Q, api.DeploymentUpdateResponse], id func(*Q) string) endpoint.Func {
	return func(c *endpoint.Call) (any, error) {
		req := new(Q)
		if err := c.Decode(endpoint.BodyMax, req); err != nil {
			return nil, err
		}
		switch named := id(req); {
		case named == "":
			return nil, fault.New(fault.Invalid, "DeploymentID must be specified")
		case named != c.ID:
			return nil, fault.New(fault.Invalid, "Deployment ID does not match: the path has %q, the body %q", c.ID, named)
		}
		*W(req).Writes() = c.Writes()
		return endpoint.Write(c, m, req)
	}
}
