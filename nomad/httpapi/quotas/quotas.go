package quotas

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of quotas.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/quotas", Serve: list},
	{Method: "GET", Pattern: "/v1/quota-usages", Serve: usages},
	{Method: "PUT", Pattern: "/v1/quota", Serve: put},
	{Method: "GET", Pattern: "/v1/quota/usage/:id", Serve: usage},
	{Method: "GET", Pattern: "/v1/quota/:id", Serve: get},
	{Method: "PUT", Pattern: "/v1/quota/:id", Serve: put},
	{Method: "DELETE", Pattern: "/v1/quota/:id", Serve: remove},
}

const missing = "Quota not found"

func list(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.QuotaList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Quotas, func(q *api.QuotaSpec) any { return q }), nil
}

func usages(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.QuotaUsages, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Usages, func(u *api.QuotaUsage) any { return u }), nil
}

func get(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.QuotaGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Quota, missing)
}

func usage(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.QuotaUsage, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Usage, missing)
}

func put(c *endpoint.Call) (any, error) {
	var q api.QuotaSpec
	if err := c.Decode(endpoint.BodyMax, &q); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != q.Name {
		return nil, fault.New(fault.Invalid, "Quota name does not match request path")
	}
	return endpoint.WriteEmpty(c, wire.QuotaUpsert, &api.QuotaUpsertRequest{Quota: &q, WriteRequest: c.Writes()})
}

func remove(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.QuotaDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}
