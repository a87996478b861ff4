package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/filter"
)

var evalRoutes = []route{
	{method: "GET", pattern: "/v1/evaluations", serve: evalList},
	{method: "DELETE", pattern: "/v1/evaluations", serve: evalDelete},
	{method: "GET", pattern: "/v1/evaluations/count", serve: evalCount},
	{method: "GET", pattern: "/v1/evaluation/:id", serve: evalGet},
	{method: "GET", pattern: "/v1/evaluation/:id/allocations", serve: evalAllocations},
}

func (c *call) evalListRequest() *api.EvalListRequest {
	return &api.EvalListRequest{JobID: c.params.Get("job"), Status: c.params.Get("status"), QueryOptions: c.reads()}
}

func evalList(c *call) (any, error) {
	req := c.evalListRequest()
	if c.query.Filter != "" && (req.JobID != "" || req.Status != "") {
		return nil, fault.New(fault.Invalid, "filter cannot be used together with job or status: say all of it in the filter")
	}
	out, err := wire.EvalList.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	return page(c, out.Evaluations, byTime(func(e *api.Evaluation) (uint64, string) { return e.CreateIndex, e.ID }))
}

// evalCount lets the servers count, unless a filter needs the rows.
func evalCount(c *call) (any, error) {
	req := c.evalListRequest()
	if c.query.Filter == "" {
		out, err := wire.EvalCount.Call(c.ctx(), c.Servers, req)
		if err != nil {
			return nil, err
		}
		c.read(out.QueryMeta)
		return out, nil
	}
	out, err := wire.EvalList.Call(c.ctx(), c.Servers, req)
	if err != nil {
		return nil, err
	}
	rows, err := filter.Rows(c.ctx(), out.Evaluations, c.query.Filter, itself)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return &api.EvalCountResponse{Count: len(rows), QueryMeta: out.QueryMeta}, nil
}

func evalDelete(c *call) (any, error) {
	var req api.EvalDeleteRequest
	if err := c.decode(bodyBytes, &req); err != nil {
		return nil, err
	}
	switch {
	case len(req.EvalIDs) > 0 && req.Filter != "":
		return nil, fault.New(fault.Invalid, "evals cannot be deleted by both ID and filter")
	case len(req.EvalIDs) == 0 && req.Filter == "":
		return nil, fault.New(fault.Invalid, "evals must be deleted by either ID or filter")
	}
	req.WriteRequest = c.writes()
	out, err := wire.EvalDelete.Call(c.ctx(), c.Servers, &req)
	if err != nil {
		return nil, err
	}
	c.wrote(out.WriteMeta)
	return struct{ Count int }{out.Count}, nil
}

func evalGet(c *call) (any, error) {
	related, err := boolean(c.params, "related")
	if err != nil {
		return nil, err
	}
	out, err := wire.EvalGet.Call(c.ctx(), c.Servers, &api.EvalRequest{EvalID: c.id, Related: related, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Eval == nil {
		return nil, missing("eval not found")
	}
	return out.Eval, nil
}

func evalAllocations(c *call) (any, error) {
	out, err := wire.EvalAllocations.Call(c.ctx(), c.Servers, &api.EvalRequest{EvalID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.readRows(out.QueryMeta)
	return list(out.Allocs), nil
}
