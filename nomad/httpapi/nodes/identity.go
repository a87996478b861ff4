package nodes

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

var identityRoutes = []endpoint.Route{
	{Method: "PUT", Pattern: "/v1/acl/identity/client-introduction-token", Serve: introduce},
	{Method: "GET", Pattern: "/v1/client/identity", Serve: identity, Right: api.Right{On: api.OnNode, Any: []string{"read"}}},
	{Method: "PUT", Pattern: "/v1/client/identity/renew", Serve: renewIdentity, Right: api.Right{On: api.OnNode, Any: []string{"write"}}},
}

func introduce(c *endpoint.Call) (any, error) {
	var body struct {
		TTL                span
		NodeName, NodePool string
	}
	if err := c.DecodeMaybe(&body); err != nil {
		return nil, err
	}
	return endpoint.Write(c, wire.ACLIntroduceNode, &api.NodeIntroductionRequest{
		TTL: time.Duration(body.TTL), NodeName: body.NodeName, NodePool: body.NodePool, WriteRequest: c.Writes(),
	})
}

func identity(c *endpoint.Call) (any, error) {
	node, id, err := c.ToNode(c.Params.Get("node_id"))
	if err != nil {
		return nil, err
	}
	out, err := wire.ClientNodeIdentity.Call(c.Context(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return struct{ Claims json.RawMessage }{out.Claims}, nil
}

func renewIdentity(c *endpoint.Call) (any, error) {
	var body struct{ NodeID string }
	if err := c.DecodeMaybe(&body); err != nil {
		return nil, err
	}
	node, id, err := c.ToNode(cmp.Or(c.Params.Get("node_id"), body.NodeID))
	if err != nil {
		return nil, err
	}
	return wire.ClientNodeIdentityRenew.Call(c.Context(), node, &api.NodeRequest{NodeID: id, QueryOptions: c.Query})
}
