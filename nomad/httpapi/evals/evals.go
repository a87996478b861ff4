package evals

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of evaluations.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/evaluations", Serve: evalList},
	{Method: "DELETE", Pattern: "/v1/evaluations", Serve: evalDelete},
	{Method: "GET", Pattern: "/v1/evaluations/count", Serve: evalCount},
	{Method: "GET", Pattern: "/v1/evaluation/:id", Serve: evalGet},
	{Method: "GET", Pattern: "/v1/evaluation/:id/allocations", Serve: evalAllocations},
}

func listRequest(c *endpoint.Call) *api.EvalListRequest {
	return &api.EvalListRequest{JobID: c.Params.Get("job"), Status: c.Params.Get("status"), QueryOptions: c.Query}
}

func evalList(c *endpoint.Call) (any, error) {
	req := listRequest(c)
	if c.Query.Filter != "" && (req.JobID != "" || req.Status != "") {
		return nil, fault.New(fault.Invalid, "filter cannot be used together with job or status: put all conditions into the filter")
	}
	out, err := endpoint.ReadRows(c, wire.EvalList, req)
	if err != nil {
		return nil, err
	}
	return out.Evaluations, nil
}

func evalCount(c *endpoint.Call) (any, error) {
	return endpoint.Read(c, wire.EvalCount, listRequest(c))
}

func evalDelete(c *endpoint.Call) (any, error) {
	var req api.EvalDeleteRequest
	if err := c.Decode(endpoint.BodyMax, &req); err != nil {
		return nil, err
	}
	switch {
	case len(req.EvalIDs) > 0 && req.Filter != "":
		return nil, fault.New(fault.Invalid, "evals cannot be deleted by both ID and filter")
	case len(req.EvalIDs) == 0 && req.Filter == "":
		return nil, fault.New(fault.Invalid, "evals must be deleted by either ID or filter")
	}
	req.WriteRequest = c.Writes()
	out, err := wire.EvalDelete.Call(c.Context(), c.Servers, &req)
	if err != nil {
		return nil, err
	}
	c.SetWrote(out.WriteMeta)
	return struct{ Count int }{out.Count}, nil
}

func evalGet(c *endpoint.Call) (any, error) {
	related, err := c.Bool("related")
	if err != nil {
		return nil, err
	}
	out, err := endpoint.Read(c, wire.EvalGet, &api.EvalRequest{EvalID: c.ID, Related: related, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Eval, "eval not found")
}

func evalAllocations(c *endpoint.Call) (any, error) {
	out, err := endpoint.ReadRows(c, wire.EvalAllocations, &api.EvalRequest{EvalID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return out.Allocs, nil
}
