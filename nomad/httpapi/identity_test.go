package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/nomad/httpapi"
)

func TestDiscoveryNeedsAnIssuer(t *testing.T) {
	c := newCluster()
	out := &api.OIDCDiscoveryResponse{}
	on(c, wire.KeyringDiscovery, func(*api.QueryOptions) (*api.OIDCDiscoveryResponse, error) { return out, nil })
	h := httpapi.New(httpapi.Config{Servers: c})
	expect(t, send(h, "GET", "/.well-known/openid-configuration", ""), http.StatusNotFound, "OIDC Discovery endpoint disabled")
	out.OIDCDiscovery = &api.OIDCDiscovery{Issuer: "https://i.example", JWKS: "https://i.example/keys"}
	expect(t, send(h, "GET", "/.well-known/openid-configuration", ""), http.StatusOK, `"issuer":"https://i.example","jwks_uri":"https://i.example/keys"`)
}

func TestAWorkloadHasNoTokenOfItsOwn(t *testing.T) {
	c := newCluster()
	token := &api.ACLToken{AccessorID: "identity a1", Name: "global:default:web:g:t:default", Type: api.ACLClientToken}
	on(c, wire.ACLWhoAmI, func(*api.QueryOptions) (*api.ACLTokenResponse, error) {
		return &api.ACLTokenResponse{Token: token}, nil
	})
	h := httpapi.New(httpapi.Config{Servers: c})
	expect(t, send(h, "GET", "/v1/acl/token/self", ""), http.StatusNotFound, "ACL token not found")
	token.CreateIndex = 7
	expect(t, send(h, "GET", "/v1/acl/token/self", ""), http.StatusOK, `"identity a1"`)
}
