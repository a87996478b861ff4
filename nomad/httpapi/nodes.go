package httpapi

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var nodeRoutes = []route{
	{method: "GET", pattern: "/v1/nodes", serve: nodeList},
	{method: "GET", pattern: "/v1/node/:id", serve: nodeGet},
	{method: "GET", pattern: "/v1/node/:id/allocations", serve: nodeAllocations},
	{method: "PUT", pattern: "/v1/node/:id/evaluate", serve: nodeEvaluate},
	{method: "PUT", pattern: "/v1/node/:id/purge", serve: nodePurge},
	{method: "PUT", pattern: "/v1/node/:id/eligibility", serve: nodeEligibility},
	{method: "PUT", pattern: "/v1/node/:id/drain", serve: nodeDrain},
}

func nodeList(c *call) (any, error) { return nodesWhere(c, func(*api.NodeStub) bool { return true }) }

func nodesWhere(c *call, keep func(*api.NodeStub) bool) (any, error) {
	resources, err := boolean(c.params, "resources")
	if err != nil {
		return nil, err
	}
	system, err := boolean(c.params, "os")
	if err != nil {
		return nil, err
	}
	out, err := wire.NodeList.Call(c.ctx(), c.Servers, &api.NodeListRequest{Resources: resources, OS: system, QueryOptions: c.filters()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	return paged(c, kept(out.Nodes, keep), byName(func(n *api.NodeStub) string { return n.ID }))
}

func kept[T any](rows []*T, keep func(*T) bool) []*T {
	var out []*T
	for _, r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

func nodeGet(c *call) (any, error) {
	out, err := wire.NodeGet.Call(c.ctx(), c.Servers, &api.NodeRequest{NodeID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Node == nil {
		return nil, missing("node not found")
	}
	return nodeView{Node: out.Node.Redacted()}, nil
}

func nodeAllocations(c *call) (any, error) {
	out, err := wire.NodeAllocations.Call(c.ctx(), c.Servers, &api.NodeRequest{NodeID: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	views := make([]*allocView, 0, len(out.Allocs))
	for _, a := range out.Allocs {
		views = append(views, viewAlloc(a))
	}
	return views, nil
}

func nodeEvaluate(c *call) (any, error) {
	return nodeWrote(c)(wire.NodeEvaluate.Call(c.ctx(), c.Servers, &api.NodeWriteRequest{NodeID: c.id, WriteRequest: c.writes()}))
}

func nodePurge(c *call) (any, error) {
	return nodeWrote(c)(wire.NodePurge.Call(c.ctx(), c.Servers, &api.NodeWriteRequest{NodeID: c.id, WriteRequest: c.writes()}))
}

func nodeWrote(c *call) func(*api.NodeWriteResponse, error) (any, error) {
	return func(out *api.NodeWriteResponse, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.wrote(out.WriteMeta)
		return out, nil
	}
}

func nodeEligibility(c *call) (any, error) {
	var body struct{ NodeID, Eligibility string }
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	if body.NodeID != "" && body.NodeID != c.id {
		return nil, fault.New(fault.Invalid, "node id %q of the body is not %q of the path", body.NodeID, c.id)
	}
	return nodeWrote(c)(wire.NodeEligibility.Call(c.ctx(), c.Servers,
		&api.NodeEligibilityRequest{NodeID: c.id, Eligibility: body.Eligibility, WriteRequest: c.writes()}))
}

func nodeDrain(c *call) (any, error) {
	var body struct {
		NodeID       string
		DrainSpec    *api.DrainSpec
		MarkEligible bool
		Meta         map[string]string
	}
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	if body.NodeID != "" && body.NodeID != c.id {
		return nil, fault.New(fault.Invalid, "node id %q of the body is not %q of the path", body.NodeID, c.id)
	}
	return nodeWrote(c)(wire.NodeDrain.Call(c.ctx(), c.Servers, &api.NodeDrainRequest{
		NodeID: c.id, DrainSpec: body.DrainSpec, MarkEligible: body.MarkEligible, Meta: body.Meta, WriteRequest: c.writes(),
	}))
}
