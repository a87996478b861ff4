package nodes

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

// Routes are the endpoints of nodes and node pools.
func Routes() []endpoint.Route { return slices.Concat(nodeRoutes, poolRoutes, identityRoutes) }

var nodeRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/nodes", Serve: nodeList},
	{Method: "GET", Pattern: "/v1/node/:id", Serve: nodeGet},
	{Method: "PUT", Pattern: "/v1/node/:id/evaluate", Serve: nodeEvaluate},
	{Method: "PUT", Pattern: "/v1/node/:id/purge", Serve: nodePurge},
	{Method: "PUT", Pattern: "/v1/node/:id/eligibility", Serve: nodeEligibility},
	{Method: "PUT", Pattern: "/v1/node/:id/drain", Serve: nodeDrain},
	{Method: "GET", Pattern: "/v1/client/stats", Serve: clientStats, Right: api.Right{On: api.OnNode, Any: []string{"read"}}},
	{Method: "GET", Pattern: "/v1/client/metadata", Serve: nodeMeta, Right: api.Right{On: api.OnNode, Any: []string{"read"}}},
	{Method: "PUT", Pattern: "/v1/client/metadata", Serve: nodeMetaApply, Right: api.Right{On: api.OnNode, Any: []string{"write"}}},
	{Method: "*", Pattern: "/v1/client/gc", Serve: clientGC, Right: api.Right{On: api.OnNode, Any: []string{"write"}}},
}

func nodeList(c *endpoint.Call) (any, error) {
	return nodesOf(c, "")
}

// nodesOf lists nodes, of one node pool when it is named.
func nodesOf(c *endpoint.Call, pool string) (any, error) {
	resources, err := c.Bool("resources")
	if err != nil {
		return nil, err
	}
	system, err := c.Bool("os")
	if err != nil {
		return nil, err
	}
	out, err := endpoint.Read(c, wire.NodeList, &api.NodeListRequest{NodePool: pool, Resources: resources, OS: system, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return out.Nodes, nil
}

func nodeGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NodeGet, &api.NodeRequest{NodeID: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Node == nil {
		return nil, endpoint.Missing("node not found")
	}
	return view.Node(out.Node), nil
}

func nodeEvaluate(c *endpoint.Call) (any, error) {
	return endpoint.Write(c, wire.NodeEvaluate, &api.NodeWriteRequest{NodeID: c.ID, WriteRequest: c.Writes()})
}

func nodePurge(c *endpoint.Call) (any, error) {
	return endpoint.Write(c, wire.NodePurge, &api.NodeWriteRequest{NodeID: c.ID, WriteRequest: c.Writes()})
}

func nodeEligibility(c *endpoint.Call) (any, error) {
	var body struct{ NodeID, Eligibility string }
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if body.NodeID != "" && body.NodeID != c.ID {
		return nil, fault.New(fault.Invalid, "node id %q of the body is not %q of the path", body.NodeID, c.ID)
	}
	return endpoint.Write(c, wire.NodeEligibility, &api.NodeEligibilityRequest{NodeID: c.ID, Eligibility: body.Eligibility, WriteRequest: c.Writes()})
}

func nodeDrain(c *endpoint.Call) (any, error) {
	var body struct {
		NodeID       string
		DrainSpec    *api.DrainSpec
		MarkEligible bool
		Meta         map[string]string
	}
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	if body.NodeID != "" && body.NodeID != c.ID {
		return nil, fault.New(fault.Invalid, "node id %q of the body is not %q of the path", body.NodeID, c.ID)
	}
	return endpoint.Write(c, wire.NodeDrain, &api.NodeDrainRequest{
		NodeID: c.ID, DrainSpec: body.DrainSpec, MarkEligible: body.MarkEligible, Meta: body.Meta, WriteRequest: c.Writes(),
	})
}

func clientStats(c *endpoint.Call) (any, error) {
	node, id, err := c.ToNode(c.Params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientNodeStats.Call(c.Context(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return out.Stats, nil
}

func nodeMeta(c *endpoint.Call) (any, error) {
	node, id, err := c.ToNode(c.Params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	return wire.ClientNodeMeta.Call(c.Context(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.Query})
}

func nodeMetaApply(c *endpoint.Call) (any, error) {
	body := &api.NodeMetaChange{}
	if err := c.Decode(endpoint.BodyMax, body); err != nil {
		return nil, err
	}
	node, id, err := c.ToNode(cmp.Or(c.Params.Get("node_id"), body.NodeID))
	if err != nil {
		return nil, err
	}
	req := &api.NodeMetaApplyRequest{NodeID: id, Set: map[string]string{}, WriteRequest: c.Writes()}
	for key, value := range body.Meta {
		if value == nil {
			req.Unset = append(req.Unset, key)
		} else {
			req.Set[key] = *value
		}
	}
	return wire.ClientNodeMetaApply.Call(c.Context(), node, req)
}

func clientGC(c *endpoint.Call) (any, error) {
	node, id, err := c.ToNode(c.Params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	_, err = wire.ClientNodeGC.Call(c.Context(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.Query})
	return nil, err
}
