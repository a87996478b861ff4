package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

// The verb of a deployment stands before its id, unlike everywhere else.
var deploymentRoutes = []route{
	{method: "GET", pattern: "/v1/deployments", serve: deploymentList},
	{method: "GET", pattern: "/v1/deployment/:id", serve: deploymentGet},
	{method: "GET", pattern: "/v1/deployment/allocations/:id", serve: deploymentAllocations},
	{method: "PUT", pattern: "/v1/deployment/fail/:id", serve: deploymentFail},
	{method: "PUT", pattern: "/v1/deployment/pause/:id", serve: deploymentPause},
	{method: "PUT", pattern: "/v1/deployment/promote/:id", serve: deploymentPromote},
	{method: "PUT", pattern: "/v1/deployment/allocation-health/:id", serve: deploymentAllocHealth},
	{method: "PUT", pattern: "/v1/deployment/unblock/:id", serve: deploymentUnblock},
}

func deploymentList(c *call) (any, error) {
	q := c.reads()
	out, err := wire.DeploymentList.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Deployments, byTime(func(d *api.Deployment) (uint64, string) { return d.CreateIndex, d.ID }))
}

func (c *call) deploymentRequest() *api.DeploymentRequest {
	return &api.DeploymentRequest{DeploymentID: c.id, QueryOptions: c.reads()}
}

func deploymentGet(c *call) (any, error) {
	out, err := wire.DeploymentGet.Call(c.ctx(), c.Servers, c.deploymentRequest())
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Deployment == nil {
		return nil, missing("deployment not found")
	}
	return out.Deployment, nil
}

func deploymentAllocations(c *call) (any, error) {
	out, err := wire.DeploymentAllocations.Call(c.ctx(), c.Servers, c.deploymentRequest())
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return list(out.Allocs), nil
}

// sameDeployment compares the deployment of a body, which must be named, with that of the path.
func (c *call) sameDeployment(id string) error {
	if id == "" {
		return fault.New(fault.Invalid, "DeploymentID must be specified")
	}
	if id != c.id {
		return fault.New(fault.Invalid, "Deployment ID does not match: the path says %q, the body %q", c.id, id)
	}
	return nil
}

func deploymentWrote(c *call) func(*api.DeploymentUpdateResponse, error) (any, error) {
	return func(out *api.DeploymentUpdateResponse, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.wrote(out.WriteMeta)
		return out, nil
	}
}

func deploymentFail(c *call) (any, error) {
	return deploymentWrote(c)(wire.DeploymentFail.Call(c.ctx(), c.Servers,
		&api.DeploymentWriteRequest{DeploymentID: c.id, WriteRequest: c.writes()}))
}

func deploymentPause(c *call) (any, error) {
	var req api.DeploymentPauseRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameDeployment(req.DeploymentID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	return deploymentWrote(c)(wire.DeploymentPause.Call(c.ctx(), c.Servers, &req))
}

func deploymentPromote(c *call) (any, error) {
	var req api.DeploymentPromoteRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameDeployment(req.DeploymentID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	return deploymentWrote(c)(wire.DeploymentPromote.Call(c.ctx(), c.Servers, &req))
}

func deploymentAllocHealth(c *call) (any, error) {
	var req api.DeploymentAllocHealthRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameDeployment(req.DeploymentID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	return deploymentWrote(c)(wire.DeploymentAllocHealth.Call(c.ctx(), c.Servers, &req))
}

func deploymentUnblock(c *call) (any, error) {
	var req api.DeploymentWriteRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if err := c.sameDeployment(req.DeploymentID); err != nil {
		return nil, err
	}
	req.WriteRequest = c.writes()
	return deploymentWrote(c)(wire.DeploymentUnblock.Call(c.ctx(), c.Servers, &req))
}
