package acl

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// explain returns the rule that permits or refuses a right:
// GET /v1/acl/explain?on=namespace&name=dev&capability=submit-job&accessor=ID.
func explain(c *endpoint.Call) (any, error) {
	right := api.Right{On: api.RightOn(c.Params.Get("on")), Any: c.Params["capability"]}
	if err := policy.Check(right); err != nil {
		return nil, err
	}
	return endpoint.Read(c, wire.ACLExplain, &api.ACLExplainRequest{
		AccessorID: c.Params.Get("accessor"), Right: right, Name: c.Params.Get("name"), QueryOptions: c.Query,
	})
}
