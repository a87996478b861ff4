package acl

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// Routes are the endpoints of tokens, policies and roles.
var Routes = []endpoint.Route{
	{Method: "PUT", Pattern: "/v1/acl/bootstrap", Serve: bootstrap},
	{Method: "GET", Pattern: "/v1/acl/explain", Serve: explain},
	{Method: "GET", Pattern: "/v1/acl/tokens", Serve: tokens},
	{Method: "PUT", Pattern: "/v1/acl/token", Serve: putToken},
	{Method: "GET", Pattern: "/v1/acl/token/self", Serve: self},
	{Method: "GET", Pattern: "/v1/acl/token/:id", Serve: token},
	{Method: "PUT", Pattern: "/v1/acl/token/:id", Serve: putToken},
	{Method: "DELETE", Pattern: "/v1/acl/token/:id", Serve: deleteToken},
	{Method: "PUT", Pattern: "/v1/acl/token/onetime", Serve: oneTimeToken},
	{Method: "PUT", Pattern: "/v1/acl/token/onetime/exchange", Serve: exchange},
	{Method: "GET", Pattern: "/v1/acl/policies", Serve: policies},
	{Method: "GET", Pattern: "/v1/acl/policy/self", Serve: policies},
	{Method: "GET", Pattern: "/v1/acl/policy/:id", Serve: onePolicy},
	{Method: "PUT", Pattern: "/v1/acl/policy/:id", Serve: putPolicy},
	{Method: "DELETE", Pattern: "/v1/acl/policy/:id", Serve: deletePolicy},
	{Method: "GET", Pattern: "/v1/acl/roles", Serve: roles},
	{Method: "PUT", Pattern: "/v1/acl/role", Serve: putRole},
	{Method: "GET", Pattern: "/v1/acl/role/:id", Serve: roleByID},
	{Method: "GET", Pattern: "/v1/acl/role/name/:id", Serve: roleByName},
	{Method: "PUT", Pattern: "/v1/acl/role/:id", Serve: putRole},
	{Method: "DELETE", Pattern: "/v1/acl/role/:id", Serve: deleteRole},
}

func bootstrap(c *endpoint.Call) (any, error) {
	var r api.ACLBootstrapRequest
	if err := c.DecodeMaybe(&r); err != nil {
		return nil, err
	}
	r.WriteRequest = c.Writes()
	return written(endpoint.Write(c, wire.ACLBootstrap, &r))
}

// written is the token in the reply of a write.
func written(out any, err error) (any, error) {
	if r, ok := out.(*api.ACLTokenWriteResponse); ok && err == nil {
		return shown(r.Token), nil
	}
	return nil, err
}

// shown is a token whose list of policies is there, if it is not a management token.
func shown(t *api.ACLToken) *api.ACLToken {
	if t == nil || t.Type != api.ACLClientToken || t.Policies != nil {
		return t
	}
	c := *t
	c.Policies = []string{}
	return &c
}

func tokens(c *endpoint.Call) (any, error) {
	global, err := c.Bool("global")
	if err != nil {
		return nil, err
	}
	out, err := endpoint.Read(c, wire.ACLTokenList, &api.ACLTokenListRequest{GlobalOnly: global, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Tokens, func(t *api.ACLToken) any { return shown(t).Stub() }), nil
}

func self(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLWhoAmI, &c.Query)
	if err == nil && out.Token != nil && out.Token.CreateIndex == 0 { // a workload has an identity and no token
		out.Token = nil
	}
	return found(out, err)
}

func token(c *endpoint.Call) (any, error) {
	return found(endpoint.Read(c, wire.ACLTokenGet, &api.ACLTokenRequest{AccessorID: c.ID, QueryOptions: c.Query}))
}

func found(out *api.ACLTokenResponse, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return endpoint.Found(shown(out.Token), "ACL token not found")
}

func putToken(c *endpoint.Call) (any, error) {
	var t api.ACLToken
	if err := c.Decode(endpoint.BodyMax, &t); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != t.AccessorID {
		return nil, fault.New(fault.Invalid, "ACL token accessor does not match request path")
	}
	return written(endpoint.Write(c, wire.ACLTokenUpsert, &api.ACLTokenUpsertRequest{Token: &t, WriteRequest: c.Writes()}))
}

func deleteToken(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ACLTokenDelete, &api.ACLTokenDeleteRequest{AccessorIDs: []string{c.ID}, WriteRequest: c.Writes()})
}

func oneTimeToken(c *endpoint.Call) (any, error) {
	return endpoint.Write(c, wire.ACLOneTimeToken, &api.OneTimeTokenRequest{WriteRequest: c.Writes()})
}

func exchange(c *endpoint.Call) (any, error) {
	var r api.OneTimeTokenExchangeRequest
	if err := c.Decode(endpoint.BodyMax, &r); err != nil {
		return nil, err
	}
	r.WriteRequest = c.Writes()
	out, err := endpoint.Write(c, wire.ACLOneTimeExchange, &r)
	if r, ok := out.(*api.ACLTokenWriteResponse); ok {
		r.Token = shown(r.Token)
	}
	return out, err
}

func policies(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLPolicyList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Policies, func(p *api.ACLPolicy) any { return p.Stub() }), nil
}

// policyView is a policy with its rules in JSON.
type policyView struct {
	*api.ACLPolicy
	RulesJSON *policy.Policy
}

func onePolicy(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLPolicyGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	if out.Policy == nil {
		return nil, endpoint.Missing("ACL policy not found")
	}
	rules, err := policy.Parse(out.Policy.Rules)
	if err != nil {
		rules = nil // stored by a server that knows more
	}
	return policyView{out.Policy, rules}, nil
}

func putPolicy(c *endpoint.Call) (any, error) {
	var p api.ACLPolicy
	if err := c.Decode(endpoint.BodyMax, &p); err != nil {
		return nil, err
	}
	if c.ID != p.Name {
		return nil, fault.New(fault.Invalid, "ACL policy name does not match request path")
	}
	return endpoint.WriteEmpty(c, wire.ACLPolicyUpsert, &api.ACLPolicyUpsertRequest{Policies: []*api.ACLPolicy{&p}, WriteRequest: c.Writes()})
}

func deletePolicy(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ACLPolicyDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}

func roles(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLRoleList, &c.Query)
	if err != nil {
		return nil, err
	}
	return endpoint.List(out.Roles), nil
}

func roleByID(c *endpoint.Call) (any, error) {
	return role(c, &api.ACLRoleRequest{ID: c.ID, QueryOptions: c.Query})
}

func roleByName(c *endpoint.Call) (any, error) {
	return role(c, &api.ACLRoleRequest{Name: c.ID, QueryOptions: c.Query})
}

func role(c *endpoint.Call, r *api.ACLRoleRequest) (any, error) {
	out, err := endpoint.Read(c, wire.ACLRoleGet, r)
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Role, "ACL role not found")
}

func putRole(c *endpoint.Call) (any, error) {
	var r api.ACLRole
	if err := c.Decode(endpoint.BodyMax, &r); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != r.ID {
		return nil, fault.New(fault.Invalid, "ACL role ID does not match request path")
	}
	out, err := endpoint.Write(c, wire.ACLRoleUpsert, &api.ACLRoleUpsertRequest{Role: &r, WriteRequest: c.Writes()})
	if r, ok := out.(*api.ACLRoleWriteResponse); ok && err == nil {
		return r.Role, nil
	}
	return nil, err
}

func deleteRole(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ACLRoleDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}
