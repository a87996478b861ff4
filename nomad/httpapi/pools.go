package httpapi

import (
	"encoding/json"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
)

var poolRoutes = []route{
	{method: "GET", pattern: "/v1/node/pools", serve: poolList},
	{method: "PUT", pattern: "/v1/node/pools", serve: poolPut},
	{method: "GET", pattern: "/v1/node/pool/:id", serve: poolGet},
	{method: "PUT", pattern: "/v1/node/pool/:id", serve: poolPut},
	{method: "DELETE", pattern: "/v1/node/pool/:id", serve: poolDelete},
	{method: "GET", pattern: "/v1/node/pool/:id/nodes", serve: poolNodes},
	{method: "GET", pattern: "/v1/node/pool/:id/jobs", serve: poolJobs},
}

func poolList(c *call) (any, error) {
	q := c.reads()
	out, err := wire.NodePoolList.Call(c.ctx(), c.Servers, &q)
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	rows, err := page(c, out.Pools, byName(func(p *api.NodePool) string { return p.Name }))
	return views[api.NodePool]{rows, viewPool}, err
}

func poolGet(c *call) (any, error) {
	out, err := wire.NodePoolGet.Call(c.ctx(), c.Servers, &api.NameRequest{Name: c.id, QueryOptions: c.reads()})
	if err != nil {
		return nil, err
	}
	c.read(out.QueryMeta)
	if out.Pool == nil {
		return nil, missing("node pool not found")
	}
	return viewPool(out.Pool), nil
}

func poolPut(c *call) (any, error) {
	var body struct {
		api.NodePool
		NodeIdentityTTL span
	}
	if err := c.decode(bodyBytes, &body); err != nil {
		return nil, err
	}
	p := body.NodePool
	p.NodeIdentityTTL = time.Duration(body.NodeIdentityTTL)
	if c.id != "" && c.id != p.Name {
		return nil, fault.New(fault.Invalid, "Node pool name does not match request path")
	}
	return emptyWrite(c)(wire.NodePoolUpsert.Call(c.ctx(), c.Servers, &api.NodePoolUpsertRequest{Spec: &p, WriteRequest: c.writes()}))
}

func poolDelete(c *call) (any, error) {
	return emptyWrite(c)(wire.NodePoolDelete.Call(c.ctx(), c.Servers, &api.NameWriteRequest{Name: c.id, WriteRequest: c.writes()}))
}

// emptyWrite is a write that answers its index only.
func emptyWrite(c *call) func(*api.WriteMeta, error) (any, error) {
	return func(out *api.WriteMeta, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		c.wrote(*out)
		return nil, nil
	}
}

func poolNodes(c *call) (any, error) {
	if c.query.Prefix != "" {
		return nil, fault.New(fault.Invalid, "prefix argument not allowed")
	}
	return nodesWhere(c, func(n *api.NodeStub) bool { return c.id == api.NodePoolAll || n.NodePool == c.id })
}

func poolJobs(c *call) (any, error) {
	if c.query.Prefix != "" {
		return nil, fault.New(fault.Invalid, "prefix argument not allowed")
	}
	return jobsWhere(c, func(j *api.JobStub) bool { return j.NodePool == c.id })
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
