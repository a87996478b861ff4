package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

var evalRoutes = []route{
	{method: "GET", pattern: "/v1/evaluations", serve: evalList},
	{method: "GET", pattern: "/v1/evaluations/count", serve: evalCount},
	{method: "GET", pattern: "/v1/evaluation/:id", serve: evalGet},
	{method: "GET", pattern: "/v1/evaluation/:id/allocations", serve: evalAllocations},
}

func evals(c *call) ([]*api.Evaluation, error) {
	out, err := wire.EvalList.Call(c.ctx(), c.Servers, &api.EvalListRequest{
		JobID: c.params.Get("job"), Status: c.params.Get("status"), QueryOptions: c.reads(),
	})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return page(c, out.Evaluations, func(e *api.Evaluation) string { return byTime(e.CreateIndex, e.ID) })
}

func evalList(c *call) (any, error) { return evals(c) }

func evalCount(c *call) (any, error) {
	rows, err := evals(c)
	if err != nil {
		return nil, err
	}
	return struct{ Count int }{len(rows)}, nil
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
	c.read(out.QueryMeta)
	return list(out.Allocs), nil
}
