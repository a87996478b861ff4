package login

import (
	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi/encode"
	"github.com/open-nomad/open-nomad/nomad/httpapi/endpoint"
)

// loginMax limits the bodies of logins: a token of 64 KiB and some texts.
const loginMax = 128 << 10

// Routes are the endpoints of auth methods, binding rules and logins.
var Routes = []endpoint.Route{
	{Method: "GET", Pattern: "/v1/acl/auth-methods", Serve: methods},
	{Method: "PUT", Pattern: "/v1/acl/auth-method", Serve: putMethod},
	{Method: "GET", Pattern: "/v1/acl/auth-method/:id", Serve: method},
	{Method: "PUT", Pattern: "/v1/acl/auth-method/:id", Serve: putMethod},
	{Method: "DELETE", Pattern: "/v1/acl/auth-method/:id", Serve: deleteMethod},
	{Method: "GET", Pattern: "/v1/acl/binding-rules", Serve: rules},
	{Method: "PUT", Pattern: "/v1/acl/binding-rule", Serve: putRule},
	{Method: "GET", Pattern: "/v1/acl/binding-rule/:id", Serve: rule},
	{Method: "PUT", Pattern: "/v1/acl/binding-rule/:id", Serve: putRule},
	{Method: "DELETE", Pattern: "/v1/acl/binding-rule/:id", Serve: deleteRule},
	{Method: "PUT", Pattern: "/v1/acl/login", Serve: login},
	{Method: "PUT", Pattern: "/v1/acl/oidc/auth-url", Serve: authURL},
	{Method: "PUT", Pattern: "/v1/acl/oidc/complete-auth", Serve: completeAuth},
}

func methods(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLAuthMethodList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Methods, func(m *api.ACLAuthMethod) any { return m.Stub() }), nil
}

func method(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLAuthMethodGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Method, "ACL auth-method not found")
}

func putMethod(c *endpoint.Call) (any, error) {
	var m api.ACLAuthMethod
	if err := c.Decode(endpoint.BodyMax, &m); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != m.Name {
		return nil, fault.New(fault.Invalid, "ACL auth-method name does not match request path")
	}
	out, err := endpoint.Write(c, wire.ACLAuthMethodUpsert, &api.ACLAuthMethodUpsertRequest{Method: &m, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	return out.(*api.ACLAuthMethodWriteResponse).Method, nil
}

func deleteMethod(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ACLAuthMethodDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}

func rules(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLBindingRuleList, &c.Query)
	if err != nil {
		return nil, err
	}
	return encode.Views(out.Rules, func(r *api.ACLBindingRule) any { return r.Stub() }), nil
}

func rule(c *endpoint.Call) (any, error) {
	out, err := endpoint.Read(c, wire.ACLBindingRuleGet, &api.NameRequest{Name: c.ID, QueryOptions: c.Query})
	if err != nil {
		return nil, err
	}
	return endpoint.Found(out.Rule, "ACL binding rule not found")
}

func putRule(c *endpoint.Call) (any, error) {
	var r api.ACLBindingRule
	if err := c.Decode(endpoint.BodyMax, &r); err != nil {
		return nil, err
	}
	if c.ID != "" && c.ID != r.ID {
		return nil, fault.New(fault.Invalid, "ACL binding rule ID does not match request path")
	}
	out, err := endpoint.Write(c, wire.ACLBindingRuleUpsert, &api.ACLBindingRuleUpsertRequest{Rule: &r, WriteRequest: c.Writes()})
	if err != nil {
		return nil, err
	}
	return out.(*api.ACLBindingRuleWriteResponse).Rule, nil
}

func deleteRule(c *endpoint.Call) (any, error) {
	return endpoint.WriteEmpty(c, wire.ACLBindingRuleDelete, &api.NameWriteRequest{Name: c.ID, WriteRequest: c.Writes()})
}

func login(c *endpoint.Call) (any, error) {
	r := &api.ACLLoginRequest{}
	if err := c.Decode(loginMax, r); err != nil {
		return nil, err
	}
	r.WriteRequest = c.Writes()
	return token(endpoint.Write(c, wire.ACLLogin, r))
}

func authURL(c *endpoint.Call) (any, error) {
	r := &api.ACLOIDCAuthURLRequest{}
	if err := c.Decode(loginMax, r); err != nil {
		return nil, err
	}
	r.WriteRequest = c.Writes()
	return wire.ACLOIDCAuthURL.Call(c.Context(), c.Servers, r)
}

func completeAuth(c *endpoint.Call) (any, error) {
	r := &api.ACLOIDCCompleteAuthRequest{}
	if err := c.Decode(loginMax, r); err != nil {
		return nil, err
	}
	r.WriteRequest = c.Writes()
	return token(endpoint.Write(c, wire.ACLOIDCCompleteAuth, r))
}

func token(out any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out.(*api.ACLTokenWriteResponse).Token, nil
}
