package httpapi

import (
	"cmp"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var scalingRoutes = []route{
	{method: "GET", pattern: "/v1/job/:id/scale", serve: jobScaleStatus},
	{method: "PUT", pattern: "/v1/job/:id/scale", serve: jobScale},
	{method: "GET", pattern: "/v1/scaling/policies", serve: scalingPolicies},
	{method: "GET", pattern: "/v1/scaling/policy/:id", serve: scalingPolicy},
}

func jobScaleStatus(c *call) (any, error) {
	req, err := c.jobRequest()
	if err != nil {
		return nil, err
	}
	out, err := wire.JobScaleStatus.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.JobScaleStatus == nil {
		return nil, missing("job not found")
	}
	return out.JobScaleStatus, nil
}

func jobScale(c *call) (any, error) {
	var req api.JobScaleRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	if id := cmp.Or(req.Target["Job"], req.JobID); id != "" && id != c.id {
		return nil, fault.New(fault.Invalid, "job ID in payload did not match URL: the path says %q, the body %q", c.id, id)
	}
	req.JobID, req.WriteRequest = c.id, c.writes()
	return jobWrote(c)(wire.JobScale.Call(c.ctx(), c.Servers, &req))
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

func scalingPolicies(c *call) (any, error) {
	out, err := wire.ScalingPolicyList.Call(c.ctx(), c.Servers,
		&api.ScalingPolicyListRequest{JobID: c.params.Get("job"), Type: c.params.Get("type"), QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	rows := make([]*scalingPolicyStub, 0, len(out.Policies))
	for _, p := range out.Policies {
		if !strings.HasPrefix(p.ID, c.query.Prefix) {
			continue
		}
		rows = append(rows, &scalingPolicyStub{p.ID, p.Enabled, p.Type, p.Target, p.CreateIndex, p.ModifyIndex})
	}
	return page(c, rows, byName(func(p *scalingPolicyStub) string { return p.ID }))
}

func scalingPolicy(c *call) (any, error) {
	out, err := wire.ScalingPolicyGet.Call(c.ctx(), c.Servers, &api.NameRequest{Name: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Policy == nil {
		return nil, missing("policy not found")
	}
	return out.Policy, nil
}
