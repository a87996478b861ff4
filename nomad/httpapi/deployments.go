package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

var deploymentRoutes = []route{
	{method: "GET", pattern: "/v1/deployments", serve: deploymentList},
	{method: "GET", pattern: "/v1/deployment/:id", serve: deploymentGet},
}

func deploymentList(c *call) (any, error) {
	q := c.reads()
	out, err := wire.DeploymentList.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Deployments, func(d *api.Deployment) string { return byTime(d.CreateIndex, d.ID) })
}

func deploymentGet(c *call) (any, error) {
	out, err := wire.DeploymentGet.Call(c.ctx(), c.Servers, &api.DeploymentRequest{DeploymentID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Deployment == nil {
		return nil, missing("deployment not found")
	}
	return out.Deployment, nil
}
