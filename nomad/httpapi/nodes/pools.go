package nodes

import (
	"encoding/json"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
	"github.com/open-nomad/open-nomad/nomad/httpapi/view"
)

var poolRoutes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/node/pools", Serve: poolList},
	{Method: "PUT", Pattern: "/v1/node/pools", Serve: poolPut},
	{Method: "GET", Pattern: "/v1/node/pool/:id", Serve: poolGet},
	{Method: "PUT", Pattern: "/v1/node/pool/:id", Serve: poolPut},
	{Method: "DELETE", Pattern: "/v1/node/pool/:id", Serve: poolDelete},
	{Method: "GET", Pattern: "/v1/node/pool/:id/nodes", Serve: poolNodes},
}

func poolList(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NodePoolList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Pools, view.Pool), nil
}

func poolGet(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.NodePoolGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Pool == nil {
		return nil, endpoint.Missing("node pool not found")
	}
	return view.Pool(out.Pool), nil
}

func poolPut(c *endpoint.Call) (any, error) {
	var body struct {
		api.NodePool
		NodeIdentityTTL span
	}
	if err := c.Decode(endpoint.BodyMax, &body); err != nil {
		return nil, err
	}
	p := body.NodePool
	p.NodeIdentityTTL = time.Duration(body.NodeIdentityTTL)
	if c.ID != "" && c.ID != p.Name {
		return nil, fault.New(fault.Invalid, "Node pool name does not match request path")
	}
	return endpoint.WriteEmpty(c, wire.NodePoolUpsert, &api.NodePoolUpsertRequest{Spec: &p, WriteRequest: c.Writes()})
}

func poolDelete(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.NodePoolDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}

func poolNodes(c *endpoint.Call) (any, error) {
	if c.Query.Prefix != "" {
		return nil, fault.New(fault.Invalid, "prefix argument not allowed")
	}
	return nodesOf(c, c.ID)
}

// span is a duration in a body: a number of nanoseconds or a text such as "24h"; no text is none.
type span time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (s *span) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return json.Unmarshal(b, (*time.Duration)(s))
	}
	if text == "" {
		*s = 0
		return nil
	}
	d, err := time.ParseDuration(text)
	*s = span(d)
	return err
}
