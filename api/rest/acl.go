package rest

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
)

// Objects reads and writes the objects of one kind that have a list of stubs S and one path per object T.
type Objects[T, S any] struct {
	c *Client
	// list and one are the paths of the list and of one object, without the id.
	list, one []string
}

func objects[T, S any](c *Client, list, one string) Objects[T, S] {
	return Objects[T, S]{c: c, list: strings.Split(list, "/"), one: strings.Split(one, "/")}
}

func (o Objects[T, S]) path(id string) []string {
	if id == "" {
		return o.one
	}
	return append(o.one[:len(o.one):len(o.one)], id)
}

// List lists the objects.
func (o Objects[T, S]) List(ctx context.Context, q Query) ([]*S, error) {
	out, _, err := get[[]*S](ctx, o.c, q, o.list...)
	return out, err
}

// Get reads one object.
func (o Objects[T, S]) Get(ctx context.Context, id string) (*T, error) {
	out, _, err := get[*T](ctx, o.c, Query{}, o.path(id)...)
	return out, err
}

// Write creates the object, or updates the one with the id unless the id is empty. It returns the object as it was stored.
func (o Objects[T, S]) Write(ctx context.Context, id string, v *T) (*T, error) {
	return put[T](ctx, o.c, nil, v, o.path(id)...)
}

// Put is Write for kinds whose response to a write is empty.
func (o Objects[T, S]) Put(ctx context.Context, id string, v *T) error {
	_, err := o.c.do(ctx, http.MethodPut, o.path(id), nil, v, nil)
	return err
}

// Delete deletes one object.
func (o Objects[T, S]) Delete(ctx context.Context, id string) error {
	_, err := o.c.do(ctx, http.MethodDelete, o.path(id), nil, nil, nil)
	return err
}

// ACLTokens are the ACL tokens by accessor ID.
func (c *Client) ACLTokens() Objects[api.ACLToken, api.ACLTokenListStub] {
	return objects[api.ACLToken, api.ACLTokenListStub](c, "acl/tokens", "acl/token")
}

// ACLPolicies are the ACL policies by name. They are written with Put.
func (c *Client) ACLPolicies() Objects[api.ACLPolicy, api.ACLPolicyListStub] {
	return objects[api.ACLPolicy, api.ACLPolicyListStub](c, "acl/policies", "acl/policy")
}

// ACLRoles are the ACL roles by id.
func (c *Client) ACLRoles() Objects[api.ACLRole, api.ACLRole] {
	return objects[api.ACLRole, api.ACLRole](c, "acl/roles", "acl/role")
}

// ACLAuthMethods are the auth methods by name.
func (c *Client) ACLAuthMethods() Objects[api.ACLAuthMethod, api.ACLAuthMethodListStub] {
	return objects[api.ACLAuthMethod, api.ACLAuthMethodListStub](c, "acl/auth-methods", "acl/auth-method")
}

// ACLBindingRules are the binding rules by id.
func (c *Client) ACLBindingRules() Objects[api.ACLBindingRule, api.ACLBindingRuleListStub] {
	return objects[api.ACLBindingRule, api.ACLBindingRuleListStub](c, "acl/binding-rules", "acl/binding-rule")
}

// ACLBootstrap creates the first management token, with the given secret unless it is empty.
func (c *Client) ACLBootstrap(ctx context.Context, secret string) (*api.ACLToken, error) {
	return put[api.ACLToken](ctx, c, nil, &api.ACLBootstrapRequest{BootstrapSecret: secret}, "acl", "bootstrap")
}

// ACLTokenSelf reads the client's own token.
func (c *Client) ACLTokenSelf(ctx context.Context) (*api.ACLToken, error) {
	out, _, err := get[*api.ACLToken](ctx, c, Query{}, "acl", "token", "self")
	return out, err
}

// ACLOneTimeToken makes a secret that can be exchanged once for the client's own token.
func (c *Client) ACLOneTimeToken(ctx context.Context) (*api.OneTimeToken, error) {
	out, err := put[struct{ OneTimeToken *api.OneTimeToken }](ctx, c, nil, nil, "acl", "token", "onetime")
	if err != nil {
		return nil, err
	}
	if out.OneTimeToken == nil {
		return nil, fault.New(fault.Internal, "the response has no one-time token")
	}
	return out.OneTimeToken, nil
}

// ACLPoliciesSelf lists the policies of the client's own token.
func (c *Client) ACLPoliciesSelf(ctx context.Context) ([]*api.ACLPolicyListStub, error) {
	out, _, err := get[[]*api.ACLPolicyListStub](ctx, c, Query{}, "acl", "policy", "self")
	return out, err
}

// ACLRoleByName reads one role by its name.
func (c *Client) ACLRoleByName(ctx context.Context, name string) (*api.ACLRole, error) {
	out, _, err := get[*api.ACLRole](ctx, c, Query{}, "acl", "role", "name", name)
	return out, err
}

// ACLLogin exchanges a JWT for a token.
func (c *Client) ACLLogin(ctx context.Context, r *api.ACLLoginRequest) (*api.ACLToken, error) {
	return put[api.ACLToken](ctx, c, nil, r, "acl", "login")
}

// ACLOIDCAuthURL begins a login at an identity provider.
func (c *Client) ACLOIDCAuthURL(ctx context.Context, r *api.ACLOIDCAuthURLRequest) (*api.ACLOIDCAuthURLResponse, error) {
	return put[api.ACLOIDCAuthURLResponse](ctx, c, nil, r, "acl", "oidc", "auth-url")
}

// ACLOIDCCompleteAuth ends a login at an identity provider.
func (c *Client) ACLOIDCCompleteAuth(ctx context.Context, r *api.ACLOIDCCompleteAuthRequest) (*api.ACLToken, error) {
	return put[api.ACLToken](ctx, c, nil, r, "acl", "oidc", "complete-auth")
}

// ACLExplain asks which rule permits or refuses a right to the token with the accessor, or to the client's own when that
// is empty. name is the namespace, node pool or host volume.
func (c *Client) ACLExplain(ctx context.Context, accessor string, right api.Right, name string) (*api.ACLExplainResponse, error) {
	q := url.Values{"on": {string(right.On)}, "capability": right.Any}
	for key, value := range map[string]string{"accessor": accessor, "name": name} {
		if value != "" {
			q.Set(key, value)
		}
	}
	out, _, err := get[*api.ACLExplainResponse](ctx, c, Query{Params: q}, "acl", "explain")
	return out, err
}
