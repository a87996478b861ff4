package jobs

import (
	"cmp"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var scalingRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/job/:id/scale", Serve: jobScaleStatus},
	{Method: "PUT", Pattern: "/v1/job/:id/scale", Serve: jobScale},
	{Method: "GET", Pattern: "/v1/scaling/policies", Serve: scalingPolicies},
	{Method: "GET", Pattern: "/v1/scaling/policy/:id", Serve: scalingPolicy},
}

func jobScaleStatus(c *endpoint.Call) (any, error) {
	out, err := ofJob(c, wire.JobScaleStatus)
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.JobScaleStatus, "job not found")
}

func jobScale(c *endpoint.Call) (any, error) {
	var req api.JobScaleRequest
	if err := c.Decode(endpoint.BodyMax, &req); err != nil {
		return nil, err
	}
	if id := cmp.Or(req.Target["Job"], req.JobID); id != "" && id != c.ID {
		return nil, fault.New(fault.Invalid, "job ID in payload did not match URL: the path has %q, the body %q", c.ID, id)
	}
	req.JobID, req.WriteRequest = c.ID, c.Writes()
	return endpoint.Write(c, wire.JobScale, &req)
}

// scalingPolicyStub is a row of the list of scaling policies.
type scalingPolicyStub struct {
	ID          string
	Enabled     bool
	Type        string
	Target      map[string]string
	CreateIndex uint64
	ModifyIndex uint64
}

func scalingPolicies(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ScalingPolicyList, &api.ScalingPolicyListRequest{JobID: c.Params.Get("job"), Type: c.Params.Get("type"), QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Policies, func(p *api.ScalingPolicy) any {
		return scalingPolicyStub{p.ID, p.Enabled, p.Type, p.Target, p.CreateIndex, p.ModifyIndex}
	}), nil
}

func scalingPolicy(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ScalingPolicyGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Policy, "policy not found")
}
